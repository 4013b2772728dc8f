// Matrix products: types, precisions, accumulators, batches, tails.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

std::string TypeName(DType t) { return std::string(LanguageName(t).data(), LanguageName(t).size()); }

// The low 13 bits of the mantissa dropped.
double Tf32(double value) {
  const uint64_t bits = EncodeFloat(DType::kFp32, value) & ~uint64_t{0x1fff};
  return DecodeFloat(DType::kFp32, bits);
}

const char kMatmul[] = R"py(
@triton.jit
def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.$ACC)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k0 + k)[None, :], mask=(m[:, None] < M) & ((k0 + k)[None, :] < K), other=0)
        y = tl.load(b + (k0 + k)[:, None] * N + n[None, :], mask=((k0 + k)[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(x, y, acc$OPTIONS)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
)py";

void CheckMatmul(DType in, DType acc, const std::string& options, bool tf32, double tolerance, size_t M, size_t N, size_t K) {
  SCOPED_TRACE(TypeName(in) + " " + options + " " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K));
  const bool floats = IsFloat(in);
  Tensor a = floats ? Random(in, M * K, 1) : Random(in, M * K, 1), b = Random(in, K * N, 2);
  std::vector<double> want(M * N, 0);
  for (size_t m = 0; m < M; ++m)
    for (size_t n = 0; n < N; ++n)
      for (size_t k = 0; k < K; ++k) {
        const double x = a.Number(m * K + k), y = b.Number(k * N + n);
        want[m * N + n] += tf32 ? Tf32(x) * Tf32(y) : x * y;
      }
  Program program;
  program.source = Substitute(kMatmul, {{"ACC", TypeName(acc)}, {"OPTIONS", options}});
  program.constants = "BM=32,BN=64,BK=32";
  program.grid = {static_cast<uint32_t>((M + 31) / 32), static_cast<uint32_t>((N + 63) / 64), 1};
  Launch(program,
         {Arg("a", a), Arg("b", b), Arg("c", Poison(acc, M * N)), Arg("M", "i32", static_cast<double>(M)), Arg("N", "i32", static_cast<double>(N)),
          Arg("K", "i32", static_cast<double>(K))},
         [&](const Results& r) {
           if (floats) ExpectFloats(r.at("c"), want, tolerance);
           else ExpectInts(r.at("c"), {want.begin(), want.end()});
         });
}

const size_t kProblems[][3] = {{1, 1, 1}, {2, 16, 127}, {33, 127, 100}, {64, 64, 64}};

TEST(Dot, HalfTypesAccumulateInFp32) {
  for (DType t : {DType::kFp16, DType::kBf16})
    for (const auto& p : kProblems) CheckMatmul(t, DType::kFp32, "", false, 1e-5, p[0], p[1], p[2]);
}
TEST(Dot, Fp32IsTf32ByDefault) {
  for (const auto& p : kProblems) CheckMatmul(DType::kFp32, DType::kFp32, "", true, 1e-5, p[0], p[1], p[2]);
}
TEST(Dot, Fp32WithEveryInputPrecision) {
  for (const auto& p : {kProblems[1], kProblems[2]}) {
    CheckMatmul(DType::kFp32, DType::kFp32, ", input_precision='tf32'", true, 1e-5, p[0], p[1], p[2]);
    CheckMatmul(DType::kFp32, DType::kFp32, ", input_precision='ieee'", false, 1e-6, p[0], p[1], p[2]);
    CheckMatmul(DType::kFp32, DType::kFp32, ", allow_tf32=False", false, 1e-6, p[0], p[1], p[2]);
    CheckMatmul(DType::kFp32, DType::kFp32, ", input_precision='tf32x3'", false, 4e-6, p[0], p[1], p[2]);
    CheckMatmul(DType::kFp32, DType::kFp32, ", input_precision='bf16x3'", false, 1e-4, p[0], p[1], p[2]);
    CheckMatmul(DType::kFp32, DType::kFp32, ", input_precision='bf16x6'", false, 4e-6, p[0], p[1], p[2]);
  }
}
TEST(Dot, Int8AccumulatesInInt32) {
  for (const auto& p : kProblems) CheckMatmul(DType::kInt8, DType::kInt32, "", false, 0, p[0], p[1], p[2]);
}
TEST(Dot, Fp8AccumulatesInFp32) {
  for (DType t : {DType::kFp8E4M3Fn, DType::kFp8E5M2})
    for (const auto& p : {kProblems[1], kProblems[2]}) CheckMatmul(t, DType::kFp32, "", false, 1e-5, p[0], p[1], p[2]);
}
TEST(Dot, Fp64) { CheckMatmul(DType::kFp64, DType::kFp64, ", out_dtype=tl.float64", false, 1e-12, 33, 127, 100); }
TEST(Dot, Fp16AccumulatorWhereAsked) { CheckMatmul(DType::kFp16, DType::kFp16, ", out_dtype=tl.float16", false, 2e-2, 33, 64, 32); }

TEST(Dot, MoreDimensionsAndChains) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(a, b, c, d, e):
    g = tl.arange(0, 4)[:, None, None]
    i = tl.arange(0, 16)
    j = tl.arange(0, 32)
    x = tl.load(a + g * 512 + i[None, :, None] * 32 + j[None, None, :])
    y = tl.load(b + g * 512 + j[None, :, None] * 16 + i[None, None, :])
    z = tl.dot(x, y)
    tl.store(c + g * 256 + i[None, :, None] * 16 + i[None, None, :], z)
    five = tl.dot(tl.trans(y).reshape([2, 1, 2, 16, 32]), x.T.reshape([2, 1, 2, 32, 16]))
    tl.store(e + g * 256 + i[None, :, None] * 16 + i[None, None, :], tl.trans(five.reshape([4, 16, 16])))
    w = tl.dot(z.to(x.dtype), x)
    tl.store(d + g * 512 + i[None, :, None] * 32 + j[None, None, :], w)
)py";
  Tensor a = RandomInts(DType::kFp16, 2048, 1, -2, 2), b = RandomInts(DType::kFp16, 2048, 2, -2, 2);
  std::vector<double> c(1024, 0), d(2048, 0);
  for (size_t g = 0; g < 4; ++g) {
    for (size_t i = 0; i < 16; ++i)
      for (size_t n = 0; n < 16; ++n)
        for (size_t k = 0; k < 32; ++k) c[g * 256 + i * 16 + n] += a.Float(g * 512 + i * 32 + k) * b.Float(g * 512 + k * 16 + n);
    for (size_t i = 0; i < 16; ++i)
      for (size_t n = 0; n < 32; ++n)
        for (size_t k = 0; k < 16; ++k) d[g * 512 + i * 32 + n] += c[g * 256 + i * 16 + k] * a.Float(g * 512 + k * 32 + n);
  }
  Launch(program, {Arg("a", a), Arg("b", b), Arg("c", Poison(DType::kFp32, 1024)), Arg("d", Poison(DType::kFp32, 2048)), Arg("e", Poison(DType::kFp32, 1024))}, [&](const Results& r) {
    ExpectFloats(r.at("c"), c, 1e-12);
    ExpectFloats(r.at("e"), c, 1e-12);
    ExpectFloats(r.at("d"), d, 1e-12);
  });
}

TEST(Dot, TransposedOperandsAndPlusAccumulate) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(a, b, c):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    x = tl.load(a + at)
    y = tl.load(b + at)
    z = tl.dot(x, tl.trans(y), input_precision='ieee')
    z += tl.dot(x.T, y, input_precision='ieee')
    tl.store(c + at, z)
)py";
  Tensor a = RandomInts(DType::kFp32, 1024, 3, -9, 9), b = RandomInts(DType::kFp32, 1024, 4, -9, 9);
  std::vector<double> want(1024, 0);
  for (size_t m = 0; m < 32; ++m)
    for (size_t n = 0; n < 32; ++n)
      for (size_t k = 0; k < 32; ++k) want[m * 32 + n] += a.Float(m * 32 + k) * b.Float(n * 32 + k) + a.Float(k * 32 + m) * b.Float(k * 32 + n);
  Launch(program, {Arg("a", a), Arg("b", b), Arg("c", Poison(DType::kFp32, 1024))}, [&](const Results& r) { ExpectFloats(r.at("c"), want, 1e-12); });
}

}  // namespace
}  // namespace tessera::conformance
