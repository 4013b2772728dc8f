#include "runtime/cuda/device_events.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"

namespace tessera::runtime {

absl::Status DeviceEvents::Import(const worker::ImportEvent& request) {
  CUipcEventHandle handle;
  if (request.cuda_ipc().size() != sizeof(handle))
    return absl::InvalidArgumentError(absl::StrCat("a CUDA IPC event handle has ", sizeof(handle),
                                                   " bytes, not ", request.cuda_ipc().size()));
  if (!request.device_uuid().empty() && request.device_uuid() != gpu_->uuid())
    return absl::InvalidArgumentError(absl::StrCat("the event belongs to ", request.device_uuid(),
                                                   ", but this device is ", gpu_->uuid()));
  std::memcpy(&handle, request.cuda_ipc().data(), sizeof(handle));
  CUevent event = nullptr;
  RETURN_IF_CUDA_ERROR(gpu_->driver(), gpu_->driver().cuIpcOpenEventHandle(&event, handle),
                       "opening a CUDA IPC event handle");
  auto opened = std::make_shared<DeviceEvent>(&gpu_->driver(), event);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!events_.emplace(request.event(), std::move(opened)).second)
    return absl::AlreadyExistsError(absl::StrCat("event ", request.event(), " is open already"));
  return absl::OkStatus();
}

void DeviceEvents::Remove(uint64_t id) {
  std::shared_ptr<DeviceEvent> removed;  // closed outside the lock
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = events_.find(id);
  if (found == events_.end()) return;
  removed = std::move(found->second);
  events_.erase(found);
}

absl::StatusOr<std::shared_ptr<DeviceEvent>> DeviceEvents::Find(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = events_.find(id);
  if (found == events_.end())
    return absl::NotFoundError(absl::StrCat("event ", id, " is not open"));
  return found->second;
}

uint32_t DeviceEvents::open() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint32_t>(events_.size());
}

}  // namespace tessera::runtime
