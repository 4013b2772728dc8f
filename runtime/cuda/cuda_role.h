// What `tesserad` does for GPUs in child processes of its own. No CUDA header: a build without the
// toolkit has these too, and they say so.
#ifndef TESSERA_RUNTIME_CUDA_CUDA_ROLE_H_
#define TESSERA_RUNTIME_CUDA_CUDA_ROLE_H_

#include <string>

#include "proto/worker/worker.pb.h"

namespace tessera::runtime {

// Whether this binary was built with CUDA's headers, and so can use GPUs at all.
bool CudaIsBuiltIn();

// The GPUs of this machine that this process sees. Opens the driver, so it is called in a process
// that the daemon starts for it: a driver that hangs or crashes costs that process alone.
worker::DeviceProbe ProbeGpus();

// Serves as the executor of the GPU with this UUID until the daemon goes away. Returns the
// process's exit status. `poll_us`: see ServeAsCudaExecutor.
int RunCudaExecutor(int control_fd, const std::string& gpu_uuid, int poll_us);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_CUDA_ROLE_H_
