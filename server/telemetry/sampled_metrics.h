// Metrics that are read from the daemon's state when somebody scrapes.
#ifndef TESSERA_SERVER_TELEMETRY_SAMPLED_METRICS_H_
#define TESSERA_SERVER_TELEMETRY_SAMPLED_METRICS_H_

#include <functional>
#include <mutex>
#include <vector>

#include "prometheus/collectable.h"
#include "proto/tessera/v1/admin.pb.h"
#include "proto/tessera/v1/cache.pb.h"
#include "server/telemetry/metrics.h"

namespace tessera::server {

struct DaemonState {
  tessera::v1::GetStatusResponse status;
  tessera::v1::CacheStatsResponse cache;
};

// Thread-safe. `metrics` and whatever `read` uses must outlive it.
class SampledMetrics : public prometheus::Collectable {
 public:
  using ReadState = std::function<DaemonState()>;

  SampledMetrics(const Metrics* metrics, ReadState read)
      : metrics_(metrics), read_(std::move(read)), top_kernels_(kTopKernels) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

  // Kernels with series of their own.
  static constexpr size_t kTopKernels = 40;

 private:
  const Metrics* const metrics_;
  const ReadState read_;
  mutable std::mutex mutex_;
  mutable TopKernels top_kernels_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_SAMPLED_METRICS_H_
