// The driver's error codes as Status; the only place where they are turned.
#ifndef TESSERA_RUNTIME_CUDA_CUDA_STATUS_H_
#define TESSERA_RUNTIME_CUDA_CUDA_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/cuda/driver.h"

namespace tessera::runtime {

// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
std::string CudaErrorText(const CudaDriver& driver, CUresult result);

// "`attempt`: `error text`". INVALID_ARGUMENT, RESOURCE_EXHAUSTED (memory), FAILED_PRECONDITION (no
// code for this device, too many resources for one launch), UNAVAILABLE (the context or the device
// is lost, see PoisonsContext), else INTERNAL.
absl::Status CudaStatus(const CudaDriver& driver, CUresult result, absl::string_view attempt);

// After these nothing more can be done in this process: a kernel faulted, or the device is gone.
bool PoisonsContext(CUresult result);
// The same, of errors that a kernel caused.
bool IsKernelFault(CUresult result);

}  // namespace tessera::runtime

// Returns from the enclosing function unless `call` gives CUDA_SUCCESS.
#define RETURN_IF_CUDA_ERROR(driver, call, attempt)                             \
  do {                                                                          \
    const CUresult cuda_result_ = (call);                                       \
    if (cuda_result_ != CUDA_SUCCESS)                                           \
      return ::tessera::runtime::CudaStatus((driver), cuda_result_, (attempt)); \
  } while (false)

#endif  // TESSERA_RUNTIME_CUDA_CUDA_STATUS_H_
