// Small kernels for tests of the GPU's executor, each twice: in PTX, for a real GPU, and in C++,
// for the simulated one.
//
//   add_one(*x i32, n i32)         adds 1 to n numbers; grid of ceil(n / 128)
//   wait_flag(*flag i32)           runs until flag[0] is not 0
//   spin(nanoseconds i64)          runs that long
//   fault()                        writes where nothing is mapped
//   guarded_add_one(*x i32, n i32) add_one with its accesses checked (KernelMetadata.options guarded)
//   report(code i32)               0: prints 7; 1: a failed assertion; 2: an access outside
#ifndef TESSERA_RUNTIME_CUDA_TEST_KERNELS_H_
#define TESSERA_RUNTIME_CUDA_TEST_KERNELS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "proto/storage/artifacts.pb.h"

namespace tessera::runtime {

// An artifact whose code is PTX; `kernel` is one of the names above.
storage::Artifact GpuTestKernel(const std::string& kernel);

struct TestKernelFunction {
  int params = 0;
  // False: it faults. `stop`: the context is lost meanwhile.
  bool (*run)(const uint64_t* params, uint64_t programs, const std::function<bool()>& stop);
};
// Null: there is none.
const TestKernelFunction* FindTestKernel(const std::string& entry);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_TEST_KERNELS_H_
