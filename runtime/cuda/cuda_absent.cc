// A build without CUDA's headers.
#include <cstdio>

#include "runtime/cuda/cuda_role.h"

namespace tessera::runtime {

bool CudaIsBuiltIn() { return false; }

worker::DeviceProbe ProbeGpus() {
  worker::DeviceProbe probe;
  probe.set_problem("this build has no CUDA support: CUDA's headers were not there");
  return probe;
}

int RunCudaExecutor(int, const std::string&, int) {
  std::fprintf(stderr, "tesserad: %s\n", ProbeGpus().problem().c_str());
  return 2;
}

}  // namespace tessera::runtime
