// The main job in one program: starts a daemon, launches a fused matmul + bias + GELU on shared memory, checks the
// result against a double-precision reference, and prints cold and warm latency.
//
// usage: quickstart [--tesserad=PATH]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/small_float.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"
#include "client/cpp/private_daemon.h"

namespace tessera {
namespace {

constexpr char kKernel[] = R"py(
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=4)
             for m in (64, 32) for n in (64, 128)],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_bias_gelu(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    tile_m = first + pid % (GROUP_M * tiles_n) % rows
    tile_n = pid % (GROUP_M * tiles_n) // rows
    m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * stride_am + k[None, :]
    b = b_ptr + k[:, None] * stride_bk + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        acc = tl.dot(tl.load(a, mask=(m[:, None] < M) & inside[None, :], other=0.0),
                     tl.load(b, mask=inside[:, None] & (n[None, :] < N), other=0.0), acc)
        a += BLOCK_K
        b += BLOCK_K * stride_bk
    acc += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    acc = acc * tl.sigmoid(1.5957691216 * (acc + 0.044715 * acc * acc * acc))
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
)py";

struct Problem {
  int64_t m, n, k;
  std::unique_ptr<SharedBuffer> a, b, bias, c;
};

absl::StatusOr<Problem> MakeProblem(Client& client, int64_t m, int64_t n, int64_t k) {
  Problem problem{m, n, k, nullptr, nullptr, nullptr, nullptr};
  ASSIGN_OR_RETURN(problem.a, client.Allocate(m * k * 2));
  ASSIGN_OR_RETURN(problem.b, client.Allocate(k * n * 2));
  ASSIGN_OR_RETURN(problem.bias, client.Allocate(n * 2));
  ASSIGN_OR_RETURN(problem.c, client.Allocate(m * n * 2));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < m * k; ++i) problem.a->as<uint16_t>()[i] = FloatToHalf(normal(random));
  for (int64_t i = 0; i < k * n; ++i) problem.b->as<uint16_t>()[i] = FloatToHalf(normal(random) / std::sqrt(static_cast<float>(k)));
  for (int64_t i = 0; i < n; ++i) problem.bias->as<uint16_t>()[i] = FloatToHalf(normal(random));
  std::memset(problem.c->data(), 0xff, problem.c->size());  // NaN: an element that is not written shows
  return problem;
}

v1::LaunchRequest MakeLaunch(const Problem& p, const std::string& module) {
  v1::LaunchRequest launch;
  launch.set_module(module);
  launch.set_kernel("matmul_bias_gelu");
  launch.add_grid_expressions("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)");
  *launch.add_arguments() = TensorArgument("a_ptr", *p.a, DType::kFp16, {p.m, p.k});
  *launch.add_arguments() = TensorArgument("b_ptr", *p.b, DType::kFp16, {p.k, p.n});
  *launch.add_arguments() = TensorArgument("bias_ptr", *p.bias, DType::kFp16, {p.n});
  *launch.add_arguments() = TensorArgument("c_ptr", *p.c, DType::kFp16, {p.m, p.n});
  *launch.add_arguments() = IntArgument("M", p.m);
  *launch.add_arguments() = IntArgument("N", p.n);
  *launch.add_arguments() = IntArgument("K", p.k);
  *launch.add_arguments() = IntArgument("stride_am", p.k);
  *launch.add_arguments() = IntArgument("stride_bk", p.n);
  *launch.add_arguments() = IntArgument("stride_cm", p.n);
  return launch;
}

// ||got - want|| / ||want|| against a double-precision computation.
double RelativeError(const Problem& p) {
  std::vector<double> a(p.m * p.k), b(p.k * p.n), row(p.n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = HalfToFloat(p.a->as<uint16_t>()[i]);
  for (size_t i = 0; i < b.size(); ++i) b[i] = HalfToFloat(p.b->as<uint16_t>()[i]);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) row[j] = HalfToFloat(p.bias->as<uint16_t>()[j]);
    for (int64_t l = 0; l < p.k; ++l)
      for (int64_t j = 0; j < p.n; ++j) row[j] += a[i * p.k + l] * b[l * p.n + j];
    for (int64_t j = 0; j < p.n; ++j) {
      double x = row[j], want = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      double got = HalfToFloat(p.c->as<uint16_t>()[i * p.n + j]);
      difference += (got - want) * (got - want);
      norm += want * want;
    }
  }
  return std::sqrt(difference / norm);
}

absl::Status Run(const std::string& tesserad) {
  PrivateDaemonOptions options;
  options.binary = tesserad;
  absl::Time begin = absl::Now();
  ASSIGN_OR_RETURN(auto daemon, PrivateDaemon::Start(options));
  ASSIGN_OR_RETURN(auto client, Client::Connect(daemon->address(), "quickstart"));
  std::printf("daemon up in %.0f ms (pid %d)\n", absl::ToDoubleMilliseconds(absl::Now() - begin), daemon->pid());
  ASSIGN_OR_RETURN(auto module, client->RegisterModule({{"matmul_bias_gelu.py", kKernel}}));
  for (auto [m, n, k] : {std::tuple<int, int, int>{127, 255, 33}, {512, 512, 512}}) {
    ASSIGN_OR_RETURN(Problem problem, MakeProblem(*client, m, n, k));
    v1::LaunchRequest launch = MakeLaunch(problem, module.module());
    begin = absl::Now();
    ASSIGN_OR_RETURN(v1::LaunchResponse cold, client->Launch(launch));
    double cold_ms = absl::ToDoubleMilliseconds(absl::Now() - begin);
    double error = RelativeError(problem);
    std::vector<double> warm;
    for (int i = 0; i < 50; ++i) {
      begin = absl::Now();
      ASSIGN_OR_RETURN(v1::LaunchResponse again, client->Launch(launch));
      warm.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
    }
    std::sort(warm.begin(), warm.end());
    std::printf("%d x %d x %d fp16: relative error %.2g; cold %.1f ms (%s, compile %.1f ms), warm p50 %.3f ms (kernel %.3f ms)\n", m, n, k, error,
                cold_ms, cold.outcome().c_str(), cold.compile_seconds() * 1e3, warm[warm.size() / 2], cold.kernel_seconds() * 1e3);
    if (!(error < 1e-3)) return absl::InternalError("the result is wrong: relative error must be below 1e-3");
  }
  std::printf("\nNext:\n"
              "  bazel-bin/server/tesserad                     a daemon for everybody on this machine (see README.md)\n"
              "  bazel-bin/client/cli/tessera launch --help    your own kernel file on .npy arrays\n"
              "  bazel-bin/client/cli/tessera ops ls --private the fused operations that ship with it\n"
              "  ./dev test, ./dev bench launch                the tests, and launch latency beside a bare gRPC echo\n");
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::string tesserad;
  for (int i = 1; i < argc; ++i)
    if (absl::StartsWith(argv[i], "--tesserad=")) tesserad = argv[i] + 11;
  absl::Status status = tessera::Run(tesserad);
  if (!status.ok()) std::fprintf(stderr, "quickstart: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
