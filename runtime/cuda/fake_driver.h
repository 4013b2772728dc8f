// A CUDA driver without a GPU, for tests: two devices, streams that are threads, memory and events
// that other processes can open, kernels written in C++, faults.
//
// Device memory is host memory (memfds), so tests and kernels read it directly. Kernels are found
// by the name of their entry; the code that is loaded must hold that name. Faults poison the
// context of the whole process, as a real one would.
#ifndef TESSERA_RUNTIME_CUDA_FAKE_DRIVER_H_
#define TESSERA_RUNTIME_CUDA_FAKE_DRIVER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/cuda/driver.h"

namespace tessera::runtime {

// One of this process; starts with nothing allocated. Never destroyed.
const CudaDriver* FakeCudaDriver();

inline constexpr char kFakeGpu0[] = "GPU-00000000-0000-0000-0000-000000000000";
inline constexpr char kFakeGpu1[] = "GPU-01010101-0101-0101-0101-010101010101";

struct FakeGpuSettings {
  uint64_t memory_bytes = uint64_t{1} << 30;  // beyond it allocations fail
  uint32_t modules = 1u << 20;                // likewise, as lack of memory
  bool mps = false;
  int compute_major = 9, compute_minor = 0;
};
FakeGpuSettings& FakeGpu();  // of both devices; set before use

struct FakeGpuCounts {
  uint64_t ipc_opens = 0, ipc_closes = 0, modules_loaded = 0, modules_unloaded = 0, launches = 0;
};
FakeGpuCounts FakeGpuCount();

// As if a kernel had faulted, or the device were gone.
void PoisonFakeGpu(CUresult error);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_FAKE_DRIVER_H_
