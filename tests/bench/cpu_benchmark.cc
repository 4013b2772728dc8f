// Kernels of the three kinds that matter on the cpu - element by element, reductions, products of matrices - beside
// hand-written, vectorised C++ on the same threads, and beside the interpreter.
//
// usage: cpu_benchmark [--threads=N] [--rounds=N] [--match=TEXT] [--cpu-time]
// With --cpu-time one thread is used and its processor time counts: for machines that are busy with other things.
// Rounds alternate between the cpu target and C++; the table shows medians of both, their ratio (goal: 0.5, within twice
// the time), and how many times the interpreter takes (goal: at least 1). Results are compared before anything is timed.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/driver/interpreted_kernel.h"
#include "tests/bench/bench_kernel.h"
#include "tests/bench/cpu_reference.h"

namespace tessera {
namespace {

constexpr char kSource[] = R"py(
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside) + tl.load(y_ptr + i, mask=inside), mask=inside)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside)
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + i, 0.5 * x * (1 + (2 * tl.sigmoid(2 * u) - 1)), mask=inside)


@triton.jit
def silu_mul(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, (x * tl.sigmoid(x) * y).to(tl.float16), mask=inside)


@triton.jit
def row_sum(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * cols + i, mask=i < cols, other=0.0), axis=0))


@triton.jit
def column_sum(x_ptr, out_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros([BLOCK_C], tl.float32)
    for start in range(0, rows, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        block = tl.load(x_ptr + r[:, None].to(tl.int64) * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
        total += tl.sum(block, axis=0)
    tl.store(out_ptr + c, total, mask=c < cols)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    d = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=0) / cols + eps)
    weight = tl.load(weight_ptr + i, mask=inside)
    bias = tl.load(bias_ptr + i, mask=inside)
    tl.store(out_ptr + row * cols + i, d * scale * weight + bias, mask=inside)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    blocks_n = tl.cdiv(N, BLOCK_N)
    m = (pid // blocks_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (pid % blocks_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
)py";

constexpr double kGoal = 0.5;

// The same memory as halves.
uint16_t* Halves(Buffer& buffer) {
  auto* halves = reinterpret_cast<uint16_t*>(buffer.data);
  for (size_t i = 0; i < buffer.count; ++i) halves[i] = ReferenceToHalf(buffer.data[i]);  // in place: each is read before it is overwritten
  return halves;
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

class Bench {
 public:
  Bench(int threads, int rounds, std::string match, bool cpu_time)
      : pool_(threads), threads_(threads), rounds_(rounds), match_(std::move(match)), cpu_time_(cpu_time), loader_(runtime::CreateCpuKernelLoader(&pool_)) {}

  struct Row {
    std::string name, unit;
    double work;  // units a run
    std::string kernel, signature;
    std::map<std::string, storage::ConstantValue> constants;
    uint32_t programs;
    std::vector<uint64_t> params;
    std::function<void()> reference;
    std::function<double()> error;  // of the kernel's result against the reference's
    double tolerance;
  };

  double Time(const std::function<void()>& work) const {
    if (!cpu_time_) return Seconds(work);
    const double begin = ThreadSeconds();
    work();
    return ThreadSeconds() - begin;
  }
  bool Selected(const std::string& name) const { return absl::StrContains(name, match_); }

  absl::Status Add(const Row& row) {
    if (!Selected(row.name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(Kernel kernel, Compile(*loader_, kSource, row.kernel, row.signature, row.constants));
    kernel.launch.grid[0] = row.programs;
    kernel.launch.params = row.params;
    kernel.Run();
    row.reference();
    const double error = row.error();
    if (!(error <= row.tolerance)) return absl::InternalError(absl::StrCat(row.name, " is wrong by ", error));
    std::vector<double> ours, theirs;
    for (int i = 0; i < rounds_; ++i) {
      theirs.push_back(Time(row.reference));
      ours.push_back(Time([&] { kernel.Run(); }));
    }
    ASSIGN_OR_RETURN(storage::Artifact artifact, CompileFor("interpreter", kSource, row.kernel, row.signature, row.constants));
    ASSIGN_OR_RETURN(std::unique_ptr<compiler::InterpretedKernel> interpreted, compiler::InterpretedKernel::Load(artifact));
    absl::Status status;
    const double slow = Time([&] { status = interpreted->Run(row.params.data(), kernel.launch.grid, {}); });
    RETURN_IF_ERROR(status);
    const double our_time = Median(ours), their_time = Median(theirs), ratio = their_time / our_time, gain = slow / our_time;
    std::printf("%-40s %9.1f %9.1f %-8s %6.2f %12.0f\n", row.name.c_str(), row.work / our_time, row.work / their_time, row.unit.c_str(), ratio, gain);
    std::fflush(stdout);
    missed_ += ratio < kGoal || gain < 1;
    return absl::OkStatus();
  }

  // Each of `pieces_a_thread` times the threads gets a run of the `count` indices, in multiples of `unit`.
  void Spread(int64_t count, int64_t unit, const std::function<void(int64_t, int64_t)>& work, int pieces_a_thread = 4) {
    const int64_t pieces = int64_t{pieces_a_thread} * threads_, each = (count / pieces + unit - 1) / unit * unit;
    pool_.ParallelFor(0, pieces, 1, [&](uint64_t first, uint64_t last) {
      for (uint64_t piece = first; piece < last; ++piece) {
        const int64_t begin = std::min<int64_t>(count, piece * each), end = piece + 1 == uint64_t(pieces) ? count : std::min<int64_t>(count, (piece + 1) * each);
        if (begin < end) work(begin, end);
      }
    });
  }
  int missed() const { return missed_; }

 private:
  runtime::ThreadPool pool_;
  const int threads_, rounds_;
  const std::string match_;
  const bool cpu_time_;
  std::unique_ptr<runtime::KernelLoader> loader_;
  int missed_ = 0;
};

template <typename T>
double LargestError(const T* got, const T* want, int64_t n) {
  double error = 0, scale = 0;
  auto value = [](T x) {
    if constexpr (sizeof(T) == 2) return ReferenceFromHalf(x);
    else return x;
  };
  for (int64_t i = 0; i < n; ++i) {
    error = std::max<double>(error, std::abs(value(got[i]) - value(want[i])));
    scale = std::max<double>(scale, std::abs(value(want[i])));
  }
  return error / scale;
}

absl::Status ElementByElement(Bench& bench) {
  for (int64_t n : {int64_t{100000}, int64_t{16} << 20}) {
    Buffer x(n), y(n), out(n), want(n);
    RETURN_IF_ERROR(bench.Add({absl::StrCat("add fp32, ", n), "GB/s", 12.0 * n / 1e9, "add", "x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n=i32:16", {{"BLOCK", Int(4096)}},
                               uint32_t((n + 4095) / 4096), {Address(x.data), Address(y.data), Address(out.data), uint64_t(n)},
                               [&] { bench.Spread(n, 64, [&](int64_t a, int64_t b) { ReferenceAdd(x.data + a, y.data + a, want.data + a, b - a); }); },
                               [&] { return LargestError(out.data, want.data, n); }, 0}));
  }
  const int64_t n = 4 << 20;
  {
    Buffer x(n), out(n), want(n);
    RETURN_IF_ERROR(bench.Add({"gelu (tanh) fp32, 4 Mi", "G/s", n / 1e9, "gelu", "x_ptr=*fp32:16,out_ptr=*fp32:16,n=i32:16", {{"BLOCK", Int(1024)}}, uint32_t(n / 1024),
                               {Address(x.data), Address(out.data), uint64_t(n)},
                               [&] { bench.Spread(n, 64, [&](int64_t a, int64_t b) { ReferenceGelu(x.data + a, want.data + a, b - a); }); },
                               [&] { return LargestError(out.data, want.data, n); }, 1e-6}));
  }
  Buffer x(n), y(n), out(n), want(n);
  uint16_t *hx = Halves(x), *hy = Halves(y), *hout = Halves(out), *hwant = Halves(want);
  return bench.Add({"silu(x) * y fp16, 4 Mi", "G/s", n / 1e9, "silu_mul", "x_ptr=*fp16:16,y_ptr=*fp16:16,out_ptr=*fp16:16,n=i32:16", {{"BLOCK", Int(1024)}}, uint32_t(n / 1024),
                    {Address(hx), Address(hy), Address(hout), uint64_t(n)},
                    [&] { bench.Spread(n, 64, [&](int64_t a, int64_t b) { ReferenceSiluMul(hx + a, hy + a, hwant + a, b - a); }); },
                    [&] { return LargestError(hout, hwant, n); }, 2e-3});
}

absl::Status Reductions(Bench& bench) {
  for (int64_t cols : {1000, 8192}) {
    const int64_t rows = (4 << 20) / cols, block = cols == 1000 ? 1024 : 8192;
    Buffer x(rows * cols), weight(cols), bias(cols), out(rows * cols), want(rows * cols);
    RETURN_IF_ERROR(bench.Add({absl::StrCat("row sum fp32, ", rows, " x ", cols), "GB/s", 4.0 * rows * cols / 1e9, "row_sum", "x_ptr=*fp32:16,out_ptr=*fp32:16,cols=i32", {{"BLOCK", Int(block)}},
                               uint32_t(rows), {Address(x.data), Address(out.data), uint64_t(cols)},
                               [&] { bench.Spread(rows, 1, [&](int64_t a, int64_t b) { ReferenceRowSum(x.data + a * cols, want.data + a, b - a, cols); }); },
                               [&] { return LargestError(out.data, want.data, rows); }, 1e-5}));
    float eps = 1e-5f;
    uint32_t eps_bits;
    std::memcpy(&eps_bits, &eps, 4);
    RETURN_IF_ERROR(bench.Add({absl::StrCat("layer norm fp32, ", rows, " x ", cols), "GB/s", 8.0 * rows * cols / 1e9, "layer_norm",
                               "x_ptr=*fp32:16,weight_ptr=*fp32:16,bias_ptr=*fp32:16,out_ptr=*fp32:16,cols=i32,eps=fp32", {{"BLOCK", Int(block)}}, uint32_t(rows),
                               {Address(x.data), Address(weight.data), Address(bias.data), Address(out.data), uint64_t(cols), eps_bits},
                               [&] { bench.Spread(rows, 1, [&](int64_t a, int64_t b) { ReferenceLayerNorm(x.data + a * cols, weight.data, bias.data, want.data + a * cols, b - a, cols, eps); }); },
                               [&] { return LargestError(out.data, want.data, rows * cols); }, 1e-5}));
  }
  const int64_t rows = 2048, cols = 2048;
  Buffer x(rows * cols), out(cols), want(cols);
  return bench.Add({"column sum fp32, 2048 x 2048", "GB/s", 4.0 * rows * cols / 1e9, "column_sum", "x_ptr=*fp32:16,out_ptr=*fp32:16,rows=i32:16,cols=i32:16",
                    {{"BLOCK_R", Int(64)}, {"BLOCK_C", Int(128)}}, uint32_t(cols / 128), {Address(x.data), Address(out.data), uint64_t(rows), uint64_t(cols)},
                    [&] { bench.Spread(cols, 64, [&](int64_t a, int64_t b) { ReferenceColumnSum(x.data, want.data, rows, cols, a, b); }); },
                    [&] { return LargestError(out.data, want.data, cols); }, 1e-5});
}

absl::Status Products(Bench& bench) {
  const int64_t sizes[][3] = {{512, 512, 512}, {500, 1000, 300}, {64, 2048, 2048}};
  for (const auto& size3 : sizes) {
    const int64_t m = size3[0], n = size3[1], k = size3[2];
    const std::string size = absl::StrCat(m, " x ", n, " x ", k);
    const std::string name = "matmul fp32 ieee, " + size, half_name = "matmul fp16, " + size;
    std::map<std::string, storage::ConstantValue> blocks = {{"BLOCK_M", Int(64)}, {"BLOCK_N", Int(128)}, {"BLOCK_K", Int(64)}};
    const uint32_t programs = uint32_t((m + 63) / 64 * ((n + 127) / 128));
    std::string scalars = absl::StrCat(",M=i32", m % 16 == 0 ? ":16" : "", ",N=i32", n % 16 == 0 ? ":16" : "", ",K=i32", k % 16 == 0 ? ":16" : "");
    Buffer a(m * k), b(k * n), c(m * n), want(m * n);
    const double flops = 2.0 * m * n * k / 1e9;
    RETURN_IF_ERROR(bench.Add({name, "GFLOP/s", flops, "matmul", "a_ptr=*fp32:16,b_ptr=*fp32:16,c_ptr=*fp32:16" + scalars, blocks, programs,
                               {Address(a.data), Address(b.data), Address(c.data), uint64_t(m), uint64_t(n), uint64_t(k)},
                               [&] { bench.Spread(m, 6, [&](int64_t first, int64_t last) { ReferenceMatmul(a.data, b.data, want.data, n, k, first, last); }, 1); },
                               [&] { return LargestError(c.data, want.data, m * n); }, 1e-5}));
    uint16_t *ha = Halves(a), *hb = Halves(b), *hc = Halves(c), *hwant = Halves(want);
    RETURN_IF_ERROR(bench.Add({half_name, "GFLOP/s", flops, "matmul", "a_ptr=*fp16:16,b_ptr=*fp16:16,c_ptr=*fp16:16" + scalars, blocks, programs,
                               {Address(ha), Address(hb), Address(hc), uint64_t(m), uint64_t(n), uint64_t(k)},
                               [&] { bench.Spread(m, 6, [&](int64_t first, int64_t last) { ReferenceMatmulHalf(ha, hb, hwant, n, k, first, last); }, 1); },
                               [&] { return LargestError(hc, hwant, m * n); }, 2e-3}));
  }
  return absl::OkStatus();
}

absl::Status Run(int threads, int rounds, const std::string& match, bool cpu_time) {
  Bench bench(threads, rounds, match, cpu_time);
  std::printf("%d threads, medians of %d alternating rounds\n%-40s %9s %9s %-8s %6s %12s\n", threads, rounds, "", "tessera", "C++", "", "ratio", "interpreter");
  RETURN_IF_ERROR(ElementByElement(bench));
  RETURN_IF_ERROR(Reductions(bench));
  RETURN_IF_ERROR(Products(bench));
  if (bench.missed() > 0) return absl::UnknownError(absl::StrCat(bench.missed(), " rows miss a goal (ratio at least ", kGoal, ", interpreter at least 1)"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  int threads = std::thread::hardware_concurrency(), rounds = 21;
  std::string match;
  bool cpu_time = false;
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--threads=")) threads = std::atoi(argv[i] + 10);
    if (absl::StartsWith(argv[i], "--rounds=")) rounds = std::atoi(argv[i] + 9);
    if (absl::StartsWith(argv[i], "--match=")) match = argv[i] + 8;
    if (absl::string_view(argv[i]) == "--cpu-time") cpu_time = true;
  }
  absl::Status status = tessera::Run(cpu_time ? 1 : threads, rounds, match, cpu_time);
  if (!status.ok()) std::fprintf(stderr, "cpu_benchmark: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
