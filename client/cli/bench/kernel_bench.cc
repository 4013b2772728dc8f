#include "client/cli/bench/kernel_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Above the second-level cache of any GPU; on a CPU above what is left of the last cache for one
// process.
constexpr int64_t kGpuFlushBytes = int64_t{256} << 20, kCpuFlushBytes = int64_t{64} << 20;
constexpr int kFlushBlock = 1024;
constexpr int kMinRepeats = 10, kMaxRepeats = 100000;

constexpr char kFlushSource[] = R"(import triton
import triton.language as tl


@triton.jit
def overwrite(p, n, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * (BLOCK * 16)
    for i in range(16):
        at = begin + i * BLOCK + tl.arange(0, BLOCK)
        tl.store(p + at, at.to(tl.int32), mask=at < n)
)";

absl::StatusOr<v1::LaunchRequest> MakeFlush(Client& client, const DeviceChoice& device) {
  ASSIGN_OR_RETURN(v1::RegisterModuleResponse module,
                   client.RegisterModule({{"overwrite.py", kFlushSource}}));
  const int64_t bytes = device.is_gpu ? kGpuFlushBytes : kCpuFlushBytes;
  ASSIGN_OR_RETURN(uint64_t region,
                   DeviceRegion(client, device, nullptr, static_cast<uint64_t>(bytes)));
  v1::LaunchRequest flush;
  flush.set_module(module.module());
  flush.set_kernel("overwrite");
  flush.set_device(device.name);
  flush.add_grid(static_cast<uint64_t>(bytes) / 4 / (kFlushBlock * 16));
  *flush.add_arguments() = RegionArgument("p", region, DType::kInt32, {bytes / 4});
  *flush.add_arguments() = IntArgument("n", bytes / 4);
  *flush.add_arguments() = ConstexprArgument("BLOCK", IntConstant(kFlushBlock));
  return flush;
}

}  // namespace

BenchCounts CountsFor(double seconds, const KernelBenchOptions& options) {
  auto fitting = [&](double budget, int least) {
    double count = seconds > 0 ? budget / seconds : kMaxRepeats;
    return static_cast<int>(std::max<double>(least, std::min<double>(kMaxRepeats, count + 1e-6)));
  };
  return {fitting(options.warmup_seconds, 1),
          options.repeats > 0 ? options.repeats : fitting(options.repeat_seconds, kMinRepeats)};
}

uint64_t TensorBytes(const v1::LaunchRequest& launch) {
  uint64_t bytes = 0;
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const v1::Argument& argument : launch.arguments()) {
    if (!argument.has_tensor() || argument.tensor().region() == 0) continue;
    const v1::TensorRef& tensor = argument.tensor();
    std::optional<DType> dtype = ParseDType(tensor.dtype());
    if (!dtype || !seen.emplace(tensor.region(), tensor.byte_offset()).second) continue;
    uint64_t elements = 1;
    for (int64_t extent : tensor.shape()) elements *= static_cast<uint64_t>(extent);
    bytes += elements * static_cast<uint64_t>(ByteSize(*dtype));
  }
  return bytes;
}

double QuantileOf(std::vector<double> seconds, double q) {
  std::sort(seconds.begin(), seconds.end());
  double at = q * static_cast<double>(seconds.size() - 1);
  size_t low = static_cast<size_t>(at), high = std::min(low + 1, seconds.size() - 1);
  return seconds[low] + (at - static_cast<double>(low)) * (seconds[high] - seconds[low]);
}

absl::StatusOr<KernelBenchResult> BenchKernel(Client& client, const DeviceChoice& device,
                                              const v1::LaunchRequest& launch,
                                              const KernelBenchOptions& options) {
  KernelBenchResult result;
  ASSIGN_OR_RETURN(result.first, client.Launch(launch));
  std::optional<v1::LaunchRequest> flush;
  if (options.cold_cache) {
    ASSIGN_OR_RETURN(flush, MakeFlush(client, device));
  }
  std::vector<double> estimates;
  for (int i = 0; i < 5; ++i) {
    double seconds = 0;
    if (flush) {
      ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(*flush));
      seconds += response.kernel_seconds();
    }
    ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(launch));
    estimates.push_back(seconds + response.kernel_seconds());
  }
  BenchCounts counts = CountsFor(QuantileOf(estimates, 0.5), options);
  for (int i = 0; i < counts.warmup; ++i) RETURN_IF_ERROR(client.Launch(launch).status());
  for (int i = 0; i < counts.repeats; ++i) {
    if (flush) RETURN_IF_ERROR(client.Launch(*flush).status());
    Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(launch));
    result.latency_seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    result.kernel_seconds.push_back(response.kernel_seconds());
  }
  return result;
}

}  // namespace tessera::cli
