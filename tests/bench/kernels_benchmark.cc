// Compiled CPU kernels beside well-known implementations, same threads, same run:
//   fused linear (bias + GELU), 1024 cubed fp32 `ieee`  against OpenBLAS sgemm alone
//   row softmax, 4096 x 1000 fp32                        against C++ at -Ofast -march=native with libmvec
//   vector add, 64 Mi elements fp32                       against memcpy of the same bytes
//
// usage: kernels_benchmark [--threads=N] [--rounds=N]
// Rounds alternate between the two sides; the table shows medians. Results are checked before anything is timed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/library/catalog.h"
#include "tests/bench/bench_kernel.h"

extern "C" {
void SoftmaxReference(const float* x, float* out, int64_t rows, int64_t cols);
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
                 float beta, float* c, int ldc);
void openblas_set_num_threads(int threads);
}

namespace tessera {
namespace {

constexpr char kAdd[] = R"py(
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside) + tl.load(y_ptr + i, mask=inside), mask=inside)
)py";

std::string LibrarySource(const std::string& op) {
  for (const library::OpDescription& description : library::ListOps())
    if (description.name == op) return description.source.text();
  return "";
}

struct Comparison {
  std::string name, unit;
  double work;  // units per run
  std::function<void()> ours, theirs;
  double goal;  // of ours / theirs
};

bool Report(const Comparison& c, int rounds) {
  std::vector<double> ours, theirs;
  c.ours();
  c.theirs();
  for (int i = 0; i < rounds; ++i) {
    theirs.push_back(Seconds(c.theirs));
    ours.push_back(Seconds(c.ours));
  }
  double our_rate = c.work / Median(ours), their_rate = c.work / Median(theirs);
  std::printf("%-44s %10.1f %10.1f %-8s %6.2f  (goal %.2f)\n", c.name.c_str(), our_rate, their_rate, c.unit.c_str(), our_rate / their_rate, c.goal);
  return our_rate / their_rate >= c.goal;
}

void Spread(int threads, int64_t rows, const std::function<void(int64_t, int64_t)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([=] { work(rows * t / threads, rows * (t + 1) / threads); });
  work(0, rows / threads);
  for (std::thread& other : others) other.join();
}

absl::Status Run(int threads, int rounds) {
  openblas_set_num_threads(threads);
  runtime::ThreadPool pool(threads);
  std::unique_ptr<runtime::KernelLoader> loader = runtime::CreateCpuKernelLoader(&pool);
  std::printf("%d threads, medians of %d alternating rounds\n%-44s %10s %10s %-8s %6s\n", threads, rounds, "", "tessera", "yardstick", "", "ratio");
  bool all = true;
  {
    const int64_t n = 1024;
    Buffer a(n * n), b(n * n), bias(n), c(n * n), reference(n * n);
    ASSIGN_OR_RETURN(Kernel linear,
                     Compile(*loader, LibrarySource("linear"), "linear",
                             "x_ptr=*fp32:16,w_ptr=*fp32:16,bias_ptr=*fp32:16,out_ptr=*fp32:16,M=i32:16,N=i32:16,K=i32:16,stride_xm=i32:16,stride_xk=1,"
                             "stride_wk=i32:16,stride_wn=1,stride_bias=1,stride_om=i32:16,stride_on=1",
                             {{"ACTIVATION", Text("gelu")}, {"PRECISION", Text("ieee")}, {"BLOCK_M", Int(64)}, {"BLOCK_N", Int(128)}, {"BLOCK_K", Int(64)}, {"GROUP_M", Int(8)}}));
    linear.launch.grid[0] = (n / 64) * (n / 128);
    linear.launch.params = {Address(a.data), Address(b.data), Address(bias.data), Address(c.data), 1024, 1024, 1024, 1024, 1024, 1024};
    auto sgemm = [&] { cblas_sgemm(101, 111, 111, n, n, n, 1, a.data, n, b.data, n, 0, reference.data, n); };
    linear.Run();
    sgemm();
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n * n; ++i) {
      double x = reference.data[i] + bias.data[i % n], want = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      difference += (c.data[i] - want) * (c.data[i] - want);
      norm += want * want;
    }
    if (!(std::sqrt(difference / norm) < 1e-5)) return absl::InternalError(absl::StrCat("linear is wrong: relative error ", std::sqrt(difference / norm)));
    all &= Report({"linear+bias+gelu 1024^3 fp32 / sgemm", "GFLOP/s", 2.0 * n * n * n / 1e9, [&] { linear.Run(); }, sgemm, 0.5}, rounds);
  }
  {
    const int64_t rows = 4096, cols = 1000;
    Buffer x(rows * cols), out(rows * cols), reference(rows * cols);
    ASSIGN_OR_RETURN(Kernel softmax, Compile(*loader, LibrarySource("softmax"), "softmax_row", "x_ptr=*fp32:16,out_ptr=*fp32:16,x_stride=i32,out_stride=i32,cols=i32",
                                             {{"BLOCK", Int(1024)}}));
    softmax.launch.grid[0] = rows;
    softmax.launch.params = {Address(x.data), Address(out.data), 1000, 1000, 1000};
    auto plain = [&] {
      Spread(threads, rows, [&](int64_t first, int64_t last) { SoftmaxReference(x.data + first * cols, reference.data + first * cols, last - first, cols); });
    };
    softmax.Run();
    plain();
    for (int64_t i = 0; i < rows * cols; ++i)
      if (!(std::abs(out.data[i] - reference.data[i]) <= 1e-5 * reference.data[i])) return absl::InternalError(absl::StrCat("softmax is wrong at ", i));
    all &= Report({"row softmax 4096 x 1000 fp32 / C++ libmvec", "GB/s", 8.0 * rows * cols / 1e9, [&] { softmax.Run(); }, plain, 1.0}, rounds);
  }
  {
    const int64_t n = 64 << 20;
    Buffer x(n), y(n), out(n);
    ASSIGN_OR_RETURN(Kernel add, Compile(*loader, kAdd, "add", "x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n=i32:16", {{"BLOCK", Int(4096)}}));
    add.launch.grid[0] = n / 4096;
    add.launch.params = {Address(x.data), Address(y.data), Address(out.data), static_cast<uint64_t>(n)};
    add.Run();
    for (int64_t i = 0; i < n; i += 997)
      if (out.data[i] != x.data[i] + y.data[i]) return absl::InternalError(absl::StrCat("add is wrong at ", i));
    // The same bytes: add reads two arrays and writes one; memcpy of 1.5 arrays reads and writes as many.
    auto copy = [&] {
      Spread(threads, n, [&](int64_t first, int64_t last) { std::memcpy(out.data + first, x.data + first, (last - first) * 4); });
      Spread(threads, n / 2, [&](int64_t first, int64_t last) { std::memcpy(out.data + first, y.data + first, (last - first) * 4); });
    };
    all &= Report({"add 64 Mi fp32 / memcpy of the same bytes", "GB/s", 12.0 * n / 1e9, [&] { add.Run(); }, copy, 0.7}, std::max(3, rounds / 3));
  }
  return all ? absl::OkStatus() : absl::UnknownError("a goal was missed");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  int threads = std::thread::hardware_concurrency(), rounds = 31;
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--threads=")) threads = std::atoi(argv[i] + 10);
    if (absl::StartsWith(argv[i], "--rounds=")) rounds = std::atoi(argv[i] + 9);
  }
  absl::Status status = tessera::Run(threads, rounds);
  if (!status.ok()) std::fprintf(stderr, "kernels_benchmark: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
