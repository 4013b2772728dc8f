#include "runtime/cuda/cuda_role.h"

#include <cstdlib>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpu.h"
#include "runtime/executor/executor_process.h"

namespace tessera::runtime {

bool CudaIsBuiltIn() { return true; }

worker::DeviceProbe ProbeGpus() {
  absl::StatusOr<const CudaDriver*> driver = LoadCudaDriver();
  absl::StatusOr<worker::DeviceProbe> probe =
      driver.ok() ? ListGpus(**driver) : absl::StatusOr<worker::DeviceProbe>(driver.status());
  if (probe.ok()) return *probe;
  worker::DeviceProbe none;
  none.set_problem(std::string(probe.status().message()));
  return none;
}

int RunCudaExecutor(int control_fd, const std::string& gpu_uuid, int poll_us) {
  const absl::Status bound = BindToDaemon(control_fd);
  if (!bound.ok()) Die(bound);
  // Streams of sessions share the GPU's queues; more queues, less waiting for one another.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  absl::StatusOr<const CudaDriver*> driver = LoadCudaDriver();
  ServeAsCudaExecutor(control_fd, driver, gpu_uuid, poll_us);
}

}  // namespace tessera::runtime
