// Sweeps each function over all of f32 (every 509th bit pattern, so all exponents, signs, subnormals and NaN), against
// libm in double precision.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compiler/conversion/lane_kernel_for_tests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {
namespace {

namespace math = mlir::math;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

template <typename Op>
Value Unary(OpBuilder& b, Location loc, Value a, Value) {
  return b.create<Op>(loc, a);
}
template <typename Op>
Value Binary(OpBuilder& b, Location loc, Value a, Value other) {
  return b.create<Op>(loc, a, other);
}

// Distance of `got` from `exact` in units of the last place of the f32 next to `exact`; infinite where one is NaN, or
// the signs of infinities differ. An infinity counts as 2^128.
double UlpError(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : HUGE_VAL;
  const double clamped = std::min(std::max(exact, -0x1p128), 0x1p128);
  const double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  const int exponent = std::max(clamped == 0 ? -126 : std::ilogb(clamped), -126);
  return std::abs(value - clamped) / std::ldexp(1.0, std::min(exponent, 127) - 23);
}

double FlushSubnormal(double x) { return std::abs(x) < 0x1p-126 ? x * 0 : x; }

struct Case {
  const char* name;
  LaneKernel::Function function;
  double (*exact)(double);
  double ulp;
  bool flushes = false;  // subnormal results may be 0
};

void PrintTo(const Case& test, std::ostream* stream) { *stream << test.name; }

const Case kCases[] = {
    {"exp", Unary<math::ExpOp>, std::exp, 2.25, true},
    {"exp2", Unary<math::Exp2Op>, std::exp2, 2.5, true},
    {"expm1", Unary<math::ExpM1Op>, std::expm1, 2.0},
    {"log", Unary<math::LogOp>, std::log, 2.0},
    {"log2", Unary<math::Log2Op>, std::log2, 2.0},
    {"log10", Unary<math::Log10Op>, std::log10, 2.25},
    {"log1p", Unary<math::Log1pOp>, std::log1p, 2.0},
    {"sin", Unary<math::SinOp>, std::sin, 2.0},
    {"cos", Unary<math::CosOp>, std::cos, 2.0},
    {"tan", Unary<math::TanOp>, std::tan, 4.0},
    {"tanh", Unary<math::TanhOp>, std::tanh, 3.0},
    {"erf", Unary<math::ErfOp>, std::erf, 2.0},
    {"sqrt", Unary<math::SqrtOp>, std::sqrt, 0.5},
    {"rsqrt", Unary<math::RsqrtOp>, [](double x) { return 1 / std::sqrt(x); }, 1.5},
    {"atan", Unary<math::AtanOp>, std::atan, 1.0},
    {"sinh", Unary<math::SinhOp>, std::sinh, 2.0},
    {"cbrt", Unary<math::CbrtOp>, std::cbrt, 1.5},
    {"floor", Unary<math::FloorOp>, [](double x) { return std::floor(FlushSubnormal(x)); }, 0},
    {"ceil", Unary<math::CeilOp>, [](double x) { return std::ceil(FlushSubnormal(x)); }, 0},
    {"trunc", Unary<math::TruncOp>, std::trunc, 0},
    {"round", Unary<math::RoundOp>, std::round, 0},
    {"roundeven", Unary<math::RoundEvenOp>, [](double x) { return x - std::remainder(x, 1.0); }, 0},
    {"absf", Unary<math::AbsFOp>, std::fabs, 0},
};

class ExpandMathTest : public ::testing::TestWithParam<Case> {
 protected:
  // Checks the function on `inputs`, whose number is a multiple of 16; returns the largest error.
  double Sweep(const LaneKernel& kernel, const std::vector<float>& inputs) {
    const Case& test = GetParam();
    std::vector<float> outputs(inputs.size());
    kernel.Run(inputs.data(), inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
    double largest = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double exact = std::isinf(inputs[i]) && std::string(test.name) == "roundeven" ? inputs[i] : test.exact(inputs[i]);
      if (test.flushes && outputs[i] == 0 && std::abs(exact) < 0x1.000002p-126) continue;
      const double error = UlpError(outputs[i], exact);
      if (error > test.ulp) {
        ADD_FAILURE() << test.name << "(" << inputs[i] << ") = " << outputs[i] << ", not " << exact << ": " << error << " ulp";
        if (++failures_ > 10) return error;
      }
      largest = std::max(largest, error);
    }
    return largest;
  }

  int failures_ = 0;
};

std::vector<float> EveryPattern(uint32_t step) {
  std::vector<float> inputs;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step) inputs.push_back(FromBits(static_cast<uint32_t>(bits)));
  for (float special : {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kNan, FromBits(0xffffffff), FromBits(0x7f800001), 88.72283f,
                        88.722836f, 88.72284f, 88.7229f, 89.0f, 1e30f, -1e30f, -87.33654f, -87.3366f, -104.0f, 127.99999f,
                        128.0f, -126.0f, -126.00001f, -150.0f, 0.5f, 1.5f, 2.5f, 0.49999997f, 8388607.5f, 1e-40f, -1e-40f,
                        0x1p-126f, 0x1.fffffep+127f, -0x1.fffffep+127f, 99999.99f, 100000.0f, 100000.01f, 0.93f, 3.99f, 4.01f})
    inputs.push_back(special);
  while (inputs.size() % 16 != 0) inputs.push_back(1);
  return inputs;
}

// Where most arguments are, and where reductions and cancellations change over.
std::vector<float> DenseAround(double low, double high) {
  std::vector<float> inputs;
  for (int i = 0; i < 1 << 20; ++i) inputs.push_back(static_cast<float>(low + (high - low) * i / (1 << 20)));
  return inputs;
}

TEST_P(ExpandMathTest, StaysWithinItsUlpBound) {
  const LaneKernel kernel({}, GetParam().function);
  double largest = Sweep(kernel, EveryPattern(509));
  largest = std::max(largest, Sweep(kernel, DenseAround(-10, 10)));
  largest = std::max(largest, Sweep(kernel, DenseAround(-110, 110)));
  largest = std::max(largest, Sweep(kernel, DenseAround(0.5, 2)));
  RecordProperty("largest_ulp_error", std::to_string(largest));
  std::printf("%-10s %.3f ulp\n", GetParam().name, largest);
}

TEST_P(ExpandMathTest, StaysWithinItsUlpBoundWithoutContraction) {
  LaneKernel::Shape shape;
  shape.contract_fp = false;
  Sweep(LaneKernel(shape, GetParam().function), EveryPattern(65003));
}

TEST_P(ExpandMathTest, GivesTheSameForScalars) {
  LaneKernel::Shape shape;
  shape.lanes = 0;
  const LaneKernel scalars(shape, GetParam().function);
  const LaneKernel vectors({}, GetParam().function);
  const std::vector<float> inputs = EveryPattern(65003);
  std::vector<uint32_t> one_by_one(inputs.size()), together(inputs.size());
  scalars.Run(inputs.data(), inputs.data(), one_by_one.data(), static_cast<int64_t>(inputs.size()));
  vectors.Run(inputs.data(), inputs.data(), together.data(), static_cast<int64_t>(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (std::isnan(FromBits(one_by_one[i])) && std::isnan(FromBits(together[i]))) continue;
    ASSERT_EQ(one_by_one[i], together[i]) << inputs[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, ExpandMathTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExpandMathPowTest, StaysWithinOneUlp) {
  const LaneKernel kernel({}, Binary<math::PowFOp>);
  std::vector<float> x, y;
  uint64_t state = 1;
  auto random = [&] { return static_cast<uint32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 32); };
  for (int i = 0; i < 1 << 21; ++i) {
    x.push_back(FromBits(random()));
    y.push_back(FromBits(random()));
    x.push_back(static_cast<float>(random()) * 0x1p-30f);        // 0 .. 4
    y.push_back((static_cast<float>(random()) - 0x1p31f) * 0x1p-25f);  // -64 .. 64
    x.push_back(static_cast<float>(static_cast<int>(random() % 41) - 20));
    y.push_back(static_cast<float>(static_cast<int>(random() % 41) - 20) / 2);
  }
  std::vector<float> z(x.size());
  kernel.Run(x.data(), y.data(), z.data(), static_cast<int64_t>(x.size()));
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpError(z[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
    ASSERT_LE(error, 1.0) << x[i] << " ^ " << y[i] << " = " << z[i];
    largest = std::max(largest, error);
  }
  std::printf("%-10s %.3f ulp\n", "powf", largest);
}

TEST(ExpandMathPowTest, KnowsEverySpecialCase) {
  const LaneKernel kernel({}, Binary<math::PowFOp>);
  const float specials[] = {0.0f, -0.0f, 1, -1, 0.5f, -0.5f, 2, -2, 3, -3, 2.5f, -2.5f, 1e-40f, -1e-40f, 0x1p-149f, 1e38f,
                            -1e38f, 0x1p24f, 0x1p24f + 2, 16777215, -16777215, kInf, -kInf, kNan, 1e-30f, 0.99999994f, 1.0000001f};
  std::vector<float> x, y;
  for (float a : specials)
    for (float b : specials) {
      x.push_back(a);
      y.push_back(b);
    }
  while (x.size() % 16 != 0) {
    x.push_back(1);
    y.push_back(1);
  }
  std::vector<float> z(x.size());
  kernel.Run(x.data(), y.data(), z.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    EXPECT_LE(UlpError(z[i], exact), 1.0) << x[i] << " ^ " << y[i] << " = " << z[i] << ", not " << exact;
    if (!std::isnan(exact)) EXPECT_EQ(std::signbit(z[i]), std::signbit(exact)) << x[i] << " ^ " << y[i];
  }
}

TEST(ExpandMathExpTest, IsExactlyOneAtZero) {
  for (const LaneKernel::Function& function : {LaneKernel::Function(Unary<math::ExpOp>), LaneKernel::Function(Unary<math::Exp2Op>)}) {
    const LaneKernel kernel({}, function);
    const std::vector<float> zeros(16, 0.0f);
    std::vector<float> ones(16);
    kernel.Run(zeros.data(), zeros.data(), ones.data(), 16);
    EXPECT_THAT(ones, ::testing::Each(1.0f));
  }
}

TEST(ExpandMathTernaryTest, RoundsFmaOnce) {
  const LaneKernel kernel({}, [](OpBuilder& b, Location loc, Value a, Value c) -> Value { return b.create<math::FmaOp>(loc, a, a, c); });
  std::vector<float> a(16, 1 + 0x1p-12f), c(16, -1), result(16);
  kernel.Run(a.data(), c.data(), result.data(), 16);
  EXPECT_THAT(result, ::testing::Each(0x1p-11f + 0x1p-24f));
}

TEST(ExpandMathBinaryTest, CopiesSigns) {
  const LaneKernel kernel({}, Binary<math::CopySignOp>);
  std::vector<float> a(16, 3), sign(16, -0.0f), result(16);
  kernel.Run(a.data(), sign.data(), result.data(), 16);
  EXPECT_THAT(result, ::testing::Each(-3.0f));
}

// a / divisor, the divisor a block of one value from outside of the loop.
LaneKernel::Function DivideBy(float divisor, mlir::arith::FastMathFlags flags) {
  return [=](OpBuilder& b, Location loc, Value a, Value) -> Value {
    OpBuilder outside(b.getInsertionBlock()->getParentOp());
    Value scalar = outside.create<mlir::arith::ConstantOp>(loc, outside.getF32FloatAttr(divisor));
    Value splat = outside.create<mlir::vector::BroadcastOp>(loc, a.getType(), scalar);
    return b.create<mlir::arith::DivFOp>(loc, a, splat, flags);
  };
}

TEST(ExpandMathDivisionTest, TakesTheReciprocalOnceWhereAllowed) {
  const std::vector<float> inputs = EveryPattern(650033);
  std::vector<float> outputs(inputs.size());
  for (float divisor : {3.0f, -7.0f, 1e-38f, 1e-39f, 0x1p-149f, 0x1p-126f, 1e38f, 3e38f, 0x1p126f, 0.0f, -0.0f, kInf, -kInf, kNan}) {
    LaneKernel(LaneKernel::Shape(), DivideBy(divisor, mlir::arith::FastMathFlags::arcp))
        .Run(inputs.data(), inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      ASSERT_LE(UlpError(outputs[i], static_cast<double>(inputs[i]) / divisor), 1.5) << inputs[i] << " / " << divisor << " = " << outputs[i];
  }
}

TEST(ExpandMathDivisionTest, IsExactOtherwise) {
  const std::vector<float> inputs = EveryPattern(650033);
  std::vector<float> outputs(inputs.size());
  LaneKernel(LaneKernel::Shape(), DivideBy(3, mlir::arith::FastMathFlags::none))
      .Run(inputs.data(), inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!std::isnan(inputs[i])) ASSERT_EQ(outputs[i], inputs[i] / 3) << inputs[i];
}

struct DoubleCase {
  const char* name;
  LaneKernel::Function function;
  double (*exact)(double);
};
const DoubleCase kDoubleCases[] = {
    {"exp", Unary<math::ExpOp>, std::exp},       {"log1p", Unary<math::Log1pOp>, std::log1p},
    {"sin", Unary<math::SinOp>, std::sin},       {"tanh", Unary<math::TanhOp>, std::tanh},
    {"erf", Unary<math::ErfOp>, std::erf},       {"sqrt", Unary<math::SqrtOp>, std::sqrt},
    {"floor", Unary<math::FloorOp>, std::floor}, {"rsqrt", Unary<math::RsqrtOp>, [](double x) { return 1 / std::sqrt(x); }},
    {"exp2", Unary<math::Exp2Op>, std::exp2},    {"round", Unary<math::RoundOp>, std::round},
};

TEST(ExpandMathDoubleTest, GivesWhatLibmGives) {
  std::vector<double> inputs;
  for (int i = -400; i < 400; ++i) inputs.push_back(i * 0.37);
  for (double special : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e300, -1e300, 1e-310, 0.0, -0.0}) inputs.push_back(special);
  for (const DoubleCase& test : kDoubleCases)
    for (int lanes : {0, 8}) {
      LaneKernel::Shape shape;
      shape.in = shape.out = "f64";
      shape.lanes = lanes;
      const LaneKernel kernel(shape, test.function);
      std::vector<double> outputs(inputs.size());
      kernel.Run(inputs.data(), inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
      for (size_t i = 0; i < inputs.size(); ++i) {
        const double exact = test.exact(inputs[i]);
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(outputs[i])) << test.name << " " << inputs[i];
        } else {
          EXPECT_EQ(outputs[i], exact) << test.name << " " << inputs[i];
        }
      }
    }
}

TEST(ExpandMathSmallFloatTest, WidensAndRoundsOnce) {
  LaneKernel::Shape shape;
  shape.in = shape.out = "bf16";
  const LaneKernel kernel(shape, Unary<math::ExpOp>);
  std::vector<uint16_t> inputs(16, 0x3f80), outputs(16);  // 1
  kernel.Run(inputs.data(), inputs.data(), outputs.data(), 16);
  EXPECT_THAT(outputs, ::testing::Each(0x402e));  // 2.71875
}

TEST(ExpandMathIntegerTest, CountsBits) {
  LaneKernel::Shape shape;
  shape.in = shape.out = "i32";
  std::vector<int32_t> inputs(16, 0), outputs(16);
  inputs[1] = 0x00f0;
  inputs[2] = -5;
  auto run = [&](const LaneKernel::Function& function) { LaneKernel(shape, function).Run(inputs.data(), inputs.data(), outputs.data(), 16); };
  run(Unary<math::CountLeadingZerosOp>);
  EXPECT_EQ(outputs[0], 32);
  EXPECT_EQ(outputs[1], 24);
  run(Unary<math::CountTrailingZerosOp>);
  EXPECT_EQ(outputs[0], 32);
  EXPECT_EQ(outputs[1], 4);
  run(Unary<math::CtPopOp>);
  EXPECT_EQ(outputs[1], 4);
  run(Unary<math::AbsIOp>);
  EXPECT_EQ(outputs[2], 5);
}

TEST(ExpandMathCodeTest, NeedsNoCallsForTheMainFunctions) {
  for (const Case& test : kCases) {
    const std::string name = test.name;
    if (name == "sin" || name == "cos" || name == "tan" || name == "atan" || name == "sinh" || name == "cbrt") continue;
    EXPECT_THAT(LaneKernel({}, test.function).assembly(), ::testing::Not(::testing::HasSubstr("call"))) << name;
  }
}

#if defined(__x86_64__)
TEST(ExpandMathCodeTest, GivesTheSameWithoutMasksAndWideVectors) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "needs AVX2";
  LaneKernel::Shape shape;
  shape.cpu = "haswell:+avx,+avx2,+fma,+f16c";
  const std::vector<float> inputs = EveryPattern(65003);
  std::vector<uint32_t> narrow(inputs.size()), wide(inputs.size());
  for (const Case& test : kCases) {
    const LaneKernel kernel(shape, test.function);
    EXPECT_THAT(kernel.assembly(), ::testing::Not(::testing::HasSubstr("zmm"))) << test.name;
    kernel.Run(inputs.data(), inputs.data(), narrow.data(), static_cast<int64_t>(inputs.size()));
    LaneKernel({}, test.function).Run(inputs.data(), inputs.data(), wide.data(), static_cast<int64_t>(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!std::isnan(FromBits(narrow[i])) || !std::isnan(FromBits(wide[i]))) ASSERT_EQ(narrow[i], wide[i]) << test.name << " " << inputs[i];
  }
}
#endif

}  // namespace
}  // namespace tessera::compiler
