// A daemon for tests of the GPU runtime: everything but the compiler, whose place small kernels in
// PTX take (runtime/cuda/test_kernels.h).
//
// It runs in a process of its own, which is this very program: main must call ServePtxDaemonRoles
// first. With TESSERA_TEST_GPU unset, on simulated GPUs.
#ifndef TESSERA_TESTS_GPU_PTX_DAEMON_H_
#define TESSERA_TESTS_GPU_PTX_DAEMON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpu.h"

namespace tessera {

// Does not return if this process was started as a daemon or an executor.
void ServePtxDaemonRoles(int argc, char** argv);

bool OnRealGpu();
// Of this process, the client: the real driver, or the simulated one.
const runtime::CudaDriver& ClientDriver();

class PtxDaemon {
 public:
  // `flags` as for tesserad. Waits until it serves.
  static absl::StatusOr<std::unique_ptr<PtxDaemon>> Start(std::vector<std::string> flags = {});
  ~PtxDaemon();

  const std::string& address() const { return address_; }
  int pid() const { return pid_; }

 private:
  PtxDaemon() = default;
  int pid_ = -1;
  std::string folder_, address_;
};

// The text to register. Its kernels are those of runtime/cuda/test_kernels.h, with parameters named
// p0, p1 ... and a constexpr TAG: another value, another variant.
inline constexpr char kPtxModule[] = "test kernels in PTX";

}  // namespace tessera

#endif  // TESSERA_TESTS_GPU_PTX_DAEMON_H_
