// CUDA events of clients, opened in this process.
#ifndef TESSERA_RUNTIME_CUDA_DEVICE_EVENTS_H_
#define TESSERA_RUNTIME_CUDA_DEVICE_EVENTS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "proto/worker/worker.pb.h"
#include "runtime/cuda/gpu.h"

namespace tessera::runtime {

class DeviceEvent {
 public:
  DeviceEvent(const CudaDriver* driver, CUevent event) : driver_(driver), event_(event) {}
  ~DeviceEvent() { driver_->cuEventDestroy(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  CUevent event() const { return event_; }

 private:
  const CudaDriver* const driver_;
  const CUevent event_;
};

// By the daemon's ids. An event stays open while a launch holds it. Thread-safe; callers have the
// context current.
class DeviceEvents {
 public:
  explicit DeviceEvents(const GpuContext* gpu) : gpu_(gpu) {}

  // INVALID_ARGUMENT: no handle, or of another GPU (the message has both UUIDs).
  absl::Status Import(const worker::ImportEvent& request);
  void Remove(uint64_t id);
  // NOT_FOUND.
  absl::StatusOr<std::shared_ptr<DeviceEvent>> Find(uint64_t id) const;
  uint32_t open() const;

 private:
  const GpuContext* const gpu_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<DeviceEvent>> events_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_DEVICE_EVENTS_H_
