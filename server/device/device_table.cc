#include "server/device/device_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

absl::StatusOr<runtime::ExecutorClient*> Device::Start() {
  if (runtime::ExecutorClient* executor = started()) return executor;
  std::lock_guard<std::mutex> lock(starting_);
  if (owned_ != nullptr) return owned_.get();
  absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> started = starter_();
  if (!started.ok()) {
    spdlog::error("starting the executor of {}: {}", name(), started.status().ToString());
    return absl::UnavailableError(
        absl::StrCat("the executor of ", name(), " does not start: ", started.status().message()));
  }
  owned_ = *std::move(started);
  executor_.store(owned_.get(), std::memory_order_release);
  return owned_.get();
}

void Device::RefreshStats() {
  runtime::ExecutorClient* executor = started();
  if (executor == nullptr || !description_.is_gpu()) return;
  absl::StatusOr<worker::DeviceStats> stats = executor->Stats();
  if (!stats.ok()) return;  // it is being restarted; what was seen last stays
  std::lock_guard<std::mutex> lock(stats_mutex_);
  stats_ = *std::move(stats);
}

Device* DeviceTable::Add(DeviceDescription description, Device::Starter starter) {
  int index = static_cast<int>(devices_.size());
  devices_.push_back(std::make_unique<Device>(std::move(description), index, std::move(starter)));
  return devices_.back().get();
}

void DeviceTable::AddTuning(Device* device, Device::Starter starter) {
  int index = static_cast<int>(devices_.size() + tuning_.size());
  tuning_.push_back(std::make_unique<Device>(device->description(), index, std::move(starter)));
  device->tuning_ = tuning_.back().get();
}

absl::StatusOr<Device*> DeviceTable::Find(absl::string_view name) const {
  if (name.empty() && !devices_.empty()) return devices_[0].get();
  for (const std::unique_ptr<Device>& device : devices_) {
    if (name == device->name()) return device.get();
    if (absl::StrCat(name, ":0") == device->name()) return device.get();
    const std::string& uuid = device->description().uuid();
    if (!uuid.empty() && (name == uuid || name == absl::StrCat("cuda:", uuid))) return device.get();
  }
  std::string known;
  for (const std::unique_ptr<Device>& device : devices_)
    absl::StrAppend(&known, known.empty() ? "" : ", ", device->name());
  return Error(absl::StatusCode::kInvalidArgument, "DEVICE_UNKNOWN",
               absl::StrCat("device '", name, "' is not here; this daemon has: ", known),
               {{"device", std::string(name)}});
}

}  // namespace tessera::server
