// A CUDA event of a client, opened by the executor of its device.
#ifndef TESSERA_SERVER_SESSION_DEVICE_EVENT_H_
#define TESSERA_SERVER_SESSION_DEVICE_EVENT_H_

#include <cstdint>

#include "runtime/executor/executor_client.h"
#include "server/concurrency/task_pool.h"
#include "server/device/device_table.h"

namespace tessera::server {

// Stays open as long as anybody holds it: a session, launches in flight. Thread-safe.
class DeviceEvent {
 public:
  // All must outlive this object. The executor has it open under `id`.
  DeviceEvent(uint64_t id, const Device* device, runtime::ExecutorClient* executor, TaskPool* pool)
      : id_(id), device_(device), executor_(executor), pool_(pool) {}
  ~DeviceEvent() {
    pool_->Run([id = id_, executor = executor_] { executor->ReleaseEvent(id); });
  }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  uint64_t id() const { return id_; }
  const Device& device() const { return *device_; }

 private:
  const uint64_t id_;
  const Device* const device_;
  runtime::ExecutorClient* const executor_;
  TaskPool* const pool_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_DEVICE_EVENT_H_
