// A piece of memory that a client shares with the daemon.
#ifndef TESSERA_SERVER_SESSION_REGION_H_
#define TESSERA_SERVER_SESSION_REGION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "runtime/memory/unique_fd.h"
#include "server/concurrency/task_pool.h"
#include "server/device/device_table.h"

namespace tessera::server {

struct RegionDescription {
  uint64_t id =
      0;  // unique while the daemon runs; the client's handle and the executors' name for it
  uint64_t offset = 0, size = 0;  // bytes; offset is a multiple of 4096, in GPU memory of 256
  bool read_only = false;
  std::string kind;    // "memfd", "posix_shm", "allocated", "cuda_ipc", "vmm", "gpu"
  std::string device;  // where it was imported for
  // GPU memory: where it is, and nowhere else. Null: host memory, which every device can map.
  Device* home = nullptr;
  uint64_t handle_bytes = 0;  // GPU memory made here: bytes behind the descriptor
};

// Lives as long as anybody holds it: a launch in flight keeps its regions mapped even if the
// session has ended. Thread-safe.
class Region {
 public:
  // `pool` unmaps when the region goes, for that may wait; `on_end` is called then. Both must
  // outlive the region.
  Region(RegionDescription description, runtime::UniqueFd fd, TaskPool* pool,
         std::function<void()> on_end);
  ~Region();

  uint64_t id() const { return description_.id; }
  uint64_t size() const { return description_.size; }
  const RegionDescription& description() const { return description_; }
  int fd() const { return fd_.get(); }

  bool MappedOn(const Device& device) const {
    return (mapped_.load(std::memory_order_acquire) & (1u << device.index())) != 0;
  }
  // Maps it into the device's executor, which is started if it is not. Blocks. FAILED_PRECONDITION:
  // it is memory of another GPU; the message has both UUIDs.
  absl::Status EnsureMapped(Device* device);
  // GPU memory comes mapped by its executor.
  void SetMappedAtHome(runtime::ExecutorClient* executor);

 private:
  const RegionDescription description_;
  const runtime::UniqueFd fd_;
  TaskPool* const pool_;
  const std::function<void()> on_end_;
  std::mutex mapping_;
  std::vector<runtime::ExecutorClient*> executors_;
  std::atomic<uint32_t> mapped_{0};
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_REGION_H_
