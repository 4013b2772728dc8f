// Kernels for tests of the executor, written in C++ and chosen by name, and the process that runs
// them.
#ifndef TESSERA_RUNTIME_EXECUTOR_TEST_KERNELS_H_
#define TESSERA_RUNTIME_EXECUTOR_TEST_KERNELS_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/storage/artifacts.pb.h"
#include "runtime/executor/executor_client.h"

namespace tessera::runtime {

// Names and parameters:
//   nop                     does nothing
//   add_one(*x, n)          adds 1 to n int32
//   gate(*words)            sets words[0], then waits until words[1] is set
//   gate_then_sum(*words, *x, n)  the same, then sums n bytes of x into words[2]
//   sum_in_threads(*words, *x, n) sums n bytes of x in four threads at once
//   overrun(*x, n)          writes byte n of x
//   segv, abort, divide     die of SIGSEGV, SIGABRT, SIGFPE
//   print(n)                prints n lines of 16 bytes
//   fail                    ABORTED
//   crash_on_load, reject   do not load: SIGSEGV, INVALID_ARGUMENT
storage::Artifact TestKernel(const std::string& name);

// How to start this very program as an executor of these kernels; its main must call
// RunAsTestExecutor first.
ExecutorOptions TestExecutorOptions();

// The exit status when the program was started as an executor; else nullopt.
std::optional<int> RunAsTestExecutor(int argc, char** argv);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_TEST_KERNELS_H_
