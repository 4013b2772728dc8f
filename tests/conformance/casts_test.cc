// Conversions between all types; every code of the 8-bit floats; saturation and NaN.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

std::string TypeName(DType t) { return std::string(LanguageName(t).data(), LanguageName(t).size()); }

const DType kInts[] = {DType::kInt1, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
const DType kFloats[] = {DType::kFp16, DType::kBf16, DType::kFp32, DType::kFp64};

double IntAsDouble(const Tensor& x, size_t i) {
  return x.dtype == DType::kUint64 ? static_cast<double>(static_cast<uint64_t>(x.Int(i))) : static_cast<double>(x.Int(i));
}

// Truncates and saturates; NaN gives 0.
int64_t FloatToInt(DType t, double value) {
  if (std::isnan(value)) return 0;
  const int width = 8 * ByteSize(t);
  const double low = IsSigned(t) ? -std::ldexp(1.0, width - 1) : 0, high = std::ldexp(1.0, IsSigned(t) ? width - 1 : width);
  if (value <= low) return IsSigned(t) ? static_cast<int64_t>(~uint64_t{0} << (width - 1)) : 0;
  if (value >= high) return static_cast<int64_t>(~uint64_t{0} >> (64 - width + (IsSigned(t) ? 1 : 0)));
  return t == DType::kUint64 ? static_cast<int64_t>(static_cast<uint64_t>(value)) : static_cast<int64_t>(value);
}

class CastsFrom : public testing::TestWithParam<DType> {};

TEST_P(CastsFrom, EveryType) {
  const DType from = GetParam();
  Tensor x = Special(from, kLanes, 1);
  if (IsFloat(from))
    for (size_t i = 300; i < 700; ++i) x.SetBits(i, EncodeFloat(from, x.Float(i) * std::pow(2.0, static_cast<double>(i % 70))));
  std::vector<Expression> expressions;
  for (DType to : kInts) {
    const std::string text = "x.to(tl." + TypeName(to) + ")";
    if (to == DType::kInt1) expressions.push_back(IntExpression(text, to, [&](size_t i) { return x.Number(i) != 0; }));
    else if (IsFloat(from)) expressions.push_back(IntExpression(text, to, [&, to](size_t i) { return FloatToInt(to, x.Float(i)); }));
    else expressions.push_back(IntExpression(text, to, [&](size_t i) { return x.Int(i); }));
  }
  for (DType to : kFloats) {
    const std::string text = "x.to(tl." + TypeName(to) + ")";
    if (IsFloat(from)) {
      expressions.push_back(FloatExpression(text, to, [&](size_t i) { return x.Float(i); }));
    } else {
      Expression e = FloatExpression(text, to, [&](size_t i) { return IntAsDouble(x, i); });
      // A 64-bit integer is not exact in the reference.
      if (ByteSize(from) == 8) e.rtol = DefaultTolerance(to);
      expressions.push_back(e);
    }
  }
  RunExpressions({{"x", x}}, expressions);
}

INSTANTIATE_TEST_SUITE_P(Casts, CastsFrom,
                         testing::Values(DType::kInt1, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                                         DType::kFp16, DType::kBf16, DType::kFp32, DType::kFp64),
                         [](const testing::TestParamInfo<DType>& info) { return std::string(ShortName(info.param).data(), ShortName(info.param).size()); });

class Fp8 : public testing::TestWithParam<DType> {};

TEST_P(Fp8, All256CodesWiden) {
  const DType t = GetParam();
  Tensor x = Poison(t, kLanes);
  for (size_t i = 0; i < kLanes; ++i) x.SetBits(i, i & 255);
  // Recorded launches take e5m2's exponent 31 for an ordinary one on the way to bf16.
  auto to_bf16 = [&](size_t i) {
    const uint64_t code = x.Bits(i);
    if (t != DType::kFp8E5M2 || (code & 0x7c) != 0x7c) return x.Float(i);
    return (code & 0x80 ? -65536.0 : 65536.0) * (1 + static_cast<double>(code & 3) / 4);
  };
  RunExpressions({{"x", x}}, {FloatExpression("x.to(tl.float32)", DType::kFp32, [&](size_t i) { return x.Float(i); }),
                              FloatExpression("x.to(tl.float16)", DType::kFp16, [&](size_t i) { return x.Float(i); }),
                              FloatExpression("x.to(tl.bfloat16)", DType::kBf16, to_bf16)});
}

TEST_P(Fp8, NarrowingRoundsToNearestEvenAndSaturates) {
  const DType t = GetParam();
  // Every code, every midpoint between neighbours, and both sides of it.
  std::vector<double> values;
  for (uint64_t code = 0; code < 255; ++code) {
    const double a = DecodeFloat(t, code), b = DecodeFloat(t, code + 1);
    if (std::isnan(a) || std::isnan(b) || std::isinf(a) || std::isinf(b) || code == 127) continue;
    const double middle = (a + b) / 2;
    for (double v : {a, middle, middle * (1 + 0x1p-9), middle * (1 - 0x1p-9)}) values.push_back(v);
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (double v : {inf, -inf, std::nan(""), 0.0, -0.0, 1e30, -1e30, 460.0, 470.0, 60000.0, 65000.0, 1e-30}) values.push_back(v);
  values.resize(kLanes, 1.0);
  Tensor x = Floats(DType::kFp32, values), h = Floats(DType::kFp16, values), g = Floats(DType::kBf16, values);
  const std::string to = ".to(tl." + TypeName(t) + ")";
  RunExpressions({{"x", x}, {"h", h}, {"g", g}},
                 {FloatExpression("x" + to, t, [&](size_t i) { return x.Float(i); }), FloatExpression("h" + to, t, [&](size_t i) { return h.Float(i); }),
                  FloatExpression("g" + to, t, [&](size_t i) { return g.Float(i); })});
}

INSTANTIATE_TEST_SUITE_P(Casts, Fp8, testing::Values(DType::kFp8E4M3Fn, DType::kFp8E5M2),
                         [](const testing::TestParamInfo<DType>& info) { return std::string(ShortName(info.param).data(), ShortName(info.param).size()); });

TEST(Casts, OtherFp8TypesWidenAllCodes) {
  for (DType t : {DType::kFp8E4M3Fnuz, DType::kFp8E5M2Fnuz, DType::kFp8E4B15}) {
    Tensor x = Poison(t, kLanes);
    for (size_t i = 0; i < kLanes; ++i) x.SetBits(i, i & 255);
    RunExpressions({{"x", x}}, {FloatExpression("x.to(tl.float32)", DType::kFp32, [&](size_t i) { return x.Float(i); })});
  }
}

// As Triton narrows to it: fp16's bits, doubled, rounded half away from zero, at most 1.75.
TEST(Casts, Float8e4b15NarrowsAndIsForStorageOnly) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back((i - 500) / 250.0);
  for (double v : {0.0, -0.0, 1e-4, -1e-5, 1e9, -1e9, 1.75, 1.8125}) values.push_back(v);
  values.resize(kLanes, 1.0);
  Tensor h = Floats(DType::kFp16, values);
  std::vector<uint64_t> codes;
  for (size_t i = 0; i < kLanes; ++i) codes.push_back((std::min<uint64_t>(h.Bits(i) & 0x7fff, 0x3f00) * 2 + 0x80) >> 8 | h.Bits(i) >> 15 << 7);
  auto code = [&](size_t i) { return static_cast<int64_t>(codes[i]); };
  RunExpressions({{"h", h}}, {IntExpression("h.to(tl.float8e4b15).to(tl.uint8, bitcast=True)", DType::kUint8, code),
                              IntExpression("h.to(tl.float32).to(tl.float8e4b15).to(tl.uint8, bitcast=True)", DType::kUint8, code)});
  Program program;
  program.source = "@triton.jit\ndef kernel(x):\n    i = tl.arange(0, 16)\n    a = tl.load(x + i)\n    tl.store(x + i, a + a)\n";
  ExpectCompileError(program, {Arg("x", Poison(DType::kFp8E4B15, 16))}, "float8e4b15 is for storage only");
}

TEST(Casts, Fp8ToAndFromIntegersIsRefused) {
  Program program;
  program.source = "@triton.jit\ndef kernel(x, o):\n    i = tl.arange(0, 16)\n    tl.store(o + i, tl.load(x + i).to(tl.int32))\n";
  ExpectCompileError(program, {Arg("x", Poison(DType::kFp8E4M3Fn, 16)), Arg("o", Poison(DType::kInt32, 16))}, "float8e4nv");
}

TEST(Casts, RoundingTowardsZeroWhereAsked) {
  Tensor x = Random(DType::kFp32, kLanes, 5, 10);
  auto truncated = [&](DType t, size_t i) {
    double v = RoundTo(t, x.Float(i));
    if (std::fabs(v) > std::fabs(x.Float(i))) v = DecodeFloat(t, EncodeFloat(t, v) - 1);
    return v;
  };
  RunExpressions({{"x", x}}, {FloatExpression("x.to(tl.float16, fp_downcast_rounding='rtz')", DType::kFp16, [&](size_t i) { return truncated(DType::kFp16, i); }),
                              FloatExpression("tl.cast(x, tl.bfloat16, fp_downcast_rounding='rtz')", DType::kBf16, [&](size_t i) { return truncated(DType::kBf16, i); }),
                              FloatExpression("x.to(tl.float16, fp_downcast_rounding='rtne')", DType::kFp16, [&](size_t i) { return x.Float(i); })});
}

TEST(Casts, BitcastsKeepEveryBit) {
  Tensor x = Special(DType::kFp32, kLanes, 6), h = Special(DType::kFp16, kLanes, 7), k = Special(DType::kInt16, kLanes, 8);
  RunExpressions({{"x", x}, {"h", h}, {"k", k}},
                 {IntExpression("x.to(tl.int32, bitcast=True)", DType::kInt32, [&](size_t i) { return static_cast<int64_t>(x.Bits(i)); }),
                  IntExpression("tl.cast(h, tl.uint16, bitcast=True)", DType::kUint16, [&](size_t i) { return static_cast<int64_t>(h.Bits(i)); }),
                  FloatExpression("k.to(tl.bfloat16, bitcast=True)", DType::kBf16, [&](size_t i) { return DecodeFloat(DType::kBf16, k.Bits(i)); })});
}

// A store converts to the type of its pointer.
TEST(Casts, StoresConvertToTheElementType) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(x, f16, i8, b):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    tl.store(f16 + i, v)
    tl.store(i8 + i, v)
    tl.store(b + i, v)
)py";
  Tensor x = RandomInts(DType::kFp32, 64, 9, -40, 40);
  std::vector<double> floats;
  std::vector<int64_t> ints, bools;
  for (size_t i = 0; i < 64; ++i) floats.push_back(x.Float(i)), ints.push_back(static_cast<int64_t>(x.Float(i))), bools.push_back(x.Float(i) != 0);
  Launch(program, {Arg("x", x), Arg("f16", Poison(DType::kFp16, 64)), Arg("i8", Poison(DType::kInt8, 64)), Arg("b", Poison(DType::kInt1, 64))}, [&](const Results& r) {
    ExpectFloats(r.at("f16"), floats, kExact);
    ExpectInts(r.at("i8"), ints);
    ExpectInts(r.at("b"), bools);
  });
}

}  // namespace
}  // namespace tessera::conformance
