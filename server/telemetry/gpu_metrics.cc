#include "server/telemetry/gpu_metrics.h"

namespace tessera::server {

GpuMetrics::GpuMetrics(const std::shared_ptr<prometheus::Registry>& registry)
    : registry_(registry) {
  auto gauges = [&](const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
  };
  info_ = gauges("tessera_gpu_info",
                 "1; labels say which GPU a device is and how processes share it: mps, time-slice, "
                 "exclusive.");
  memory_ = gauges("tessera_gpu_memory_bytes", "Memory of the GPU.");
  memory_free_ = gauges("tessera_gpu_memory_free_bytes", "Memory of the GPU that nobody has.");
  streams_ = gauges("tessera_gpu_streams", "Streams of sessions.");
  modules_ = gauges("tessera_gpu_modules_loaded", "Modules of code on the GPU.");
  handles_ = gauges("tessera_gpu_handles_open", "Memory handles of clients that are open.");
  events_ = gauges("tessera_gpu_events_open", "Events of clients that are open.");
  launches_ = gauges("tessera_gpu_launches_on_device", "Launches enqueued and not ended.");
}

void GpuMetrics::Set(const std::string& device, const worker::DeviceProbe::Gpu& gpu,
                     const worker::DeviceStats& stats) {
  const std::map<std::string, std::string> labels = {{"device", device}};
  info_
      ->Add({{"device", device},
             {"uuid", gpu.uuid()},
             {"name", gpu.name()},
             {"sharing", gpu.sharing()}})
      .Set(1);
  memory_->Add(labels).Set(static_cast<double>(gpu.memory_bytes()));
  memory_free_->Add(labels).Set(static_cast<double>(stats.memory_free_bytes()));
  streams_->Add(labels).Set(stats.streams());
  modules_->Add(labels).Set(stats.modules_loaded());
  handles_->Add(labels).Set(stats.handles_open());
  events_->Add(labels).Set(stats.events_open());
  launches_->Add(labels).Set(stats.launches_on_device());
}

}  // namespace tessera::server
