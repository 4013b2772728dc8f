// The executor process of one GPU.
//
// One thread answers requests (memory, events, kernels), one takes launches from the ring, puts
// them on their streams and reports their ends; neither waits for a kernel. When a kernel has
// poisoned the context the process notes in its status page what was running, and ends: the daemon
// starts another one.
#ifndef TESSERA_RUNTIME_CUDA_CUDA_EXECUTOR_H_
#define TESSERA_RUNTIME_CUDA_CUDA_EXECUTOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"

namespace tessera::runtime {

// `driver`: what the process runs on, or why there is nothing (answered to Attach). The process is
// bound to the daemon already (executor_process.h). `poll_us`: how long it polls for the next command
// where the last one came as soon; 0: as long as suits launches of clients.
[[noreturn]] void ServeAsCudaExecutor(int control_fd, absl::StatusOr<const CudaDriver*> driver,
                                      const std::string& gpu_uuid, int poll_us = 0);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_CUDA_EXECUTOR_H_
