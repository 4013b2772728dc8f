// The last quarter of an hour, for the plots of the status page: no Prometheus is needed to see
// what happened just now.
#ifndef TESSERA_SERVER_TELEMETRY_HISTORY_H_
#define TESSERA_SERVER_TELEMETRY_HISTORY_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "server/telemetry/metrics.h"

namespace tessera::server {

// Counters as they stood; rates come from two of them.
struct HistoryCounters {
  double monotonic_seconds = 0;
  uint64_t launches = 0, failures = 0, compiles = 0, jit = 0;
  uint64_t compile_requests = 0, compile_hits = 0;  // of variants, in the cache
  double busy_seconds = 0;                          // of all devices
  uint64_t mapped_bytes = 0, resident_bytes = 0, in_flight = 0;
  LatencyHistogram::Counts launch_latency;
};

// One interval between two readings. Rates are per second.
struct HistoryPoint {
  double age_seconds = 0;  // of its end
  double launches = 0, failures = 0, compiles = 0, jit = 0;
  double hit_ratio = -1;                    // -1: nothing was looked up
  double busy = 0;                          // device seconds per second
  double p50_seconds = 0, p99_seconds = 0;  // device time of launches; 0: none
  double mapped_bytes = 0, resident_bytes = 0, in_flight = 0;
};

// Thread-safe.
class History {
 public:
  explicit History(size_t points = 450) : limit_(points) {}

  void Add(const HistoryCounters& now);
  // Oldest first. `now`: of the clock of monotonic_seconds.
  std::vector<HistoryPoint> Points(double now) const;

 private:
  struct Entry {
    double end = 0;
    HistoryPoint point;
  };
  const size_t limit_;
  mutable std::mutex mutex_;
  bool any_ = false;
  HistoryCounters last_;
  std::deque<Entry> entries_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_HISTORY_H_
