// Clients' memory as the executor of a GPU maps it: CUDA IPC handles, VMM exports, host memory.
//
// An IPC handle is opened once, however many regions lie in its allocation, and closed when the
// last of them is gone. Addresses stay valid as long as anybody holds the region; what takes a
// while or waits for the GPU (closing, unmapping) happens on a thread of this object. Thread-safe;
// callers have the context current.
#ifndef TESSERA_RUNTIME_CUDA_DEVICE_MEMORY_H_
#define TESSERA_RUNTIME_CUDA_DEVICE_MEMORY_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/worker/worker.pb.h"
#include "runtime/cuda/gpu.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::runtime {

struct DeviceRegion {
  uint64_t id = 0;
  CUdeviceptr address = 0;
  uint64_t bytes = 0;
  bool read_only = false;
  std::shared_ptr<void> backing;  // unmaps when the last region in it goes

  // The address of `bytes` bytes from `offset` on. OUT_OF_RANGE: they are not all inside.
  absl::StatusOr<uint64_t> Resolve(uint64_t offset, uint64_t bytes) const;
};

// What MapDeviceMemory made.
struct MappedDeviceMemory {
  uint64_t bytes = 0;         // of the region
  uint64_t handle_bytes = 0;  // behind `exported`
  UniqueFd exported;          // of a fresh allocation: a VMM export
};

class DeviceMemory {
 public:
  // `gpu` must outlive this object. `on_memory_short` is called when an allocation fails for lack
  // of memory; it returns whether it freed some, and the allocation is tried again.
  DeviceMemory(const GpuContext* gpu, std::function<bool()> on_memory_short);
  ~DeviceMemory();

  // INVALID_ARGUMENT: the handle is none, or belongs to another GPU (the message has both UUIDs),
  // or the extent does not lie inside it. RESOURCE_EXHAUSTED: no memory.
  absl::StatusOr<MappedDeviceMemory> Map(const worker::MapDeviceMemory& request,
                                         const std::vector<UniqueFd>& descriptors);
  // Memory of the host (a memfd), which the GPU reaches over the bus.
  absl::Status MapHost(uint64_t id, int fd, uint64_t offset, uint64_t bytes, bool read_only);
  void Remove(uint64_t id);
  // NOT_FOUND.
  absl::StatusOr<std::shared_ptr<const DeviceRegion>> Find(uint64_t id) const;

  uint32_t handles_open() const { return handles_open_.load(std::memory_order_relaxed); }

 private:
  struct Opened {  // where a region's memory begins, and how much of it there is
    CUdeviceptr address = 0;
    uint64_t bytes = 0;
    std::shared_ptr<void> backing;
  };

  absl::StatusOr<Opened> OpenIpc(const std::string& handle, const std::string& uuid);
  absl::StatusOr<Opened> MapChunks(const std::vector<CUmemGenericAllocationHandle>& chunks,
                                   const std::vector<uint64_t>& chunk_bytes, bool read_only);
  absl::StatusOr<Opened> ImportVmm(const worker::MapDeviceMemory& request,
                                   const std::vector<UniqueFd>& descriptors);
  absl::StatusOr<Opened> Allocate(uint64_t bytes, MappedDeviceMemory* made);
  absl::Status CheckSameGpu(const std::string& uuid) const;
  absl::Status Add(std::shared_ptr<DeviceRegion> region);
  // A backing whose end runs on our thread.
  std::shared_ptr<void> Backing(std::function<void()> end);
  void RunEnds();

  const GpuContext* const gpu_;
  const std::function<bool()> on_memory_short_;
  uint64_t granularity_ = 2 << 20;
  std::atomic<uint32_t> handles_open_{0};

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const DeviceRegion>> regions_;

  struct IpcMapping {
    CUdeviceptr address = 0;
    uint64_t bytes = 0;
    std::weak_ptr<void> backing;
  };
  std::mutex ipc_mutex_;  // held while a handle is opened or closed: never the same one twice
  std::map<std::string, IpcMapping> ipc_;

  std::mutex ends_mutex_;
  std::condition_variable ends_changed_;
  std::deque<std::function<void()>> ends_;
  bool stopping_ = false;
  std::thread ends_thread_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_DEVICE_MEMORY_H_
