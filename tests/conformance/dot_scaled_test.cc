// Matrix products of block-scaled 8- and 4-bit floats (MX formats), with scales of 2^(e - 127) for 32 elements along K.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

constexpr int64_t kGroup = 32;

const char kScaled[] = R"py(
@triton.jit
def kernel(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
           APACK: tl.constexpr, BPACK: tl.constexpr, HAS_A: tl.constexpr, HAS_B: tl.constexpr, OUT: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    ka = tl.arange(0, K // APACK)
    kb = tl.arange(0, K // BPACK)
    g = tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // APACK) + ka[None, :])
    y = tl.load(b + kb[:, None] * N + n[None, :])
    if HAS_A:
        xs = tl.load(a_scale + m[:, None] * (K // 32) + g[None, :])
    else:
        xs = None
    if HAS_B:
        ys = tl.load(b_scale + n[:, None] * (K // 32) + g[None, :])
    else:
        ys = None
    acc = tl.full([M, N], 1.0, OUT)
    z = tl.dot_scaled(x, xs, A, y, ys, B, acc, out_dtype=OUT)
    tl.store(c + m[:, None] * N + n[None, :], z)
)py";

// A 4-bit float of 1 sign, 2 exponent and 1 mantissa bits.
double E2m1(uint64_t code) {
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

// One operand in memory and by value; `packed` along its K dimension.
struct Operand {
  Tensor tensor;
  std::vector<double> values;  // [rows, K], for the right operand [K, columns]
  std::string format;
  int pack = 1;
};

Operand Make(const std::string& format, int64_t rows, int64_t k, bool left, uint32_t seed) {
  Operand operand;
  operand.format = format;
  operand.values.resize(rows * k);
  auto at = [&](int64_t row, int64_t i) -> double& { return operand.values[left ? row * k + i : i * rows + row]; };
  if (format == "e2m1") {
    operand.pack = 2;
    operand.tensor = Random(DType::kUint8, rows * k / 2, seed);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < k; ++i) {
        const uint64_t byte = operand.tensor.Bits(left ? row * (k / 2) + i / 2 : i / 2 * rows + row);
        at(row, i) = E2m1(i % 2 ? byte >> 4 : byte & 15);
      }
    return operand;
  }
  const DType type = format == "e4m3" ? DType::kFp8E4M3Fn : format == "e5m2" ? DType::kFp8E5M2 : format == "bf16" ? DType::kBf16 : DType::kFp16;
  operand.tensor = Random(type, rows * k, seed);
  for (int64_t i = 0; i < rows * k; ++i) operand.values[i] = operand.tensor.Float(i);
  return operand;
}

void Check(const std::string& a_format, const std::string& b_format, bool has_a, bool has_b, const std::string& out = "fp32") {
  SCOPED_TRACE(a_format + " x " + b_format + (has_a ? ", scaled left" : "") + (has_b ? ", scaled right" : ""));
  const int64_t m = 32, n = 16, k = 128;
  Operand a = Make(a_format, m, k, true, 1), b = Make(b_format, n, k, false, 2);
  Tensor a_scale = RandomInts(DType::kUint8, m * (k / kGroup), 3, 120, 134), b_scale = RandomInts(DType::kUint8, n * (k / kGroup), 4, 120, 134);
  std::vector<double> want(m * n, 1);
  double largest = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        double x = a.values[i * k + l], y = b.values[l * n + j];
        if (has_a) x *= std::exp2(double(a_scale.Int(i * (k / kGroup) + l / kGroup)) - 127);
        if (has_b) y *= std::exp2(double(b_scale.Int(j * (k / kGroup) + l / kGroup)) - 127);
        want[i * n + j] += x * y;
      }
      largest = std::max(largest, std::fabs(want[i * n + j]));
    }
  Program program;
  program.source = kScaled;
  program.constants = "M=32,N=16,K=128,A=" + a_format + ",B=" + b_format + ",APACK=" + std::to_string(a.pack) + ",BPACK=" + std::to_string(b.pack) +
                      ",HAS_A=" + (has_a ? "True" : "False") + ",HAS_B=" + (has_b ? "True" : "False") + ",OUT=dtype:" + out;
  const DType result = out == "fp32" ? DType::kFp32 : DType::kBf16;
  Launch(program, {Arg("a", a.tensor), Arg("a_scale", a_scale), Arg("b", b.tensor), Arg("b_scale", b_scale), Arg("c", Poison(result, m * n))},
         [&](const Results& r) { ExpectFloats(r.at("c"), want, out == "fp32" ? 1e-5 : 1.6e-2); });
}

TEST(DotScaled, EightBitOperandsWithTheirScales) {
  for (const char* a : {"e4m3", "e5m2"})
    for (const char* b : {"e4m3", "e5m2"}) Check(a, b, true, true);
}
TEST(DotScaled, FourBitOperandsAreTwoAByteLowHalfFirst) {
  Check("e2m1", "e2m1", true, true);
  Check("e2m1", "e4m3", true, true);
  Check("e5m2", "e2m1", true, true);
}
TEST(DotScaled, ScalesMayBeLeftOut) {
  Check("e4m3", "e4m3", false, true);
  Check("e4m3", "e4m3", true, false);
  Check("e2m1", "e2m1", false, false);
}
TEST(DotScaled, HalfTypesMixWithScaledOnes) {
  Check("e4m3", "bf16", true, false);
  Check("bf16", "e2m1", false, true);
  Check("e5m2", "fp16", true, false);
}
TEST(DotScaled, TheResultIsOfTheTypeAskedFor) { Check("e4m3", "e4m3", true, true, "bf16"); }

TEST(DotScaled, ExtremeScalesAreZeroExponentAndNan) {
  // The scale 255 is NaN; 0 is 2^-127.
  const int64_t m = 16, n = 16, k = 32;
  Program program;
  program.source = kScaled;
  program.constants = "M=16,N=16,K=32,A=e4m3,B=e4m3,APACK=1,BPACK=1,HAS_A=True,HAS_B=True,OUT=dtype:fp32";
  std::vector<double> ones(m * k, 1);
  std::vector<int64_t> left(m, 127), right(n, 127);
  left[3] = 255;
  left[5] = 0;
  right[5] = 254;  // 2^127
  std::vector<double> want(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) want[i * n + j] = 1 + k * std::exp2(double(left[i] + right[j]) - 254);
  for (int64_t j = 0; j < n; ++j) want[3 * n + j] = NAN;
  Launch(program,
         {Arg("a", Floats(DType::kFp8E4M3Fn, ones)), Arg("a_scale", Ints(DType::kUint8, left)), Arg("b", Floats(DType::kFp8E4M3Fn, ones)),
          Arg("b_scale", Ints(DType::kUint8, right)), Arg("c", Poison(DType::kFp32, m * n))},
         [&](const Results& r) { ExpectFloats(r.at("c"), want, 1e-6); });
}

TEST(DotScaled, AnUnknownFormatNamesThoseThatExist) {
  Program program;
  program.source = kScaled;
  program.constants = "M=16,N=16,K=32,A=e3m2,B=e4m3,APACK=1,BPACK=1,HAS_A=True,HAS_B=True,OUT=dtype:fp32";
  ExpectCompileError(program,
                     {Arg("a", Random(DType::kUint8, 512, 1)), Arg("a_scale", Random(DType::kUint8, 16, 1)), Arg("b", Random(DType::kUint8, 512, 1)),
                      Arg("b_scale", Random(DType::kUint8, 16, 1)), Arg("c", Poison(DType::kFp32, 256))},
                     "e2m1, e4m3, e5m2, bf16, fp16");
}

}  // namespace
}  // namespace tessera::conformance
