#include "server/telemetry/history.h"

namespace tessera::server {

void History::Add(const HistoryCounters& now) {
  std::lock_guard<std::mutex> lock(mutex_);
  double seconds = now.monotonic_seconds - last_.monotonic_seconds;
  if (any_ && seconds > 0) {
    auto rate = [&](uint64_t later, uint64_t earlier) {
      return static_cast<double>(later - earlier) / seconds;
    };
    Entry entry;
    entry.end = now.monotonic_seconds;
    HistoryPoint& point = entry.point;
    point.launches = rate(now.launches, last_.launches);
    point.failures = rate(now.failures, last_.failures);
    point.compiles = rate(now.compiles, last_.compiles);
    point.jit = rate(now.jit, last_.jit);
    if (uint64_t requests = now.compile_requests - last_.compile_requests; requests > 0)
      point.hit_ratio = static_cast<double>(now.compile_hits - last_.compile_hits) /
                        static_cast<double>(requests);
    point.busy = (now.busy_seconds - last_.busy_seconds) / seconds;
    LatencyHistogram::Counts latency = now.launch_latency.Since(last_.launch_latency);
    point.p50_seconds = latency.Quantile(0.5);
    point.p99_seconds = latency.Quantile(0.99);
    point.mapped_bytes = static_cast<double>(now.mapped_bytes);
    point.resident_bytes = static_cast<double>(now.resident_bytes);
    point.in_flight = static_cast<double>(now.in_flight);
    entries_.push_back(entry);
    if (entries_.size() > limit_) entries_.pop_front();
  }
  last_ = now;
  any_ = true;
}

std::vector<HistoryPoint> History::Points(double now) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<HistoryPoint> points;
  for (const Entry& entry : entries_) {
    points.push_back(entry.point);
    points.back().age_seconds = now - entry.end;
  }
  return points;
}

}  // namespace tessera::server
