// Functions, within a bound relative to the double-precision result.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

// 2^-24 times the ulps that Triton's functions are known for, with room; hardware approximations are allowed.
constexpr double kClose = 2e-6;

Tensor Spread(DType dtype, uint32_t seed, double low, double high) {
  Tensor x = RandomInts(DType::kInt32, kLanes, seed, 0, 1 << 24);
  std::vector<double> values;
  for (size_t i = 0; i < kLanes; ++i) values.push_back(low + (high - low) * x.Number(i) / (1 << 24));
  return Floats(dtype, values);
}

class Math : public testing::TestWithParam<DType> {};

TEST_P(Math, FunctionsOnOrdinaryArguments) {
  const DType t = GetParam();
  const double close = t == DType::kFp64 ? 1e-13 : kClose;
  Tensor x = Spread(t, 1, -10, 10), y = Spread(t, 2, 0.001, 50);
  auto X = [&](size_t i) { return x.Float(i); };
  auto Y = [&](size_t i) { return y.Float(i); };
  auto f = [&](const std::string& text, std::function<double(size_t)> want, double rtol = 0) { return FloatExpression(text, t, std::move(want), rtol > 0 ? rtol : close); };
  // Near a zero of the function the bound is absolute: such lanes add one.
  RunExpressions({{"x", x}, {"y", y}},
                 {f("tl.exp(x)", [&](size_t i) { return std::exp(X(i)); }), f("tl.exp2(x)", [&](size_t i) { return std::exp2(X(i)); }),
                  f("tl.log(y) + 20", [&](size_t i) { return std::log(Y(i)) + 20; }), f("tl.log2(y) + 20", [&](size_t i) { return std::log2(Y(i)) + 20; }),
                  f("tl.sin(x) + 2", [&](size_t i) { return std::sin(X(i)) + 2; }), f("tl.cos(x) + 2", [&](size_t i) { return std::cos(X(i)) + 2; }),
                  f("tl.sqrt(y)", [&](size_t i) { return std::sqrt(Y(i)); }), f("tl.rsqrt(y)", [&](size_t i) { return 1 / std::sqrt(Y(i)); }),
                  f("tl.erf(x)", [&](size_t i) { return std::erf(X(i)); }), FloatExpression("tl.floor(x)", t, [&](size_t i) { return std::floor(X(i)); }),
                  FloatExpression("tl.ceil(x)", t, [&](size_t i) { return std::ceil(X(i)); }), f("tl.sigmoid(x)", [&](size_t i) { return 1 / (1 + std::exp(-X(i))); }),
                  f("tl.fma(x, y, y) + 1000", [&](size_t i) { return X(i) * Y(i) + Y(i) + 1000; }), f("tl.fdiv(x, y)", [&](size_t i) { return X(i) / Y(i); }),
                  FloatExpression("tl.sqrt_rn(y)", t, [&](size_t i) { return std::sqrt(Y(i)); }), FloatExpression("tl.div_rn(x, y)", t, [&](size_t i) { return X(i) / Y(i); })});
}

TEST_P(Math, LibdeviceFunctions) {
  const DType t = GetParam();
  const double close = t == DType::kFp64 ? 1e-13 : 4e-6;
  Tensor x = Spread(t, 3, -4, 4), y = Spread(t, 4, 0.01, 6), u = Spread(t, 5, -0.99, 0.99);
  auto X = [&](size_t i) { return x.Float(i); };
  auto Y = [&](size_t i) { return y.Float(i); };
  auto U = [&](size_t i) { return u.Float(i); };
  auto f = [&](const std::string& text, std::function<double(size_t)> want) { return FloatExpression("libdevice." + text, t, std::move(want), close); };
  auto e = [&](const std::string& text, std::function<double(size_t)> want) { return FloatExpression("libdevice." + text, t, std::move(want)); };
  RunExpressions({{"x", x}, {"y", y}, {"u", u}},
                 {f("tanh(x)", [&](size_t i) { return std::tanh(X(i)); }), f("pow(y, x)", [&](size_t i) { return std::pow(Y(i), X(i)); }),
                  f("rsqrt(y)", [&](size_t i) { return 1 / std::sqrt(Y(i)); }), f("expm1(x)", [&](size_t i) { return std::expm1(X(i)); }),
                  f("log1p(y)", [&](size_t i) { return std::log1p(Y(i)); }), f("sinh(x)", [&](size_t i) { return std::sinh(X(i)); }),
                  f("cosh(x)", [&](size_t i) { return std::cosh(X(i)); }), f("atan(x)", [&](size_t i) { return std::atan(X(i)); }),
                  f("atan2(x, y)", [&](size_t i) { return std::atan2(X(i), Y(i)); }), f("asin(u)", [&](size_t i) { return std::asin(U(i)); }),
                  f("acos(u)", [&](size_t i) { return std::acos(U(i)); }), f("asinh(x)", [&](size_t i) { return std::asinh(X(i)); }),
                  f("cbrt(y)", [&](size_t i) { return std::cbrt(Y(i)); }), f("erf(x)", [&](size_t i) { return std::erf(X(i)); }),
                  e("trunc(x)", [&](size_t i) { return std::trunc(X(i)); }), e("rint(x)", [&](size_t i) { return std::nearbyint(X(i)); }),
                  e("round(x)", [&](size_t i) { return std::round(X(i)); }), e("copysign(y, x)", [&](size_t i) { return std::copysign(Y(i), X(i)); }),
                  e("fmod(x, y)", [&](size_t i) { return std::fmod(X(i), Y(i)); }), e("fmax(x, y)", [&](size_t i) { return std::fmax(X(i), Y(i)); })});
}

// The y in (0, 6) with f(y) = x, f growing.
double Inverse(double (*f)(double), double x) {
  double low = 0, high = 6;
  for (int i = 0; i < 200; ++i) (f((low + high) / 2) < x ? low : high) = (low + high) / 2;
  return low;
}

TEST_P(Math, SpecialLibdeviceFunctions) {
  const DType t = GetParam();
  const double close = t == DType::kFp64 ? 2e-12 : 5e-6;
  Tensor x = Spread(t, 6, -6, 40), u = Spread(t, 7, -0.999, 0.999), p = Spread(t, 8, 0.001, 1.9);
  auto X = [&](size_t i) { return x.Float(i); };
  auto U = [&](size_t i) { return u.Float(i); };
  auto P = [&](size_t i) { return p.Float(i); };
  auto f = [&](const std::string& text, std::function<double(size_t)> want) { return FloatExpression("libdevice." + text, t, std::move(want), close); };
  constexpr double kPi = 3.14159265358979323846;
  auto erfc_inverse = [](double q) {
    double y = Inverse([](double v) { return -std::erfc(v); }, -(q > 1 ? 2 - q : q));
    return q > 1 ? -y : y;
  };
  RunExpressions({{"x", x}, {"u", u}, {"p", p}},
                 {f("erfinv(u)", [&](size_t i) { return std::copysign(Inverse([](double v) { return std::erf(v); }, std::fabs(U(i))), U(i)); }),
                  f("erfcinv(p) + 4", [&](size_t i) { return erfc_inverse(P(i)) + 4; }),
                  f("normcdfinv(p / 2) + 4", [&](size_t i) { return -std::sqrt(2.0) * erfc_inverse(P(i)) + 4; }),
                  f("erfcx(u * 4)", [&](size_t i) { return std::exp(16 * U(i) * U(i)) * std::erfc(4 * U(i)); }),
                  f("erfcx(x + 10)", [&](size_t i) {
                    double fraction = X(i) + 10;
                    for (int k = 100; k >= 1; --k) fraction = X(i) + 10 + k / 2.0 / fraction;
                    return 1 / std::sqrt(kPi) / fraction;
                  }),
                  f("cyl_bessel_i0(x)", [&](size_t i) { return std::cyl_bessel_i(0, std::fabs(X(i))); }),
                  f("cyl_bessel_i1(x)", [&](size_t i) { return std::copysign(std::cyl_bessel_i(1, std::fabs(X(i))), X(i)); }),
                  f("sinpi(x) + 2", [&](size_t i) { return std::sin(kPi * std::fmod(X(i), 2)) + 2; }),
                  f("cospi(x) + 2", [&](size_t i) { return std::cos(kPi * std::fmod(X(i), 2)) + 2; })});
  const double inf = std::numeric_limits<double>::infinity();
  Tensor edge = Floats(t, {0.0, -0.0, 1, -1, 2, inf, std::nan("")});
  Program program;
  program.source = "@triton.jit\ndef kernel(x, o):\n    i = tl.arange(0, 8)\n    v = tl.load(x + i, mask=i < 7)\n    tl.store(o + i, libdevice.erfinv(v), mask=i < 4)\n"
                   "    tl.store(o + 4 + i, libdevice.erfcinv(v), mask=i < 5)\n    tl.store(o + 9 + i, libdevice.cyl_bessel_i0(v), mask=(i == 0) | (i == 6))\n";
  Launch(program, {Arg("x", edge), Arg("o", Floats(t, std::vector<double>(16, 5)))}, [&](const Results& r) {
    ExpectFloats(r.at("o"), {0.0, -0.0, inf, -inf, inf, inf, 0.0, std::nan(""), -inf, 1, 5, 5, 5, 5, 5, std::nan("")}, close);
  });
}

TEST_P(Math, SpecialArguments) {
  const DType t = GetParam();
  Tensor x = Special(t, kLanes, 1);
  auto X = [&](size_t i) { return x.Float(i); };
  const double smallest = t == DType::kFp64 ? 2.3e-308 : 1.18e-38, close = t == DType::kFp64 ? 1e-12 : 1e-5;
  std::vector<Expression> expressions = {
      FloatExpression("tl.exp(x)", t, [&](size_t i) { return std::exp(X(i)); }, close), FloatExpression("tl.exp2(x)", t, [&](size_t i) { return std::exp2(X(i)); }, close),
      FloatExpression("tl.log(x)", t, [&](size_t i) { return std::log(X(i)); }, close), FloatExpression("tl.log2(x)", t, [&](size_t i) { return std::log2(X(i)); }, close),
      FloatExpression("tl.sqrt(x)", t, [&](size_t i) { return std::sqrt(X(i)); }, close), FloatExpression("tl.rsqrt(x)", t, [&](size_t i) { return 1 / std::sqrt(X(i)); }, close),
      FloatExpression("tl.erf(x)", t, [&](size_t i) { return std::erf(X(i)); }, close), FloatExpression("tl.floor(x)", t, [&](size_t i) { return std::floor(X(i)); }),
      FloatExpression("tl.ceil(x)", t, [&](size_t i) { return std::ceil(X(i)); }),
      FloatExpression("libdevice.tanh(x)", t, [&](size_t i) { return std::tanh(X(i)); }, close)};
  // Subnormal arguments may be flushed; logarithms near 1 are for the test of ordinary arguments.
  for (Expression& e : expressions)
    e.skip = [&](size_t i) { return (X(i) != 0 && std::fabs(X(i)) < smallest * 2) || std::fabs(X(i) - 1) < 0.1; };
  RunExpressions({{"x", x}}, expressions);
}

INSTANTIATE_TEST_SUITE_P(All, Math, testing::Values(DType::kFp32, DType::kFp64),
                         [](const testing::TestParamInfo<DType>& info) { return std::string(ShortName(info.param).data(), ShortName(info.param).size()); });

// The result rounded to nearest moved by one step where the exact one, in long double, lies on the other side.
template <typename F>
F Directed(long double exact, int direction) {  // -1: down, 1: up, 0: toward zero
  if (direction == 0) direction = exact > 0 ? -1 : 1;
  F nearest = static_cast<F>(exact);
  const F infinity = std::numeric_limits<F>::infinity();
  if (direction < 0 && static_cast<long double>(nearest) > exact) return std::nextafter(nearest, -infinity);
  if (direction > 0 && static_cast<long double>(nearest) < exact) return std::nextafter(nearest, infinity);
  return nearest;
}

TEST(MathRounding, ArithmeticInEveryDirection) {
  Tensor x = Random(DType::kFp32, kLanes, 1, 30), y = Random(DType::kFp32, kLanes, 2), z = Random(DType::kFp32, kLanes, 3);
  for (size_t i = 0; i < 20; ++i) x.SetBits(i, y.Bits(i)), z.SetBits(i, EncodeFloat(DType::kFp32, -y.Float(i)));  // exact results, zeros
  auto X = [&](size_t i) -> long double { return x.Float(i); };
  auto Y = [&](size_t i) -> long double { return y.Float(i); };
  auto Z = [&](size_t i) -> long double { return z.Float(i); };
  std::vector<Expression> expressions;
  for (const auto& rounding : {std::pair<std::string, int>{"rz", 0}, {"rd", -1}, {"ru", 1}}) {
    const std::string suffix = rounding.first;
    const int d = rounding.second;
    auto add = [&](const std::string& name, const std::string& arguments, std::function<long double(size_t)> exact) {
      expressions.push_back(FloatExpression("libdevice." + name + "_" + suffix + arguments, DType::kFp32, [exact, d](size_t i) { return Directed<float>(exact(i), d); }));
    };
    add("div", "(x, y)", [&](size_t i) { return X(i) / Y(i); });
    add("mul", "(x, y)", [&](size_t i) { return X(i) * Y(i); });
    add("rcp", "(y)", [&](size_t i) { return 1 / Y(i); });
    add("sqrt", "(tl.abs(x))", [&](size_t i) { return std::sqrt(std::fabs(X(i))); });
    add("add", "(x, y)", [&](size_t i) { return X(i) + Y(i); });
    add("sub", "(x, y)", [&](size_t i) { return X(i) - Y(i); });
    add("fma", "(x, y, z)", [&](size_t i) { return X(i) * Y(i) + Z(i); });
    expressions.push_back(IntExpression("libdevice.float2int_" + suffix + "(x)", DType::kInt32, [X, d](size_t i) {
      return static_cast<int64_t>(d == 0 ? std::trunc(X(i)) : d < 0 ? std::floor(X(i)) : std::ceil(X(i)));
    }));
  }
  // A zero that is the exact sum of two numbers has a sign of its own in each direction.
  for (Expression& e : expressions) e.skip = [&](size_t i) { return X(i) - Y(i) == 0 || X(i) * Y(i) + Z(i) == 0; };
  RunExpressions({{"x", x}, {"y", y}, {"z", z}}, expressions);
}

TEST(MathRounding, BitsAndIntegers) {
  Tensor x = Special(DType::kInt32, kLanes, 1), y = Special(DType::kInt32, kLanes, 2, 14), f = Special(DType::kFp32, kLanes, 3);
  auto X = [&](size_t i) { return x.Int(i); };
  auto Y = [&](size_t i) { return y.Int(i); };
  RunExpressions({{"x", x}, {"y", y}, {"f", f}},
                 {IntExpression("libdevice.mulhi(x, y)", DType::kInt32, [&](size_t i) { return (X(i) * Y(i)) >> 32; }),
                  IntExpression("libdevice.mul24(x, y)", DType::kInt32, [&](size_t i) { return (X(i) << 40 >> 40) * (Y(i) << 40 >> 40); }),
                  IntExpression("libdevice.hadd(x, y)", DType::kInt32, [&](size_t i) { return (X(i) + Y(i)) >> 1; }),
                  IntExpression("libdevice.rhadd(x, y)", DType::kInt32, [&](size_t i) { return (X(i) + Y(i) + 1) >> 1; }),
                  IntExpression("libdevice.float_as_int(f)", DType::kInt32, [&](size_t i) { return static_cast<int32_t>(f.Bits(i)); }),
                  IntExpression("libdevice.float_as_int(libdevice.int_as_float(x))", DType::kInt32, X),
                  FloatExpression("libdevice.ldexp(libdevice.int2float_rn(x), y % 60)", DType::kFp32,
                                  [&](size_t i) { return std::ldexp(static_cast<double>(static_cast<float>(X(i))), static_cast<int>(Y(i) % 60)); }),
                  FloatExpression("libdevice.int2float_rz(x)", DType::kFp32, [&](size_t i) { return Directed<float>(static_cast<long double>(X(i)), 0); }),
                  IntExpression("libdevice.byte_perm(x, y, 0x0427)", DType::kInt32, [&](size_t i) {
                    auto byte = [&](int k) { return static_cast<int64_t>((k < 4 ? x.Bits(i) >> (8 * k) : y.Bits(i) >> (8 * (k - 4))) & 0xff); };
                    return byte(7) | byte(2) << 8 | byte(4) << 16 | byte(0) << 24;
                  })});
}

TEST(MathErrors, HalfTypesAreRefusedWithAHint) {
  Program program;
  program.source = "@triton.jit\ndef kernel(x):\n    i = tl.arange(0, 16)\n    tl.store(x + i, tl.exp(tl.load(x + i)))\n";
  for (DType t : {DType::kFp16, DType::kBf16}) ExpectCompileError(program, {Arg("x", Poison(t, 16))}, "float32");
}

TEST(MathIntegers, UmulhiAndCdiv) {
  Tensor x = Special(DType::kUint32, kLanes, 1), y = Special(DType::kUint32, kLanes, 2, 14), w = Special(DType::kUint64, kLanes, 3), v = Special(DType::kUint64, kLanes, 4, 14);
  RunExpressions({{"x", x}, {"y", y}, {"w", w}, {"v", v}},
                 {IntExpression("tl.umulhi(x, y)", DType::kUint32, [&](size_t i) { return static_cast<int64_t>(x.Bits(i) * y.Bits(i) >> 32); }),
                  IntExpression("tl.umulhi(w, v)", DType::kUint64, [&](size_t i) { return static_cast<int64_t>(static_cast<uint64_t>(static_cast<unsigned __int128>(w.Bits(i)) * v.Bits(i) >> 64)); }),
                  IntExpression("tl.cdiv(x, 8)", DType::kUint32, [&](size_t i) { return static_cast<int64_t>(static_cast<uint32_t>(x.Bits(i) + 7) / 8); })});
}

}  // namespace
}  // namespace tessera::conformance
