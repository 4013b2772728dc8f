#include "tests/conformance/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/check.h"

namespace tessera::conformance {
namespace {

enum class Kind { kIeee, kFinite, kFnuz, kNoSpecials };

// A binary format: sign, exponent, mantissa.
struct Format {
  int exponent, mantissa, bias;
  Kind kind;
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFp16: return {5, 10, 15, Kind::kIeee};
    case DType::kBf16: return {8, 7, 127, Kind::kIeee};
    case DType::kFp32: return {8, 23, 127, Kind::kIeee};
    case DType::kFp64: return {11, 52, 1023, Kind::kIeee};
    case DType::kFp8E4M3Fn: return {4, 3, 7, Kind::kFinite};
    case DType::kFp8E5M2: return {5, 2, 15, Kind::kIeee};
    case DType::kFp8E4M3Fnuz: return {4, 3, 8, Kind::kFnuz};
    case DType::kFp8E5M2Fnuz: return {5, 2, 16, Kind::kFnuz};
    case DType::kFp8E4B15: return {4, 3, 15, Kind::kNoSpecials};
    default: break;
  }
  TESSERA_CHECK(false, "not a float type");
  return {};
}

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

bool IsFp8(DType dtype) { return IsFloat(dtype) && ByteSize(dtype) == 1; }

}  // namespace

double DecodeFloat(DType dtype, uint64_t bits) {
  const Format f = FormatOf(dtype);
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa) - 1);
  const uint64_t top = (uint64_t{1} << f.exponent) - 1, exponent = bits >> f.mantissa & top;
  const bool negative = bits >> (f.mantissa + f.exponent) & 1;
  if (f.kind == Kind::kIeee && exponent == top) return mantissa ? kNan : negative ? -kInf : kInf;
  if (f.kind == Kind::kFinite && exponent == top && mantissa == (uint64_t{1} << f.mantissa) - 1) return kNan;
  if (f.kind == Kind::kFnuz && negative && exponent == 0 && mantissa == 0) return kNan;
  double value = exponent ? std::ldexp(1 + std::ldexp(static_cast<double>(mantissa), -f.mantissa), static_cast<int>(exponent) - f.bias)
                          : std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa);
  return negative ? -value : value;
}

uint64_t EncodeFloat(DType dtype, double value) {
  const Format f = FormatOf(dtype);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (f.mantissa + f.exponent) : 0;
  const uint64_t top = (uint64_t{1} << f.exponent) - 1;
  if (std::isnan(value)) {
    if (f.kind == Kind::kFnuz) return uint64_t{1} << (f.mantissa + f.exponent);
    return f.kind == Kind::kIeee ? (top << f.mantissa | uint64_t{1} << (f.mantissa - 1)) : (top << f.mantissa | ((uint64_t{1} << f.mantissa) - 1));
  }
  if (dtype == DType::kFp64) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  const uint64_t largest = f.kind == Kind::kIeee     ? (top << f.mantissa) - 1
                           : f.kind == Kind::kFinite ? (top << f.mantissa) + (uint64_t{1} << f.mantissa) - 2
                                                     : (top << f.mantissa) + (uint64_t{1} << f.mantissa) - 1;
  const uint64_t overflow = IsFp8(dtype) ? largest : top << f.mantissa;
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | overflow;
  if (magnitude == 0) return f.kind == Kind::kFnuz ? 0 : sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - f.bias) exponent = 1 - f.bias;
  const uint64_t steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
  // A carry out of the mantissa goes into the exponent by itself.
  const uint64_t code = (static_cast<uint64_t>(exponent + f.bias - 1) << f.mantissa) + steps;
  if (code > largest) return sign | overflow;
  if (code == 0 && f.kind == Kind::kFnuz) return 0;
  return sign | code;
}

double RoundTo(DType dtype, double value) { return DecodeFloat(dtype, EncodeFloat(dtype, value)); }

int64_t DecodeInt(DType dtype, uint64_t bits) {
  const int unused = 64 - 8 * ByteSize(dtype);
  return IsSigned(dtype) ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits << unused >> unused);
}

uint64_t Tensor::Bits(size_t i) const {
  const size_t width = ByteSize(dtype);
  TESSERA_CHECK((i + 1) * width <= bytes.size(), "no such element");
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return bits;
}

void Tensor::SetBits(size_t i, uint64_t bits) { std::memcpy(bytes.data() + i * ByteSize(dtype), &bits, ByteSize(dtype)); }

Tensor Poison(DType dtype, size_t count) { return {dtype, std::vector<uint8_t>(count * ByteSize(dtype), 0xab)}; }

Tensor Floats(DType dtype, const std::vector<double>& values) {
  Tensor tensor = Poison(dtype, values.size());
  for (size_t i = 0; i < values.size(); ++i) tensor.SetBits(i, EncodeFloat(dtype, values[i]));
  return tensor;
}

Tensor Ints(DType dtype, const std::vector<int64_t>& values) {
  Tensor tensor = Poison(dtype, values.size());
  for (size_t i = 0; i < values.size(); ++i) tensor.SetBits(i, static_cast<uint64_t>(values[i]));
  return tensor;
}

std::vector<uint64_t> SpecialBits(DType dtype) {
  if (dtype == DType::kInt1) return {0, 1};
  if (!IsFloat(dtype)) {
    const int width = 8 * ByteSize(dtype);
    const uint64_t sign = uint64_t{1} << (width - 1), all = sign | (sign - 1);
    return {0, 1, 2, 3, 7, all, all - 1, all - 6, sign, sign + 1, sign - 1, sign - 2, 5, sign / 2};
  }
  const Format f = FormatOf(dtype);
  const uint64_t sign = uint64_t{1} << (f.mantissa + f.exponent);
  std::vector<uint64_t> bits = {EncodeFloat(dtype, kNan), 0, EncodeFloat(dtype, -0.0), EncodeFloat(dtype, 1), EncodeFloat(dtype, -1),
                                EncodeFloat(dtype, 1.5), EncodeFloat(dtype, -2.5),
                                1, sign | 1,  // smallest subnormals
                                uint64_t{1} << f.mantissa,  // smallest normal
                                EncodeFloat(dtype, 200), EncodeFloat(dtype, -0.375)};
  if (f.kind == Kind::kIeee) {
    const uint64_t infinity = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
    bits.insert(bits.end(), {infinity, sign | infinity, infinity - 1, sign | (infinity - 1)});
  }
  return bits;
}

Tensor Random(DType dtype, size_t count, uint32_t seed, double scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor = Poison(dtype, count);
  for (size_t i = 0; i < count; ++i) {
    if (IsFloat(dtype)) tensor.SetBits(i, EncodeFloat(dtype, normal(random) * scale));
    else if (dtype == DType::kInt1) tensor.SetBits(i, random() & 1);
    else tensor.SetBits(i, random() >> (random() % (8 * ByteSize(dtype))) >> (64 - 8 * ByteSize(dtype)));
  }
  return tensor;
}

Tensor RandomInts(DType dtype, size_t count, uint32_t seed, int64_t low, int64_t high) {
  std::mt19937_64 random(seed);
  Tensor tensor = Poison(dtype, count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t value = low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    tensor.SetBits(i, IsFloat(dtype) ? EncodeFloat(dtype, static_cast<double>(value)) : static_cast<uint64_t>(value));
  }
  return tensor;
}

Tensor Special(DType dtype, size_t count, uint32_t seed, size_t stride) {
  Tensor tensor = Random(dtype, count, seed, 4);
  const std::vector<uint64_t> specials = SpecialBits(dtype);
  for (size_t i = 0; i < count && i < specials.size() * specials.size(); ++i) tensor.SetBits(i, specials[i / stride % specials.size()]);
  return tensor;
}

}  // namespace tessera::conformance
