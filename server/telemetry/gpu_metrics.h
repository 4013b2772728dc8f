// Metrics of GPUs and their executors, one series a device.
#ifndef TESSERA_SERVER_TELEMETRY_GPU_METRICS_H_
#define TESSERA_SERVER_TELEMETRY_GPU_METRICS_H_

#include <memory>
#include <string>

#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "proto/worker/worker.pb.h"

namespace tessera::server {

// Thread-safe.
class GpuMetrics {
 public:
  explicit GpuMetrics(const std::shared_ptr<prometheus::Registry>& registry);

  // `device`: "cuda:0".
  void Set(const std::string& device, const worker::DeviceProbe::Gpu& gpu,
           const worker::DeviceStats& stats);

 private:
  using Gauges = prometheus::Family<prometheus::Gauge>;
  const std::shared_ptr<prometheus::Registry> registry_;
  Gauges *info_, *memory_, *memory_free_, *streams_, *modules_, *handles_, *events_, *launches_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_GPU_METRICS_H_
