// fp16 and bf16 on the host: conversions to and from float, round to nearest even, NaN kept.
#ifndef TESSERA_BASE_SMALL_FLOAT_H_
#define TESSERA_BASE_SMALL_FLOAT_H_

#include <cstdint>
#include <cstring>

namespace tessera {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t FloatToBf16(float value) {
  uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >> 16) | 0x40;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
inline float Bf16ToFloat(uint16_t bits) { return FloatFromBits(static_cast<uint32_t>(bits) << 16); }

inline uint16_t FloatToHalf(float value) {
  uint32_t bits = FloatBits(value);
  uint16_t sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or above
  if (bits < 0x38800000) {                        // subnormal: let the addition round at the right place
    float shifted = FloatFromBits(bits) + 0.5f;   // 2^-24 is the last place of 0.5 in fp32
    return sign | static_cast<uint16_t>(FloatBits(shifted) - FloatBits(0.5f));
  }
  bits += 0xfff + ((bits >> 13) & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000) >> 13);
}
inline float HalfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00) return FloatFromBits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest < 0x400) return FloatFromBits(sign | FloatBits(static_cast<float>(rest) * 0x1p-24f));
  return FloatFromBits(sign | ((rest << 13) + 0x38000000));
}

}  // namespace tessera

#endif  // TESSERA_BASE_SMALL_FLOAT_H_
