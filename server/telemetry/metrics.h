// The daemon's metrics. Seconds and bytes; counters end in _total.
//
// Here is what is counted as it happens. What others know at any time (devices, cache, processes)
// is read when somebody scrapes: sampled_metrics.h.
//
// Thread-safe. Counters are atomics; histograms take a short lock of their own.
#ifndef TESSERA_SERVER_TELEMETRY_METRICS_H_
#define TESSERA_SERVER_TELEMETRY_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/telemetry/kernel_stats.h"

namespace tessera::server {

class Metrics {
 public:
  Metrics();

  // What the exposition serves.
  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }
  std::string Text() const;  // in Prometheus's text format

  // tessera_compile_requests_total{result}
  prometheus::Counter *compile_hit, *compile_miss, *compile_coalesced, *compile_failed,
      *compile_timeout;
  // tessera_launches_total{result}; the other two results are counted by Count...Launch below.
  prometheus::Counter *launch_ok;
  prometheus::Histogram *launch_queue_seconds, *launch_seconds;
  prometheus::Counter *leases_expired;
  prometheus::Gauge *sessions, *regions, *mapped_bytes, *launches_in_flight, *kernel_variants,
      *ready;
  // tessera_warmup_items{state}
  prometheus::Gauge *warmup_total, *warmup_done, *warmup_failed, *warmup_compiled, *warmup_cached,
      *warmup_required;
  prometheus::Gauge *warmup_seconds, *warmup_failed_manifests;
  prometheus::Counter *tune_trials, *tune_config_changes;
  prometheus::Histogram *tune_seconds;
  prometheus::Gauge *tune_budget_used;  // share of the last tuning's budget
  // tessera_tune_decisions_total{decision}: reviews of a kernel's bucket.
  prometheus::Counter *tune_tuned, *tune_abstained;
  // What measurements while serving do to launches; brought up to date now and then.
  prometheus::Counter *tune_held_up, *tune_held_up_seconds, *tune_violations, *tune_device_seconds;
  // tessera_tune_rejected_total{reason}: candidates; few reasons.
  void CountRejectedCandidate(const std::string &reason);
  prometheus::Counter *workers_killed_deadline, *workers_died;

  // tessera_compile_duration_seconds{stage}
  void ObserveCompile(const std::string &stage, double seconds);
  // A kernel compiled after the daemon was ready, while somebody waited for its launch.
  void CountJitDuringServing(const std::string &kernel);
  uint64_t jit_during_serving() const { return jit_.load(std::memory_order_relaxed); }
  // Launches that failed on a device, and those that were refused before. `reason` as in
  // ErrorDetail.
  void CountFailedLaunch(const std::string &reason);
  void CountRejectedLaunch(const std::string &reason);
  uint64_t launches_rejected() const { return rejected_.load(std::memory_order_relaxed); }
  std::map<std::string, uint64_t> FailureReasons() const;
  // Seconds. `device`: its index.
  void CountDeviceTime(int device, double queue, double busy);

  // Per kernel and per device; finer than the histograms above, for quantiles without Prometheus.
  KernelStatsTable kernels;
  LatencyHistogram launch_latency, queue_latency, compile_latency;
  struct DeviceTime {
    std::atomic<uint64_t> launches{0}, nanoseconds{0};
  };
  std::array<DeviceTime, 32> device_time;

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram> *compile_seconds_;
  prometheus::Family<prometheus::Counter> *jit_during_serving_, *launch_failures_, *tune_rejected_;
  prometheus::Counter *launch_failed_, *launch_rejected_;
  std::atomic<uint64_t> jit_{0}, rejected_{0};
  void CountReason(const std::string &reason);
  mutable std::mutex mutex_;
  std::map<std::string, prometheus::Histogram *> compile_stages_;
  std::map<std::string, prometheus::Counter *> jit_kernels_, failure_reasons_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_METRICS_H_
