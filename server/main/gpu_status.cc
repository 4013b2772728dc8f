#include "server/main/gpu_status.h"

#include "absl/strings/str_cat.h"

namespace tessera::server {

void FillGpuStatus(const Device& device, tessera::v1::GetStatusResponse::Device* status) {
  const DeviceDescription& description = device.description();
  if (!description.is_gpu()) return;
  status->set_uuid(description.uuid());
  const worker::DeviceProbe::Gpu& gpu = description.gpu;
  const worker::DeviceStats stats = device.stats();
  auto* to = status->mutable_gpu();
  to->set_compute_capability(absl::StrCat(gpu.compute_major(), ".", gpu.compute_minor()));
  to->set_driver_version(
      absl::StrCat(description.driver_version / 1000, ".", description.driver_version % 1000 / 10));
  to->set_memory_bytes(gpu.memory_bytes());
  to->set_memory_free_bytes(stats.memory_free_bytes());
  to->set_sharing(gpu.sharing());
  to->set_multiprocessors(static_cast<uint32_t>(gpu.multiprocessors()));
  to->set_streams(stats.streams());
  to->set_modules_loaded(stats.modules_loaded());
  to->set_modules_unloaded(stats.modules_unloaded());
  to->set_handles_open(stats.handles_open());
  to->set_events_open(stats.events_open());
  to->set_launches_on_device(stats.launches_on_device());
}

void RefreshGpus(const DeviceTable& devices, GpuMetrics* metrics) {
  for (const auto& device : devices.all()) {
    if (!device->description().is_gpu()) continue;
    device->RefreshStats();
    metrics->Set(device->name(), device->description().gpu, device->stats());
  }
}

}  // namespace tessera::server
