// Measures a launch as Triton's do_bench does: warm-up, repeats by time, quantiles of the device's
// own times.
#ifndef TESSERA_CLIENT_CLI_BENCH_KERNEL_BENCH_H_
#define TESSERA_CLIENT_CLI_BENCH_KERNEL_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/device_choice.h"
#include "client/cpp/client.h"

namespace tessera::cli {

struct KernelBenchOptions {
  double warmup_seconds = 0.025, repeat_seconds = 0.1;  // of device time, flushes included
  int repeats = 0;                                      // exactly so many; 0: by time
  // Before every measured launch another kernel writes a buffer larger than the device's last
  // cache.
  bool cold_cache = true;
};

struct KernelBenchResult {
  std::vector<double> kernel_seconds;   // one a repeat
  std::vector<double> latency_seconds;  // as this client saw them, without the flushes
  v1::LaunchResponse first;
};

// Launches `launch` on `device` through the daemon.
absl::StatusOr<KernelBenchResult> BenchKernel(Client& client, const DeviceChoice& device,
                                              const v1::LaunchRequest& launch,
                                              const KernelBenchOptions& options);

// How many warm-up launches and repeats, if one with its flush takes `seconds`: at least ten
// repeats.
struct BenchCounts {
  int warmup = 1, repeats = 1;
};
BenchCounts CountsFor(double seconds, const KernelBenchOptions& options);

// Bytes of the tensors that a launch names, each once (two arguments on the same bytes count as
// one).
uint64_t TensorBytes(const v1::LaunchRequest& launch);

// `q` of the sorted values, between neighbours by their distance. `seconds`: at least one.
double QuantileOf(std::vector<double> seconds, double q);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_KERNEL_BENCH_H_
