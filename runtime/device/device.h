// What an executor needs of a device: load artifacts, run launches.
#ifndef TESSERA_RUNTIME_DEVICE_DEVICE_H_
#define TESSERA_RUNTIME_DEVICE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::runtime {

// Memory a launch may touch, as the executor mapped it.
struct MemoryExtent {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool read_only = false;
  std::string name;  // of the parameter
};

struct Launch {
  uint32_t grid[3] = {1, 1, 1};
  // Devices that run one program after the other: the order is random, decided by this; 0: as numbered.
  uint64_t program_order_seed = 0;
  std::vector<uint64_t> params;  // slots of base/kernel_abi.h
  std::vector<MemoryExtent> extents;  // one for each pointer parameter
  std::function<void(const std::string&)> print;  // output of device_print; may be empty
  // Null, or where Run puts how long the launch would take by the processor time of its program instances: their mean, as
  // often as they follow each other where each thread always has one. Of CPUs.
  uint64_t* processor_ns = nullptr;
  // Program instances to run, by their number in the grid (x counts fastest); 0, 0: all. Of CPUs.
  uint64_t first = 0, last = 0;
};

// A kernel on a device. Thread-safe.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  // Runs all program instances and returns when they have finished.
  virtual absl::Status Run(const Launch& launch) = 0;
  // Empties those caches that cores have for themselves, into those that they share: as a launch finds them whose memory
  // is larger, where only a part of it has run before. On devices that have such caches.
  virtual void SweepCaches() {}
};

// Turns artifacts of one target into loaded kernels. Thread-safe.
class KernelLoader {
 public:
  virtual ~KernelLoader() = default;
  virtual absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const storage::Artifact& artifact) = 0;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_DEVICE_DEVICE_H_
