// Matrix products in loops, with the tile shapes, warps and stages that choose between matrix units and pipelines.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/conformance/kernel_runner.h"

namespace tessera::conformance {
namespace {

const char kMatmul[] = R"py(
@triton.jit
def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TA: tl.constexpr, TB: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    if TA:
        ap = a + rk[None, :] * M + rm[:, None]
    else:
        ap = a + rm[:, None] * K + rk[None, :]
    if TB == 1:
        bp = b + rn[None, :] * K + rk[:, None]
    elif TB == 2:
        bp = b + rn[:, None] * K + rk[None, :]
    else:
        bp = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.$ACC)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=(rm[:, None] < M) & (rk[None, :] < K - k * BK), other=0)
        if TB == 2:
            y = tl.load(bp, mask=(rn[:, None] < N) & (rk[None, :] < K - k * BK), other=0).T
        else:
            y = tl.load(bp, mask=(rk[:, None] < K - k * BK) & (rn[None, :] < N), other=0)
        acc = tl.dot(x, y, acc$OPTIONS)
        ap += BK * (M if TA else 1)
        bp += BK * (1 if TB else N)
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))
)py";

struct Shape {
  size_t M, N, K;
  int BM, BN, BK, warps, stages;
  int ta = 0, tb = 0;
};

void Check(DType in, DType acc, const Shape& s, const std::string& options = "", double tolerance = 1e-5, int divisibility = 16) {
  SCOPED_TRACE(std::to_string(s.M) + "x" + std::to_string(s.N) + "x" + std::to_string(s.K) + " in " + std::to_string(s.BM) + "x" + std::to_string(s.BN) + "x" +
               std::to_string(s.BK) + ", warps " + std::to_string(s.warps) + ", stages " + std::to_string(s.stages) + ", transposed " + std::to_string(s.ta) +
               std::to_string(s.tb));
  // Small integers: every sum is exact, whatever its order.
  Tensor a = RandomInts(in, s.M * s.K, 1, -3, 3), b = RandomInts(in, s.K * s.N, 2, -3, 3);
  std::vector<double> want(s.M * s.N, 0);
  for (size_t m = 0; m < s.M; ++m)
    for (size_t n = 0; n < s.N; ++n)
      for (size_t k = 0; k < s.K; ++k) want[m * s.N + n] += a.Number(s.ta ? k * s.M + m : m * s.K + k) * b.Number(s.tb ? n * s.K + k : k * s.N + n);
  Program program;
  const std::string accumulator(LanguageName(acc).data(), LanguageName(acc).size());
  program.source = Substitute(kMatmul, {{"ACC", accumulator}, {"OPTIONS", options}});
  program.constants = "BM=" + std::to_string(s.BM) + ",BN=" + std::to_string(s.BN) + ",BK=" + std::to_string(s.BK) + ",TA=" + (s.ta ? "True" : "False") + ",TB=" +
                      std::to_string(s.tb);
  program.num_warps = s.warps;
  program.num_stages = s.stages;
  program.grid = {static_cast<uint32_t>((s.M + s.BM - 1) / s.BM), static_cast<uint32_t>((s.N + s.BN - 1) / s.BN), 1};
  auto size = [&](size_t value) { return value % 16 == 0 && divisibility; };
  std::vector<Arg> args = {Arg("a", a, divisibility), Arg("b", b, divisibility), Arg("c", Poison(acc, s.M * s.N), divisibility)};
  for (auto [name, value] : {std::pair<const char*, size_t>{"M", s.M}, {"N", s.N}, {"K", s.K}}) {
    Arg arg(name, "i32", static_cast<double>(value));
    if (size(value)) arg.divisibility = 16;
    args.push_back(arg);
  }
  Launch(program, args, [&](const Results& r) {
    if (IsFloat(acc)) ExpectFloats(r.at("c"), want, tolerance);
    else ExpectInts(r.at("c"), {want.begin(), want.end()});
  });
}

TEST(Matmul, TilesOfEveryShape) {
  for (const Shape& s : {Shape{64, 64, 64, 64, 64, 32, 4, 3}, Shape{128, 128, 128, 128, 128, 64, 8, 3}, Shape{128, 64, 96, 128, 64, 32, 4, 2},
                         Shape{64, 256, 64, 64, 256, 32, 8, 3}, Shape{64, 16, 64, 64, 16, 32, 4, 4}, Shape{64, 8, 64, 64, 8, 32, 4, 3},
                         Shape{16, 64, 128, 16, 64, 64, 4, 3}, Shape{32, 32, 64, 32, 32, 16, 2, 3}, Shape{16, 16, 64, 16, 16, 16, 8, 3}})
    Check(DType::kFp16, DType::kFp32, s);
}
TEST(Matmul, TailsAndShortLoops) {
  for (const Shape& s : {Shape{65, 72, 104, 64, 64, 32, 4, 3}, Shape{64, 64, 8, 64, 64, 32, 4, 3}, Shape{70, 66, 99, 64, 64, 32, 4, 3}, Shape{17, 40, 33, 16, 32, 32, 4, 4}})
    for (int divisibility : {16, 0}) Check(DType::kFp16, DType::kFp32, s, "", 1e-5, divisibility);
  // Rows that no asynchronous copy can take, in a block that is too small for wgmma.
  for (int warps : {1, 2}) Check(DType::kFp16, DType::kFp32, Shape{32, 33, 40, 32, 32, 16, warps, 3});
}
TEST(Matmul, TransposedOperands) {
  for (int ta : {0, 1})
    for (int tb : {0, 1, 2}) {
      Check(DType::kBf16, DType::kFp32, Shape{64, 128, 96, 64, 64, 32, 4, 3, ta, tb});
      Check(DType::kFp32, DType::kFp32, Shape{64, 32, 48, 64, 32, 16, 4, 3, ta, tb});
      Check(DType::kInt8, DType::kInt32, Shape{64, 64, 96, 64, 64, 32, 4, 3, ta, tb});
      Check(DType::kFp16, DType::kFp32, Shape{32, 32, 64, 16, 32, 32, 4, 3, ta, tb});
    }
}
TEST(Matmul, OtherTypes) {
  for (const Shape& s : {Shape{64, 64, 128, 64, 64, 64, 4, 3}, Shape{32, 32, 128, 16, 32, 64, 4, 3}}) {
    Check(DType::kFp8E4M3Fn, DType::kFp32, s);
    Check(DType::kFp8E5M2, DType::kFp32, s, ", max_num_imprecise_acc=32");
    Check(DType::kFp64, DType::kFp64, s, ", out_dtype=tl.float64");
    Check(DType::kFp16, DType::kFp16, s, ", out_dtype=tl.float16");
    Check(DType::kFp32, DType::kFp32, s, ", input_precision='tf32x3'");
    Check(DType::kFp32, DType::kFp32, s, ", input_precision='ieee'");
  }
}

// What follows a large product: scales of rows, bias, a block that is read and overwritten, a reduction, and stores in
// rows and in columns.
TEST(Matmul, EpiloguesOfLargeTiles) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(a, b, bias, scale, c, t, sums, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :], mask=(m[:, None] < M) & (i + k[None, :] < K), other=0)
        y = tl.load(b + (i + k)[:, None] * N + n[None, :], mask=(i + k[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(x, y, acc)
    inside = (m[:, None] < M) & (n[None, :] < N)
    z = acc * tl.load(scale + m, mask=m < M, other=0)[:, None] + tl.load(bias + n, mask=n < N, other=0)[None, :].to(tl.float32)
    z = tl.maximum(z, 0.0) + tl.load(c + m[:, None] * N + n[None, :], mask=inside, other=0)
    tl.store(sums + m, tl.sum(z, 1), mask=m < M)
    tl.store(c + m[:, None] * N + n[None, :], z, mask=inside)
    tl.store(t + m[:, None] + n[None, :] * M, acc + 1.0, mask=inside)
)py";
  for (const Shape& s : {Shape{128, 128, 32, 128, 128, 32, 8, 3}, Shape{70, 99, 40, 64, 128, 32, 4, 3}, Shape{40, 250, 32, 32, 256, 16, 4, 1}}) {
    SCOPED_TRACE(s.M);
    Tensor a = RandomInts(DType::kFp16, s.M * s.K, 1, -3, 3), b = RandomInts(DType::kFp16, s.K * s.N, 2, -3, 3);
    Tensor bias = RandomInts(DType::kFp16, s.N, 3, -9, 9), scale = RandomInts(DType::kFp32, s.M, 4, -2, 2), c = RandomInts(DType::kFp32, s.M * s.N, 5, -9, 9);
    std::vector<double> want(s.M * s.N), transposed(s.M * s.N), sums(s.M, 0);
    for (size_t m = 0; m < s.M; ++m)
      for (size_t n = 0; n < s.N; ++n) {
        double sum = 0;
        for (size_t k = 0; k < s.K; ++k) sum += a.Number(m * s.K + k) * b.Number(k * s.N + n);
        transposed[n * s.M + m] = sum + 1;
        want[m * s.N + n] = std::max(sum * scale.Number(m) + bias.Number(n), 0.0) + c.Number(m * s.N + n);
        sums[m] += want[m * s.N + n];
      }
    program.constants = "BM=" + std::to_string(s.BM) + ",BN=" + std::to_string(s.BN) + ",BK=" + std::to_string(s.BK);
    program.num_warps = s.warps;
    program.num_stages = s.stages;
    program.grid = {uint32_t((s.M + s.BM - 1) / s.BM), 1, 1};
    const int divisibility = s.N % 16 == 0 ? 16 : 0;
    auto size = [&](const char* name, size_t value) {
      Arg arg(name, "i32", double(value));
      if (value % 16 == 0) arg.divisibility = 16;
      return arg;
    };
    Launch(program,
           {Arg("a", a, divisibility), Arg("b", b, divisibility), Arg("bias", bias, divisibility), Arg("scale", scale, divisibility), Arg("c", c, divisibility),
            Arg("t", Poison(DType::kFp32, s.M * s.N), divisibility), Arg("sums", Poison(DType::kFp32, s.M), divisibility), size("M", s.M), size("N", s.N), size("K", s.K)},
           [&](const Results& r) {
             ExpectFloats(r.at("c"), want, 0);
             ExpectFloats(r.at("t"), transposed, 0);
             ExpectFloats(r.at("sums"), sums, 0);
           });
  }
}

// Two products a round, the second of the first's result: attention without the softmax.
TEST(Matmul, ChainedProductsInALoop) {
  Program program;
  program.source = R"py(
@triton.jit
def kernel(q, k, v, o, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.arange(0, BM)
    d = tl.arange(0, D)
    n = tl.arange(0, BN)
    x = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, N, BN):
        y = tl.load(k + (start + n)[None, :] * D + d[:, None])
        s = tl.dot(x, y)
        s = tl.minimum(tl.maximum(s, -2.0), 2.0)
        total += tl.sum(s, 1)
        z = tl.load(v + (start + n)[:, None] * D + d[None, :])
        acc += tl.dot(s.to(tl.float16), z)
    tl.store(o + m[:, None] * D + d[None, :], acc + total[:, None])
)py";
  const size_t BM = 64, D = 64, N = 128;
  Tensor q = RandomInts(DType::kFp16, BM * D, 1, -1, 1), k = RandomInts(DType::kFp16, N * D, 2, -1, 1), v = RandomInts(DType::kFp16, N * D, 3, -2, 2);
  std::vector<double> want(BM * D, 0);
  for (size_t m = 0; m < BM; ++m)
    for (size_t n = 0; n < N; ++n) {
      double s = 0;
      for (size_t d = 0; d < D; ++d) s += q.Float(m * D + d) * k.Float(n * D + d);
      s = std::min(std::max(s, -2.0), 2.0);
      for (size_t d = 0; d < D; ++d) want[m * D + d] += s * v.Float(n * D + d) + s;
    }
  for (int warps : {4, 8}) {
    program.constants = "D=64,BM=64,BN=32";
    program.num_warps = warps;
    Launch(program, {Arg("q", q, 16), Arg("k", k, 16), Arg("v", v, 16), Arg("o", Poison(DType::kFp32, BM * D), 16), Arg("N", "i32", static_cast<double>(N))},
           [&](const Results& r) { ExpectFloats(r.at("o"), want, 1e-12); });
  }
}

}  // namespace
}  // namespace tessera::conformance
