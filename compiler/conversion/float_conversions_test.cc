// Every code of the small formats, every tie between neighbours, and a sweep over f32 and f64, against a search for the
// nearest value in tables built with ldexp.
#include "compiler/conversion/float_conversions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "compiler/conversion/lane_kernel_for_tests.h"
#include "gtest/gtest.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {
namespace {

using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// A format below 32 bits. Written down independently of the code under test.
struct Format {
  const char* mlir;
  int exponent_bits, mantissa_bits, bias;
  enum { kIeee, kOneNan, kUnsignedZero, kFiniteOnly } kind;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }

  double Decode(uint32_t code) const {
    const uint32_t magnitude = code & (sign_bit() - 1);
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (kind == kIeee && top && mantissa != 0) return kNan;
    if (kind == kOneNan && magnitude == sign_bit() - 1) return kNan;
    if (kind == kUnsignedZero && code == sign_bit()) return kNan;
    double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                 : std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
    if (kind == kIeee && top) value = kInf;
    return code & sign_bit() ? -value : value;
  }
};

const Format kF16{"f16", 5, 10, 15, Format::kIeee};
const Format kBf16{"bf16", 8, 7, 127, Format::kIeee};
const Format kE4M3{"f8E4M3FN", 4, 3, 7, Format::kOneNan};
const Format kE5M2{"f8E5M2", 5, 2, 15, Format::kIeee};
const Format kE4M3Fnuz{"f8E4M3FNUZ", 4, 3, 8, Format::kUnsignedZero};
const Format kE5M2Fnuz{"f8E5M2FNUZ", 5, 2, 16, Format::kUnsignedZero};
const Format kE4B15{"f8E4M3B11FNUZ", 4, 3, 15, Format::kFiniteOnly};
const Format kFormats[] = {kF16, kBf16, kE4M3, kE5M2, kE4M3Fnuz, kE5M2Fnuz, kE4B15};

// The non-negative finite values of a format in order, with their codes; what rounding chooses from.
class Rounder {
 public:
  Rounder(const Format& format, bool toward_zero) : format_(format), toward_zero_(toward_zero) {
    for (uint32_t code = 0; code < format.sign_bit(); ++code)
      if (const double value = format.Decode(code); std::isfinite(value)) values_.push_back(value);
  }

  // The code for `x`; -1: any NaN.
  int64_t Round(double x) const {
    if (std::isnan(x)) return format_.kind == Format::kFiniteOnly ? int64_t{format_.sign_bit() - 1} : -1;
    const double magnitude = std::abs(x);
    const uint32_t largest = static_cast<uint32_t>(values_.size() - 1);
    uint32_t code = static_cast<uint32_t>(std::upper_bound(values_.begin(), values_.end(), magnitude) - values_.begin()) - 1;
    const double step = values_[largest] - values_[largest - 1];
    if (format_.bits() == 16) {
      // Overflow goes to infinity, whose code follows that of the largest value.
      if (std::isinf(x)) code = largest + 1;
      else if (code == largest && !toward_zero_ && magnitude >= values_[largest] + step / 2) code = largest + 1;
    }
    if (code < largest && !toward_zero_) {
      const double middle = (values_[code] + values_[code + 1]) / 2;  // exact
      if (magnitude > middle || (magnitude == middle && code % 2 == 1)) ++code;
    }
    const bool negative = std::signbit(x) && !(format_.kind == Format::kUnsignedZero && code == 0);
    return code | (negative ? format_.sign_bit() : 0);
  }

  // Each value, the middle to the next, and their neighbours of either side in the type of the sweep.
  template <typename T>
  std::vector<T> Ties() const {
    std::vector<T> points;
    auto add = [&](double value) {
      const T point = static_cast<T>(value);
      for (T p : {point, std::nextafter(point, T(0)), std::nextafter(point, std::numeric_limits<T>::infinity())}) {
        points.push_back(p);
        points.push_back(-p);
      }
    };
    for (size_t i = 0; i < values_.size(); ++i) {
      add(values_[i]);
      const double next = i + 1 < values_.size() ? values_[i + 1] : 2 * values_[i] - values_[i - 1];
      add((values_[i] + next) / 2);
    }
    return points;
  }

 private:
  Format format_;
  bool toward_zero_;
  std::vector<double> values_;
};

LaneKernel Conversion(const std::string& from, const std::string& to, FloatRounding rounding = FloatRounding::kNearestEven,
                      int lanes = 16) {
  LaneKernel::Shape shape;
  shape.in = from;
  shape.out = to;
  shape.lanes = lanes;
  return LaneKernel(shape, [=](OpBuilder& b, Location loc, Value a, Value) {
    return ConvertFloat(b, loc, a, mlir::parseType(to, b.getContext()), rounding);
  });
}

template <typename Out, typename In>
std::vector<Out> RunOn(const LaneKernel& kernel, std::vector<In> inputs) {
  inputs.resize((inputs.size() + 15) / 16 * 16);
  std::vector<Out> outputs(inputs.size());
  kernel.Run(inputs.data(), inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
  return outputs;
}

template <typename Code>
std::vector<Code> AllCodes() {
  std::vector<Code> codes;
  for (uint32_t code = 0; code <= std::numeric_limits<Code>::max(); ++code) codes.push_back(static_cast<Code>(code));
  return codes;
}

template <typename Out>
void ExpectSame(Out got, double exact, uint32_t code, const char* name) {
  if (std::isnan(exact)) {
    EXPECT_TRUE(std::isnan(got)) << name << " " << code;
  } else {
    EXPECT_TRUE(got == exact && std::signbit(got) == std::signbit(exact)) << name << " " << code << ": " << got << " not " << exact;
  }
}

TEST(ConvertFloatTest, WidensEveryCodeExactly) {
  for (const Format& format : kFormats)
    for (int lanes : {16, 0}) {
      const LaneKernel to_f32 = Conversion(format.mlir, "f32", FloatRounding::kNearestEven, lanes);
      const LaneKernel to_f64 = Conversion(format.mlir, "f64", FloatRounding::kNearestEven, lanes);
      auto check = [&](const auto& codes) {
        const std::vector<float> floats = RunOn<float>(to_f32, codes);
        const std::vector<double> doubles = RunOn<double>(to_f64, codes);
        for (size_t i = 0; i < codes.size(); ++i) {
          ExpectSame(floats[i], format.Decode(codes[i]), codes[i], format.mlir);
          ExpectSame(doubles[i], format.Decode(codes[i]), codes[i], format.mlir);
        }
      };
      if (format.bits() == 16) check(AllCodes<uint16_t>());
      else check(AllCodes<uint8_t>());
    }
}

template <typename Code, typename In>
void CheckNarrowing(const Format& format, FloatRounding rounding, const std::vector<In>& inputs, const char* from) {
  const Rounder rounder(format, rounding == FloatRounding::kTowardZero);
  const std::vector<Code> codes = RunOn<Code>(Conversion(from, format.mlir, rounding), inputs);
  int failures = 0;
  for (size_t i = 0; i < inputs.size() && failures < 10; ++i) {
    const int64_t expected = rounder.Round(inputs[i]);
    const bool same = expected < 0 ? std::isnan(format.Decode(codes[i])) : codes[i] == expected;
    if (same) continue;
    ++failures;
    ADD_FAILURE() << from << " " << inputs[i] << " to " << format.mlir << (rounding == FloatRounding::kTowardZero ? " toward zero" : "")
                  << ": code " << int{codes[i]} << ", not " << expected;
  }
}

template <typename In>
void CheckNarrowingOfBothRoundings(const Format& format, const char* from, std::vector<In> inputs) {
  for (FloatRounding rounding : {FloatRounding::kNearestEven, FloatRounding::kTowardZero}) {
    std::vector<In> all = Rounder(format, false).Ties<In>();
    all.insert(all.end(), inputs.begin(), inputs.end());
    if (format.bits() == 16) CheckNarrowing<uint16_t>(format, rounding, all, from);
    else CheckNarrowing<uint8_t>(format, rounding, all, from);
  }
}

TEST(ConvertFloatTest, NarrowsF32LikeASearchForTheNearestValue) {
  std::vector<float> inputs;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 8191) inputs.push_back(BitCast<float>(static_cast<uint32_t>(bits)));
  for (uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0x80000000u})
    inputs.push_back(BitCast<float>(bits));
  for (const Format& format : kFormats) CheckNarrowingOfBothRoundings<float>(format, "f32", inputs);
}

TEST(ConvertFloatTest, NarrowsF64WithOneRounding) {
  std::vector<double> inputs;
  uint64_t state = 7;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    inputs.push_back(BitCast<double>(state));  // all exponents
    inputs.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(state)), -63 + i % 40 - 20));
  }
  for (double special : {kInf, -kInf, kNan, 1e300, -1e300, 1e-320, 0.0, -0.0, 3.5e38}) inputs.push_back(special);
  for (const Format& format : kFormats) CheckNarrowingOfBothRoundings<double>(format, "f64", inputs);
}

TEST(ConvertFloatTest, NarrowsF64ToF32) {
  std::vector<double> inputs;
  for (int i = 0; i < 1000; ++i) inputs.push_back((1 + i * 0x1p-30) * (i % 2 == 0 ? 1 : -1));
  for (double special : {1e300, -1e300, 1e-42, 0.0, -0.0, kInf}) inputs.push_back(special);
  const std::vector<float> nearest = RunOn<float>(Conversion("f64", "f32"), inputs);
  const std::vector<float> toward_zero = RunOn<float>(Conversion("f64", "f32", FloatRounding::kTowardZero), inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float rounded = static_cast<float>(inputs[i]);
    EXPECT_EQ(nearest[i], rounded);
    EXPECT_EQ(toward_zero[i], std::abs(rounded) > std::abs(inputs[i]) ? std::nextafter(rounded, 0.0f) : rounded) << inputs[i];
  }
}

TEST(ConvertFloatTest, ConvertsBetweenSmallFormats) {
  const std::vector<uint8_t> codes = AllCodes<uint8_t>();
  for (const Format& from : kFormats)
    for (const Format& to : {kE4M3, kE5M2, kF16, kBf16}) {
      if (from.bits() != 8 || from.mlir == to.mlir) continue;
      const Rounder rounder(to, false);
      std::vector<int64_t> got;
      if (to.bits() == 16) {
        const std::vector<uint16_t> out = RunOn<uint16_t>(Conversion(from.mlir, to.mlir), codes);
        got.assign(out.begin(), out.end());
      } else {
        const std::vector<uint8_t> out = RunOn<uint8_t>(Conversion(from.mlir, to.mlir), codes);
        got.assign(out.begin(), out.end());
      }
      for (uint8_t code : codes) {
        const int64_t expected = rounder.Round(from.Decode(code));
        if (expected < 0) EXPECT_TRUE(std::isnan(to.Decode(static_cast<uint32_t>(got[code])))) << from.mlir << " to " << to.mlir << " " << int{code};
        else EXPECT_EQ(got[code], expected) << from.mlir << " to " << to.mlir << " " << int{code};
      }
    }
}

LaneKernel ToInt(const std::string& from, const std::string& to, bool is_unsigned, int lanes) {
  LaneKernel::Shape shape;
  shape.in = from;
  shape.out = to;
  shape.lanes = lanes;
  return LaneKernel(shape, [=](OpBuilder& b, Location loc, Value a, Value) {
    return ConvertFloatToInt(b, loc, a, mlir::parseType(to, b.getContext()), is_unsigned);
  });
}

template <typename Int, typename In>
void CheckToInt(const std::string& from, const std::vector<In>& inputs) {
  const std::string to = "i" + std::to_string(8 * sizeof(Int));
  for (int lanes : {16, 0}) {
    const std::vector<Int> got = RunOn<Int>(ToInt(from, to, std::is_unsigned_v<Int>, lanes), inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const long double value = std::trunc(static_cast<long double>(inputs[i]));
      Int expected;
      if (std::isnan(inputs[i])) expected = 0;
      else if (value > static_cast<long double>(std::numeric_limits<Int>::max())) expected = std::numeric_limits<Int>::max();
      else if (value < static_cast<long double>(std::numeric_limits<Int>::min())) expected = std::numeric_limits<Int>::min();
      else expected = static_cast<Int>(value);
      ASSERT_EQ(got[i], expected) << from << " to " << (std::is_unsigned_v<Int> ? "u" : "") << to << " " << inputs[i];
    }
  }
}

template <typename In>
void CheckToInts(const std::string& from, const std::vector<In>& inputs) {
  CheckToInt<int8_t>(from, inputs);
  CheckToInt<uint8_t>(from, inputs);
  CheckToInt<int16_t>(from, inputs);
  CheckToInt<uint16_t>(from, inputs);
  CheckToInt<int32_t>(from, inputs);
  CheckToInt<uint32_t>(from, inputs);
  CheckToInt<int64_t>(from, inputs);
  CheckToInt<uint64_t>(from, inputs);
}

TEST(ConvertFloatToIntTest, TruncatesAndSaturates) {
  std::vector<double> inputs;
  for (int power = 0; power <= 65; ++power)
    for (double around : {std::ldexp(1.0, power), std::ldexp(1.0, power) - 1, std::ldexp(1.0, power) + 0.75})
      for (double sign : {1.0, -1.0}) {
        inputs.push_back(sign * around);
        inputs.push_back(sign * std::nextafter(around, 0.0));
      }
  for (double special : {0.0, -0.0, 0.5, -0.5, -0.99, 2.999, -2.999, kInf, -kInf, kNan, 1e30, -1e30}) inputs.push_back(special);
  CheckToInts<double>("f64", inputs);
  std::vector<float> floats(inputs.begin(), inputs.end());
  CheckToInts<float>("f32", floats);
}

TEST(ConvertIntToFloatTest, RoundsToNearestEven) {
  for (bool is_unsigned : {false, true}) {
    LaneKernel::Shape shape;
    shape.in = "i32";
    const LaneKernel kernel(shape, [&](OpBuilder& b, Location loc, Value a, Value) {
      return ConvertIntToFloat(b, loc, a, b.getF32Type(), is_unsigned);
    });
    const std::vector<uint32_t> inputs = {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 16777217, 16777219, 0xfffffffe};
    const std::vector<float> got = RunOn<float>(kernel, inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_EQ(got[i], is_unsigned ? static_cast<float>(inputs[i]) : static_cast<float>(static_cast<int32_t>(inputs[i])));
  }
}

TEST(ConvertIntToFloatTest, ReachesSmallFormats) {
  LaneKernel::Shape shape;
  shape.in = "i32";
  shape.out = "f16";
  const LaneKernel kernel(shape, [&](OpBuilder& b, Location loc, Value a, Value) {
    return ConvertIntToFloat(b, loc, a, b.getF16Type(), false);
  });
  std::vector<int32_t> inputs;
  for (int32_t i = -70000; i < 70000; ++i) inputs.push_back(i);
  const std::vector<uint16_t> got = RunOn<uint16_t>(kernel, inputs);
  const Rounder rounder(kF16, false);
  for (size_t i = 0; i < inputs.size(); ++i) ASSERT_EQ(got[i], rounder.Round(inputs[i])) << inputs[i];
}

}  // namespace
}  // namespace tessera::compiler
