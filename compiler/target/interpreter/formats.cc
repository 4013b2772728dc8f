#include "compiler/target/interpreter/formats.h"

#include <array>
#include <cmath>

#include "base/check.h"

namespace tessera::interpreter {
namespace {

enum class Specials {
  kIeee,  // largest exponent: infinities and NaN
  kFn,    // all ones is NaN, no infinity
  kFnuz,  // the code of minus zero is NaN, no infinity
};

struct Format {
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
  bool saturates;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign() const { return 1u << (bits() - 1); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }  // kIeee only
  uint32_t largest() const {
    if (specials == Specials::kIeee) return infinity() - 1;
    return specials == Specials::kFn ? sign() - 2 : sign() - 1;
  }
};

Format FormatOf(Kind kind) {
  switch (kind) {
    case Kind::kF16: return {5, 10, 15, Specials::kIeee, false};
    case Kind::kBf16: return {8, 7, 127, Specials::kIeee, false};
    case Kind::kF8E4M3Fn: return {4, 3, 7, Specials::kFn, true};
    case Kind::kF8E5M2: return {5, 2, 15, Specials::kIeee, true};
    case Kind::kF8E4M3Fnuz: return {4, 3, 8, Specials::kFnuz, true};
    case Kind::kF8E5M2Fnuz: return {5, 2, 16, Specials::kFnuz, true};
    case Kind::kF8E4M3B11Fnuz: return {4, 3, 11, Specials::kFnuz, true};
    default: break;
  }
  TESSERA_CHECK(false, "only formats of 8 and 16 bits have a description");
  return {};
}

uint32_t EncodeNan(Kind kind, const Format& format, uint64_t bits) {
  if (format.specials == Specials::kFnuz) return format.sign();
  if (format.bits() == 8) return format.sign() - 1;
  uint32_t payload = uint32_t(bits >> (52 - format.mantissa_bits)) & ((1u << format.mantissa_bits) - 1);
  uint32_t quiet = 1u << (format.mantissa_bits - 1);
  return (bits >> 63 ? format.sign() : 0) | format.infinity() | quiet | payload;
}

float DecodeByFormat(const Format& format, uint32_t code) {
  bool negative = code & format.sign();
  uint32_t magnitude = code & (format.sign() - 1);
  double sign = negative ? -1.0 : 1.0;
  if (format.specials == Specials::kFnuz && negative && magnitude == 0) return std::nanf("");
  if (magnitude > format.largest()) {
    bool infinite = format.specials == Specials::kIeee && magnitude == format.infinity();
    return infinite ? float(sign * INFINITY) : BitCast<float>((negative ? 0xffc00000u : 0x7fc00000u));
  }
  int exponent = magnitude >> format.mantissa_bits;
  uint32_t fraction = magnitude & ((1u << format.mantissa_bits) - 1);
  if (exponent == 0) return float(sign * std::ldexp(double(fraction), 1 - format.bias - format.mantissa_bits));
  fraction |= 1u << format.mantissa_bits;
  return float(sign * std::ldexp(double(fraction), exponent - format.bias - format.mantissa_bits));
}

using Table = std::array<float, 256>;

const Table& DecodeTable(Kind kind) {
  static const auto* tables = [] {
    auto* all = new std::array<Table, 5>;
    for (int k = 0; k < 5; ++k) {
      Format format = FormatOf(Kind(int(Kind::kF8E4M3Fn) + k));
      for (int code = 0; code < 256; ++code) (*all)[k][code] = DecodeByFormat(format, code);
    }
    return all;
  }();
  return (*tables)[int(kind) - int(Kind::kF8E4M3Fn)];
}

}  // namespace

int Bytes(Kind kind) {
  switch (kind) {
    case Kind::kI16: case Kind::kF16: case Kind::kBf16: return 2;
    case Kind::kI32: case Kind::kF32: return 4;
    case Kind::kI64: case Kind::kF64: return 8;
    default: return 1;
  }
}

bool IsFloat(Kind kind) { return kind >= Kind::kF16; }
bool IsSmallFloat(Kind kind) { return IsFloat(kind) && kind != Kind::kF32 && kind != Kind::kF64; }

uint32_t EncodeSmallFloat(Kind kind, double value, bool toward_zero) {
  const Format format = FormatOf(kind);
  const uint64_t bits = BitCast<uint64_t>(value);
  if (std::isnan(value)) return EncodeNan(kind, format, bits);
  uint32_t sign = bits >> 63 ? format.sign() : 0, code;
  if (std::isinf(value)) {
    code = format.saturates ? format.largest() : format.infinity();
  } else {
    // |value| = significand * 2^(exponent - 52); subnormal doubles are far below every format's smallest value.
    int exponent = int(bits >> 52 & 0x7ff) - 1023;
    uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | (exponent == -1023 ? 0 : uint64_t{1} << 52);
    int biased = exponent + format.bias, shift = 52 - format.mantissa_bits;
    if (biased < 1) {
      shift += 1 - biased;
      biased = 1;
    }
    if (shift > 54) shift = 54;  // all of it lies below half of the last place
    uint64_t kept = significand >> shift, rest = significand & ((uint64_t{1} << shift) - 1);
    uint64_t half = uint64_t{1} << (shift - 1);
    if (!toward_zero && (rest > half || (rest == half && (kept & 1)))) ++kept;
    // The hidden bit, and a carry out of the fraction, raise the exponent field by one.
    uint64_t wide = (uint64_t(biased - 1) << format.mantissa_bits) + kept;
    code = uint32_t(wide);
    if (wide > format.largest())
      code = format.saturates || toward_zero ? format.largest() : format.infinity();
  }
  if (format.specials == Specials::kFnuz && code == 0) return 0;
  return sign | code;
}

float DecodeSmallFloat(Kind kind, uint32_t bits) {
  switch (kind) {
    case Kind::kF16: return F16ToFloat(uint16_t(bits));
    case Kind::kBf16: return Bf16ToFloat(uint16_t(bits));
    default: return DecodeTable(kind)[bits & 0xff];
  }
}

float TruncateToFloat(double value) {
  float rounded = float(value);
  if (std::isnan(value) || std::isinf(value)) return rounded;
  if (std::fabs(double(rounded)) > std::fabs(value)) return std::nextafter(rounded, 0.0f);
  return rounded;
}

void DecodeLanes(Kind kind, const void* source, float* result, int64_t lanes) {
  if (kind == Kind::kF16) {
    auto* s = static_cast<const uint16_t*>(source);
    for (int64_t i = 0; i < lanes; ++i) result[i] = F16ToFloat(s[i]);
  } else if (kind == Kind::kBf16) {
    auto* s = static_cast<const uint16_t*>(source);
    for (int64_t i = 0; i < lanes; ++i) result[i] = Bf16ToFloat(s[i]);
  } else {
    auto* s = static_cast<const uint8_t*>(source);
    const Table& table = DecodeTable(kind);
    for (int64_t i = 0; i < lanes; ++i) result[i] = table[s[i]];
  }
}

void EncodeLanes(Kind kind, const float* source, void* result, int64_t lanes) {
  if (kind == Kind::kF16) {
    auto* r = static_cast<uint16_t*>(result);
    for (int64_t i = 0; i < lanes; ++i) r[i] = FloatToF16(source[i]);
  } else if (kind == Kind::kBf16) {
    auto* r = static_cast<uint16_t*>(result);
    for (int64_t i = 0; i < lanes; ++i) r[i] = FloatToBf16(source[i]);
  } else {
    auto* r = static_cast<uint8_t*>(result);
    for (int64_t i = 0; i < lanes; ++i) r[i] = uint8_t(EncodeSmallFloat(kind, source[i], false));
  }
}

}  // namespace tessera::interpreter
