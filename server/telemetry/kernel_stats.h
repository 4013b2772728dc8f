// Launches and device time of each kernel, for metrics, the status page and `tessera top`.
#ifndef TESSERA_SERVER_TELEMETRY_KERNEL_STATS_H_
#define TESSERA_SERVER_TELEMETRY_KERNEL_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::server {

// A latency histogram of fixed size: four buckets an octave from 100 ns on, so that a quantile is
// within 10 % of the truth. Wait-free.
class LatencyHistogram {
 public:
  static constexpr int kBuckets = 144;  // to about two hours

  void Add(double seconds);
  struct Counts {
    std::array<uint64_t, kBuckets> buckets{};
    uint64_t total = 0;
    // Seconds; 0 where nothing was counted. `share` in [0, 1].
    double Quantile(double share) const;
    Counts Since(const Counts& earlier) const;
  };
  Counts Read() const;

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
};

// Wait-free for those who count.
struct KernelStats {
  explicit KernelStats(absl::string_view kernel) : name(std::string(kernel)) {}
  const std::string name;
  std::atomic<uint64_t> launches{0}, failures{0}, nanoseconds{0}, most_nanoseconds{0}, jit{0};
  LatencyHistogram latency;

  void CountLaunch(double device_seconds);
  double seconds() const { return static_cast<double>(nanoseconds.load()) * 1e-9; }
};

// All kernels by name. Thread-safe.
class KernelStatsTable {
 public:
  // Of one name always the same; lives as long as the table. Names beyond a limit share "other".
  KernelStats* Of(absl::string_view kernel);
  // By device time, most first; at most `limit`.
  std::vector<const KernelStats*> Busiest(size_t limit) const;
  std::vector<const KernelStats*> All() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<KernelStats>> kernels_;
};

// Which kernels have series of their own in the metrics: the busiest, the rest is "other". Every
// series only grows, whoever comes and goes: a kernel's own starts at 0 when it joins.
//
// Not thread-safe: one caller scrapes at a time.
class TopKernels {
 public:
  explicit TopKernels(size_t limit) : limit_(limit) {}

  struct Values {
    uint64_t launches = 0, failures = 0, nanoseconds = 0;
  };
  struct Series {
    std::string kernel;
    Values values;
  };
  // The last is "other".
  std::vector<Series> Sample(const KernelStatsTable& table);

 private:
  struct Member {
    Values at_entry;      // not its own: counted as "other" before
    uint64_t recent = 0;  // device time at the last sample
  };
  const size_t limit_;
  std::map<const KernelStats*, Member> members_;
  std::map<const KernelStats*, double> activity_;  // decaying device time
  std::map<const KernelStats*, uint64_t> last_;
  Values retired_;  // what members counted that are none any more
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_KERNEL_STATS_H_
