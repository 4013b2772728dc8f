// Arithmetic, promotion, weak literals, comparisons, shifts, selections.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Pair {
  Tensor x, y;
};

// Every pair of special values, then random ones.
Pair Pairs(DType dtype) {
  return {Special(dtype, kLanes, 1), Special(dtype, kLanes, 2, SpecialBits(dtype).size())};
}

class FloatTypes : public testing::TestWithParam<DType> {};
class IntTypes : public testing::TestWithParam<DType> {};
std::string NameOf(const testing::TestParamInfo<DType>& info) { return std::string(ShortName(info.param).data(), ShortName(info.param).size()); }

TEST_P(FloatTypes, ArithmeticIsThatOfIeee) {
  const DType t = GetParam();
  auto [x, y] = Pairs(t);
  auto X = [&, x = x](size_t i) { return x.Float(i); };
  auto Y = [&, y = y](size_t i) { return y.Float(i); };
  const DType quotient = t == DType::kFp64 ? t : DType::kFp32;
  std::vector<Expression> expressions = {
      FloatExpression("x + y", t, [&](size_t i) { return X(i) + Y(i); }),
      FloatExpression("x - y", t, [&](size_t i) { return X(i) - Y(i); }),
      FloatExpression("x * y", t, [&](size_t i) { return X(i) * Y(i); }),
      FloatExpression("-x", t, [&](size_t i) { return 0 - X(i); }),  // -(0.0) is 0.0, as recorded
      FloatExpression("x / y", quotient, [&](size_t i) { return X(i) / Y(i); }, t == DType::kFp64 ? 1e-15 : 2.5e-7),
      FloatExpression("tl.abs(x)", t, [&](size_t i) { return std::fabs(X(i)); }),
      FloatExpression("x + 1", t, [&](size_t i) { return X(i) + 1; }),
      FloatExpression("1.5 * x", t, [&](size_t i) { return 1.5 * X(i); }),
      FloatExpression("tl.where(x < y, x, 2.0)", t, [&](size_t i) { return X(i) < Y(i) ? X(i) : 2.0; }),
      FloatExpression("tl.where(x == x, y, x)", t, [&](size_t i) { return X(i) == X(i) ? Y(i) : X(i); }),
  };
  RunExpressions({{"x", x}, {"y", y}}, expressions);
}

TEST_P(FloatTypes, ComparisonsTreatNanAndSignedZeros) {
  const DType t = GetParam();
  auto [x, y] = Pairs(t);
  auto X = [x = x](size_t i) { return x.Float(i); };
  auto Y = [y = y](size_t i) { return y.Float(i); };
  RunExpressions({{"x", x}, {"y", y}},
                 {IntExpression("x < y", DType::kInt1, [&](size_t i) { return X(i) < Y(i); }), IntExpression("x <= y", DType::kInt1, [&](size_t i) { return X(i) <= Y(i); }),
                  IntExpression("x > y", DType::kInt1, [&](size_t i) { return X(i) > Y(i); }), IntExpression("x >= y", DType::kInt1, [&](size_t i) { return X(i) >= Y(i); }),
                  IntExpression("x == y", DType::kInt1, [&](size_t i) { return X(i) == Y(i); }), IntExpression("x != y", DType::kInt1, [&](size_t i) { return X(i) != Y(i); }),
                  IntExpression("x != 0", DType::kInt1, [&](size_t i) { return X(i) != 0; }),
                  IntExpression("(x > 0) & (y > 0)", DType::kInt1, [&](size_t i) { return X(i) > 0 && Y(i) > 0; }),
                  IntExpression("(x > 0) ^ (y > 0)", DType::kInt1, [&](size_t i) { return (X(i) > 0) != (Y(i) > 0); }),
                  IntExpression("(x > 0) or not (y > 0)", DType::kInt1, [&](size_t i) { return X(i) > 0 || !(Y(i) > 0); }),
                  IntExpression("(x > 0) and (y > 0)", DType::kInt1, [&](size_t i) { return X(i) > 0 && Y(i) > 0; })});
}

TEST_P(FloatTypes, MaximumAndMinimumWithNanAndInfinity) {
  const DType t = GetParam(), wide = t == DType::kBf16 ? DType::kFp32 : t;
  auto [x, y] = Pairs(t);
  auto X = [x = x](size_t i) { return x.Float(i); };
  auto Y = [y = y](size_t i) { return y.Float(i); };
  // The sign of a zero is not specified where both are zeros.
  auto both_zero = [&](size_t i) { return X(i) == 0 && Y(i) == 0; };
  auto either_nan = [&](size_t i) { return std::isnan(X(i)) || std::isnan(Y(i)); };
  std::vector<Expression> expressions = {
      FloatExpression("tl.maximum(x, y)", wide, [&](size_t i) { return std::fmax(X(i), Y(i)); }),
      FloatExpression("tl.minimum(x, y)", wide, [&](size_t i) { return std::fmin(X(i), Y(i)); }),
      FloatExpression("tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", wide, [&](size_t i) { return either_nan(i) ? kNan : std::fmax(X(i), Y(i)); }),
      FloatExpression("tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)", wide, [&](size_t i) { return either_nan(i) ? kNan : std::fmin(X(i), Y(i)); }),
  };
  for (Expression& e : expressions) e.skip = both_zero;
  RunExpressions({{"x", x}, {"y", y}}, expressions);
}

INSTANTIATE_TEST_SUITE_P(Elementwise, FloatTypes, testing::Values(DType::kFp16, DType::kBf16, DType::kFp32, DType::kFp64), NameOf);

TEST(Elementwise, ClampWithInfinities) {
  Tensor x = Special(DType::kFp32, kLanes, 3);
  auto X = [&](size_t i) { return x.Float(i); };
  Expression clamp = FloatExpression("tl.clamp(x, -1.0, 2.0)", DType::kFp32, [&](size_t i) { return std::fmin(std::fmax(X(i), -1.0), 2.0); });
  clamp.skip = [&](size_t i) { return std::isnan(X(i)); };
  Expression all = FloatExpression("tl.clamp(x, -1.0, 2.0, propagate_nan=tl.PropagateNan.ALL)", DType::kFp32,
                                   [&](size_t i) { return std::isnan(X(i)) ? kNan : std::fmin(std::fmax(X(i), -1.0), 2.0); });
  RunExpressions({{"x", x}}, {clamp, all});
}

int64_t Wrap(DType t, int64_t value) { return DecodeInt(t, static_cast<uint64_t>(value)); }

TEST_P(IntTypes, ArithmeticWrapsAtTheWidth) {
  const DType t = GetParam();
  auto [x, y] = Pairs(t);
  auto X = [x = x](size_t i) { return static_cast<uint64_t>(x.Int(i)); };
  auto Y = [y = y](size_t i) { return static_cast<uint64_t>(y.Int(i)); };
  const int64_t width = 8 * ByteSize(t);
  std::vector<Expression> expressions = {
      IntExpression("x + y", t, [&](size_t i) { return X(i) + Y(i); }),
      IntExpression("x - y", t, [&](size_t i) { return X(i) - Y(i); }),
      IntExpression("x * y", t, [&](size_t i) { return X(i) * Y(i); }),
      IntExpression("x & y", t, [&](size_t i) { return X(i) & Y(i); }),
      IntExpression("x | y", t, [&](size_t i) { return X(i) | Y(i); }),
      IntExpression("x ^ y", t, [&](size_t i) { return X(i) ^ Y(i); }),
      IntExpression("~x", t, [&](size_t i) { return ~X(i); }),
      IntExpression("x * 3", t, [&](size_t i) { return X(i) * 3; }),
      IntExpression("x + 100", t, [&](size_t i) { return X(i) + 100; }),
      IntExpression("x << (y & " + std::to_string(width - 1) + ")", t, [&](size_t i) { return X(i) << (Y(i) & (width - 1)); }),
      // The value has its type's sign already: an arithmetic shift of it is a logical one where the type is unsigned.
      IntExpression("x >> (y & " + std::to_string(width - 1) + ")", t,
                    [&](size_t i) { return IsSigned(t) ? static_cast<int64_t>(X(i)) >> (Y(i) & (width - 1)) : static_cast<int64_t>(X(i) >> (Y(i) & (width - 1))); }),
      IntExpression("tl.where(x > y, x, y)", t, [&](size_t i) {
        return IsSigned(t) ? std::max(static_cast<int64_t>(X(i)), static_cast<int64_t>(Y(i))) : static_cast<int64_t>(std::max(X(i), Y(i)));
      }),
      IntExpression("tl.maximum(x, y)", t, [&](size_t i) {
        return IsSigned(t) ? std::max(static_cast<int64_t>(X(i)), static_cast<int64_t>(Y(i))) : static_cast<int64_t>(std::max(X(i), Y(i)));
      }),
      IntExpression("tl.minimum(x, y)", t, [&](size_t i) {
        return IsSigned(t) ? std::min(static_cast<int64_t>(X(i)), static_cast<int64_t>(Y(i))) : static_cast<int64_t>(std::min(X(i), Y(i)));
      }),
  };
  if (IsSigned(t)) {
    expressions.push_back(IntExpression("-x", t, [&](size_t i) { return 0 - X(i); }));
    expressions.push_back(IntExpression("tl.abs(x)", t, [&](size_t i) { return static_cast<int64_t>(X(i)) < 0 ? 0 - X(i) : X(i); }));
  }
  RunExpressions({{"x", x}, {"y", y}}, expressions);
}

TEST_P(IntTypes, DivisionTruncatesAndNeverTraps) {
  const DType t = GetParam();
  auto [x, y] = Pairs(t);
  auto X = [x = x](size_t i) { return x.Int(i); };
  auto Y = [y = y](size_t i) { return y.Int(i); };
  const int64_t lowest = IsSigned(t) ? Wrap(t, int64_t{1} << (8 * ByteSize(t) - 1)) : 1;
  auto unspecified = [&](size_t i) { return Y(i) == 0 || (IsSigned(t) && X(i) == lowest && Y(i) == -1); };
  auto quotient = [&](size_t i) -> int64_t {
    return IsSigned(t) ? X(i) / Y(i) : static_cast<int64_t>(static_cast<uint64_t>(X(i)) / static_cast<uint64_t>(Y(i)));
  };
  auto remainder = [&](size_t i) -> int64_t { return static_cast<int64_t>(static_cast<uint64_t>(X(i)) - static_cast<uint64_t>(quotient(i)) * static_cast<uint64_t>(Y(i))); };
  RunExpressions({{"x", x}, {"y", y}},
                 {IntExpression("x // y", t, quotient, unspecified), IntExpression("x % y", t, remainder, unspecified),
                  IntExpression("tl.where(y == 0, x, x // y + x % y)", t, [&](size_t i) { return Y(i) == 0 ? X(i) : quotient(i) + remainder(i); },
                                [&](size_t i) { return Y(i) != 0 && unspecified(i); }),
                  IntExpression("x // 7", t, [&](size_t i) { return IsSigned(t) ? X(i) / 7 : static_cast<int64_t>(static_cast<uint64_t>(X(i)) / 7); }),
                  IntExpression("x % 8", t, [&](size_t i) { return X(i) % 8; }, [&](size_t i) { return !IsSigned(t) && X(i) < 0; })});
}

TEST_P(IntTypes, ComparisonsFollowTheSign) {
  const DType t = GetParam();
  auto [x, y] = Pairs(t);
  auto less = [&, x = x, y = y](size_t i) { return IsSigned(t) ? x.Int(i) < y.Int(i) : static_cast<uint64_t>(x.Int(i)) < static_cast<uint64_t>(y.Int(i)); };
  auto equal = [x = x, y = y](size_t i) { return x.Int(i) == y.Int(i); };
  RunExpressions({{"x", x}, {"y", y}},
                 {IntExpression("x < y", DType::kInt1, less), IntExpression("x >= y", DType::kInt1, [&](size_t i) { return !less(i); }),
                  IntExpression("x <= y", DType::kInt1, [&](size_t i) { return less(i) || equal(i); }),
                  IntExpression("x > y", DType::kInt1, [&](size_t i) { return !less(i) && !equal(i); }), IntExpression("x == y", DType::kInt1, equal),
                  IntExpression("x != y", DType::kInt1, [&](size_t i) { return !equal(i); })});
}

INSTANTIATE_TEST_SUITE_P(Elementwise, IntTypes,
                         testing::Values(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64), NameOf);

// C's usual conversions, on the widths where they differ.
TEST(Elementwise, MixedTypesPromote) {
  Tensor a = Special(DType::kInt8, kLanes, 4), b = Special(DType::kUint8, kLanes, 5), c = Special(DType::kInt32, kLanes, 6), d = Special(DType::kUint32, kLanes, 7),
         e = Special(DType::kInt64, kLanes, 8), h = Special(DType::kFp16, kLanes, 9), g = Special(DType::kBf16, kLanes, 10), f = Special(DType::kFp32, kLanes, 11);
  RunExpressions({{"a", a}, {"b", b}, {"c", c}, {"d", d}, {"e", e}, {"h", h}, {"g", g}, {"f", f}},
                 {IntExpression("a + c", DType::kInt32, [&](size_t i) { return a.Int(i) + c.Int(i); }),
                  IntExpression("b + c", DType::kInt32, [&](size_t i) { return b.Int(i) + c.Int(i); }),
                  IntExpression("c + d", DType::kUint32, [&](size_t i) { return c.Int(i) + d.Int(i); }),
                  IntExpression("d + e", DType::kInt64, [&](size_t i) { return static_cast<uint64_t>(d.Int(i)) + static_cast<uint64_t>(e.Int(i)); }),
                  IntExpression("a + b", DType::kUint8, [&](size_t i) { return a.Int(i) + b.Int(i); }),
                  IntExpression("c < d", DType::kInt1, [&](size_t i) { return static_cast<uint32_t>(c.Int(i)) < static_cast<uint32_t>(d.Int(i)); }),
                  FloatExpression("h + a", DType::kFp16, [&](size_t i) { return h.Float(i) + static_cast<double>(a.Int(i)); }),
                  FloatExpression("h + f", DType::kFp32, [&](size_t i) { return h.Float(i) + f.Float(i); }),
                  FloatExpression("g * f", DType::kFp32, [&](size_t i) { return g.Float(i) * f.Float(i); }),
                  FloatExpression("c * f", DType::kFp32, [&](size_t i) { return RoundTo(DType::kFp32, static_cast<double>(c.Int(i))) * f.Float(i); }),
                  FloatExpression("a / c", DType::kFp32, [&](size_t i) { return static_cast<double>(a.Int(i)) / static_cast<double>(c.Int(i)); }, 2.5e-7),
                  FloatExpression("f % 3.5", DType::kFp32, [&](size_t i) { return std::fmod(f.Float(i), 3.5); })});
}

TEST(Elementwise, LiteralsAreWeakUntilAssigned) {
  Tensor h = Special(DType::kFp16, kLanes, 12), a = Special(DType::kInt8, kLanes, 13);
  RunExpressions({{"h", h}, {"a", a}},
                 {FloatExpression("h * 2.0", DType::kFp16, [&](size_t i) { return h.Float(i) * 2; }),
                  FloatExpression("h + helper_scalar()", DType::kFp32, [&](size_t i) { return h.Float(i) + 2; }),
                  FloatExpression("tl.maximum(h, 0.5)", DType::kFp32, [&](size_t i) { return std::fmax(h.Float(i), 0.5); }),
                  IntExpression("a + 1", DType::kInt8, [&](size_t i) { return a.Int(i) + 1; }),
                  FloatExpression("a + 1.0", DType::kFp32, [&](size_t i) { return static_cast<double>(a.Int(i)) + 1; })},
                 "@triton.jit\ndef helper_scalar():\n    c = 2.0\n    return c\n");
}

TEST(Elementwise, LiteralThatDoesNotFitIsRefused) {
  Program program;
  program.source = "@triton.jit\ndef kernel(p):\n    i = tl.arange(0, 4)\n    tl.store(p + i, tl.load(p + i) + 255)\n";
  ExpectCompileError(program, {Arg("p", Poison(DType::kInt8, 4))}, "255");
}

// Scalars divide as blocks do; constexprs as Python does.
TEST(Elementwise, DivisionOfNegativeScalarsTruncatesAndOfConstexprsFloors) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, a, b, A: tl.constexpr, B: tl.constexpr):
    tl.store(o, a // b)
    tl.store(o + 1, a % b)
    tl.store(o + 2, tl.cdiv(a, b))
    tl.store(o + 3, A // B)
    tl.store(o + 4, A % B)
    v = tl.full((4,), -7, tl.int32)
    i = tl.arange(0, 4)
    tl.store(o + 8 + i, v // (i + 2))
    tl.store(o + 12 + i, tl.cdiv(v, i + 2))
)py";
  program.constants = "A=-7,B=2";
  Launch(program, {Arg("o", Poison(DType::kInt32, 16)), Arg("a", "i32", -7), Arg("b", "i32", 2)}, [](const Results& r) {
    const int32_t poison = static_cast<int32_t>(0xabababab);
    ExpectInts(r.at("o"), {-3, -1, (-7 + 2 - 1) / 2, -4, 1, poison, poison, poison, -3, -2, -1, -1, (-7 + 1) / 2, (-7 + 2) / 3, (-7 + 3) / 4, (-7 + 4) / 5});
  });
}

TEST(Elementwise, QuotientBesideRemainderWithZeroDivisor) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, y, q, r, n):
    i = tl.arange(0, 64)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(y + i, mask=m)
    tl.store(q + i, a // b, mask=m & (b != 0))
    tl.store(r + i, a % b, mask=m & (b != 0))
)py";
  Tensor x = RandomInts(DType::kInt32, 37, 1, -1000, 1000), y = RandomInts(DType::kInt32, 37, 2, -3, 3);
  Launch(program, {Arg("x", x), Arg("y", y), Arg("q", Poison(DType::kInt32, 37)), Arg("r", Poison(DType::kInt32, 37)), Arg("n", "i32", 37)}, [&](const Results& results) {
    std::vector<int64_t> q, r;
    for (size_t i = 0; i < 37; ++i) {
      const int64_t b = y.Int(i);
      q.push_back(b ? x.Int(i) / b : 0xabababab);
      r.push_back(b ? x.Int(i) % b : 0xabababab);
    }
    ExpectInts(results.at("q"), q);
    ExpectInts(results.at("r"), r);
  });
}

TEST(Elementwise, WideArithmeticIsNeverNarrowed) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(o, big, stride):
    pid = tl.program_id(0) + 3
    i = tl.arange(0, 4)
    wide = (pid + big).to(tl.int64) * stride + i
    narrow = (pid + big) * stride + i
    tl.store(o + tl.program_id(0) * 8 + i, wide)
    tl.store(o + tl.program_id(0) * 8 + 4 + i, narrow)
)py";
  program.grid = {2, 1, 1};
  Launch(program, {Arg("o", Poison(DType::kInt64, 16)), Arg("big", "i32", 70000), Arg("stride", "i32", 1 << 20)}, [](const Results& r) {
    std::vector<int64_t> want;
    for (int64_t pid = 0; pid < 2; ++pid) {
      const int64_t product = (pid + 3 + 70000) * (int64_t{1} << 20);
      for (int64_t i = 0; i < 4; ++i) want.push_back(product + i);
      for (int64_t i = 0; i < 4; ++i) want.push_back(static_cast<int32_t>(product + i));
    }
    ExpectInts(r.at("o"), want);
  });
}

}  // namespace
}  // namespace tessera::conformance
