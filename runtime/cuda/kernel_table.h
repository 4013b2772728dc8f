// The kernels of a GPU's executor: modules loaded once, kept warm, unloaded when memory is short.
//
// A kernel whose module was unloaded stays known with its code and is loaded again by its next
// launch. Thread-safe; callers have the context current.
#ifndef TESSERA_RUNTIME_CUDA_KERNEL_TABLE_H_
#define TESSERA_RUNTIME_CUDA_KERNEL_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/launch_reports.h"

namespace tessera::runtime {

class DeviceKernel {
 public:
  struct Parameter {
    std::string name;
    bool pointer = false;
  };

  uint64_t id = 0;
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t threads = 128;                 // a block
  uint32_t shared_bytes = 0;              // dynamic
  uint32_t cluster_blocks = 1;            // num_ctas
  bool guarded = false;                   // launches pass the extents of their buffers
  ReportMessages report_messages;         // not empty: launches pass a report
  std::atomic<uint32_t> on_probation{0};  // launches that are still to run alone

 private:
  friend class KernelTable;
  std::string code_;  // cubin or PTX
  std::string entry_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  uint32_t launches_ = 0;  // that need the module
  uint64_t last_use_ = 0;
};

class KernelTable {
 public:
  // `gpu` must outlive this object.
  explicit KernelTable(const GpuContext* gpu) : gpu_(gpu) {}
  ~KernelTable();

  // FAILED_PRECONDITION: the code is not for this GPU, or wants more of a resource than it has (the
  // message names it). INVALID_ARGUMENT: no code, or without the entry symbol.
  absl::StatusOr<std::shared_ptr<DeviceKernel>> Load(uint64_t id,
                                                     const storage::Artifact& artifact);
  // Null: unknown.
  std::shared_ptr<DeviceKernel> Find(uint64_t id) const;
  void Remove(uint64_t id);

  // The function to launch, loading its module again if it must; it stays until Release.
  absl::StatusOr<CUfunction> Acquire(DeviceKernel* kernel);
  void Release(DeviceKernel* kernel);

  // Unloads the less recently used half of the modules that no launch needs; returns how many.
  uint32_t UnloadIdle();

  uint32_t loaded() const { return loaded_.load(std::memory_order_relaxed); }
  uint64_t unloaded() const { return unloaded_.load(std::memory_order_relaxed); }

 private:
  absl::Status LoadModule(DeviceKernel* kernel, CUmodule* module, CUfunction* function);
  absl::Status CheckLimits(const DeviceKernel& kernel) const;

  const GpuContext* const gpu_;
  std::atomic<uint32_t> loaded_{0};
  std::atomic<uint64_t> unloaded_{0};
  mutable std::mutex mutex_;  // not held while a module is loaded
  uint64_t uses_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<DeviceKernel>> kernels_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_KERNEL_TABLE_H_
