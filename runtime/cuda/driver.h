// libcuda's functions, found at run time.
//
// A table of function pointers, so that one binary starts with and without a GPU, and so that tests
// put a simulated GPU behind it (fake_driver.h). Types come from the toolkit's cuda.h.
#ifndef TESSERA_RUNTIME_CUDA_DRIVER_H_
#define TESSERA_RUNTIME_CUDA_DRIVER_H_

#include <cuda.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::runtime {

// cuda.h maps names to versions by macros (cuMemAlloc to cuMemAlloc_v2), here and where a member is
// used alike.
#define TESSERA_CUDA_FUNCTIONS(X)   \
  X(cuInit)                         \
  X(cuDriverGetVersion)             \
  X(cuGetErrorName)                 \
  X(cuGetErrorString)               \
  X(cuDeviceGetCount)               \
  X(cuDeviceGet)                    \
  X(cuDeviceGetName)                \
  X(cuDeviceGetUuid)                \
  X(cuDeviceGetAttribute)           \
  X(cuDeviceGetPCIBusId)            \
  X(cuDeviceTotalMem)               \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuDevicePrimaryCtxRelease)      \
  X(cuCtxSetCurrent)                \
  X(cuCtxSynchronize)               \
  X(cuCtxGetStreamPriorityRange)    \
  X(cuMemGetInfo)                   \
  X(cuMemAlloc)                     \
  X(cuMemFree)                      \
  X(cuMemHostAlloc)                 \
  X(cuMemFreeHost)                  \
  X(cuMemHostRegister)              \
  X(cuMemHostUnregister)            \
  X(cuMemHostGetDevicePointer)      \
  X(cuMemcpyAsync)                  \
  X(cuMemcpyHtoD)                   \
  X(cuMemcpyDtoH)                   \
  X(cuMemsetD8Async)                \
  X(cuMemGetAddressRange)           \
  X(cuPointerGetAttribute)          \
  X(cuIpcGetMemHandle)              \
  X(cuIpcOpenMemHandle)             \
  X(cuIpcCloseMemHandle)            \
  X(cuIpcGetEventHandle)            \
  X(cuIpcOpenEventHandle)           \
  X(cuEventCreate)                  \
  X(cuEventDestroy)                 \
  X(cuEventRecord)                  \
  X(cuEventQuery)                   \
  X(cuEventSynchronize)             \
  X(cuEventElapsedTime)             \
  X(cuStreamCreateWithPriority)     \
  X(cuStreamDestroy)                \
  X(cuStreamWaitEvent)              \
  X(cuStreamQuery)                  \
  X(cuStreamSynchronize)            \
  X(cuStreamWriteValue32)           \
  X(cuModuleLoadDataEx)             \
  X(cuModuleUnload)                 \
  X(cuModuleGetFunction)            \
  X(cuFuncGetAttribute)             \
  X(cuFuncSetAttribute)             \
  X(cuLaunchKernel)                 \
  X(cuLaunchKernelEx)               \
  X(cuMemAddressReserve)            \
  X(cuMemAddressFree)               \
  X(cuMemCreate)                    \
  X(cuMemRelease)                   \
  X(cuMemMap)                       \
  X(cuMemUnmap)                     \
  X(cuMemSetAccess)                 \
  X(cuMemExportToShareableHandle)   \
  X(cuMemImportFromShareableHandle) \
  X(cuMemGetAllocationGranularity)  \
  X(cuMemGetAllocationPropertiesFromHandle)

struct CudaDriver {
#define X(name) decltype(&::name) name = nullptr;
  TESSERA_CUDA_FUNCTIONS(X)
#undef X
};

// Opens libcuda and initialises it, once in a process: $TESSERA_LIBCUDA, else libcuda.so.1 where
// the loader finds it, else in the places where container runtimes put it. NOT_FOUND: there is
// none. UNAVAILABLE: it does not initialise (no GPU, a driver of another version).
absl::StatusOr<const CudaDriver*> LoadCudaDriver();

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_DRIVER_H_
