// Element kinds of the interpreter and bit-exact conversions of its float formats.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_FORMATS_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_FORMATS_H_

#include <cstdint>
#include <cstring>

namespace tessera::interpreter {

// How one element is stored. kI1 takes a byte that holds 0 or 1. Pointers are kI64.
enum class Kind : uint8_t {
  kI1, kI8, kI16, kI32, kI64, kF16, kBf16, kF32, kF64,
  kF8E4M3Fn, kF8E5M2, kF8E4M3Fnuz, kF8E5M2Fnuz, kF8E4M3B11Fnuz,
};

int Bytes(Kind kind);
bool IsFloat(Kind kind);
// f16, bf16 and fp8: computed in fp32 and rounded back after each operation.
bool IsSmallFloat(Kind kind);

template <typename To, typename From>
inline To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Rounds `value` to a format of at most 16 bits (a small float) and returns its bits. Nearest even, or toward zero.
// fp8 formats saturate to their largest finite value, infinities included; f16 and bf16 overflow to infinity. NaN
// stays NaN (canonical in fp8).
uint32_t EncodeSmallFloat(Kind kind, double value, bool toward_zero);
// The exact value of the bits of a small float.
float DecodeSmallFloat(Kind kind, uint32_t bits);

// fp64 to fp32 toward zero.
float TruncateToFloat(double value);

inline float Bf16ToFloat(uint16_t bits) { return BitCast<float>(uint32_t{bits} << 16); }

inline uint16_t FloatToBf16(float value) {
  uint32_t u = BitCast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t((u >> 16) | 0x40u);  // NaN stays NaN
  return uint16_t((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

inline float F16ToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return BitCast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // As a float with the same exponent field the value is 2^112 too small; the product is exact, also for subnormals.
  float scaled = BitCast<float>(magnitude << 13) * BitCast<float>(uint32_t{(127 + 112) << 23});
  return BitCast<float>(BitCast<uint32_t>(scaled) | sign);
}

inline uint16_t FloatToF16(float value) {
  uint32_t u = BitCast<uint32_t>(value), sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
  if (u >= 0x47800000u) return uint16_t(sign | 0x7c00u);  // 65536 and above
  if (u < 0x38800000u) {  // below 2^-14: the addition to 0.5 rounds at the last place of an f16 subnormal
    float shifted = BitCast<float>(u) + 0.5f;
    return uint16_t(sign | (BitCast<uint32_t>(shifted) - 0x3f000000u));
  }
  return uint16_t(sign | ((u - 0x38000000u + 0xfffu + ((u >> 13) & 1)) >> 13));
}

// Arrays of small floats to and from fp32 (`encode` rounds to nearest even).
void DecodeLanes(Kind kind, const void* source, float* result, int64_t lanes);
void EncodeLanes(Kind kind, const float* source, void* result, int64_t lanes);

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_FORMATS_H_
