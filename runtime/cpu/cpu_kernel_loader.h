// The CPU device: loads compiled objects and runs their program instances on a thread pool.
#ifndef TESSERA_RUNTIME_CPU_CPU_KERNEL_LOADER_H_
#define TESSERA_RUNTIME_CPU_CPU_KERNEL_LOADER_H_

#include <memory>

#include "runtime/cpu/thread_pool.h"
#include "runtime/device/device.h"

namespace tessera::runtime {

// Loads artifacts of the target "cpu". `pool` must outlive the loader; kernels may outlive the loader, not the pool.
//
// An object may refer to the C math library and to memcpy, memmove, memset and memcmp; any other symbol fails the
// load. Its memory is given back with the kernel.
// Load: INVALID_ARGUMENT: another target, or no ELF object for this machine. FAILED_PRECONDITION: the object lacks its
// entry or needs a symbol that is not offered.
// Run: INVALID_ARGUMENT: the number of parameters differs from the artifact's. ABORTED: a device_assert failed.
std::unique_ptr<KernelLoader> CreateCpuKernelLoader(ThreadPool* pool);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CPU_CPU_KERNEL_LOADER_H_
