// The daemon's metrics. Seconds and bytes; counters end in _total.
//
// Thread-safe. Counters are atomics; histograms take a short lock of their own.
#ifndef TESSERA_SERVER_TELEMETRY_METRICS_H_
#define TESSERA_SERVER_TELEMETRY_METRICS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

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
  // tessera_launches_total{result}
  prometheus::Counter *launch_ok, *launch_failed;
  prometheus::Histogram *launch_queue_seconds, *launch_seconds;
  prometheus::Counter *leases_expired;
  prometheus::Gauge *sessions, *regions, *mapped_bytes, *launches_in_flight, *kernel_variants,
      *ready;
  prometheus::Gauge *warmup_total, *warmup_done, *warmup_failed;
  prometheus::Counter *tune_trials, *tune_config_changes;
  prometheus::Histogram *tune_seconds;
  prometheus::Gauge *executor_restarts, *worker_restarts;
  prometheus::Gauge *cache_entries, *cache_bytes, *cache_hits, *cache_misses, *cache_evictions,
      *cache_corrupt;

  // tessera_compile_duration_seconds{stage}
  void ObserveCompile(const std::string &stage, double seconds);
  // A kernel compiled after the daemon was ready, while somebody waited for its launch.
  void CountJitDuringServing(const std::string &kernel);

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram> *compile_seconds_;
  prometheus::Family<prometheus::Counter> *jit_during_serving_;
  std::mutex mutex_;
  std::map<std::string, prometheus::Histogram *> compile_stages_;
  std::map<std::string, prometheus::Counter *> jit_kernels_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_METRICS_H_
