// The GPUs that we compile for: names, features, limits (CUDA programming guide, "Compute Capabilities").
#ifndef TESSERA_COMPILER_TARGET_NVPTX_GPU_ARCH_H_
#define TESSERA_COMPILER_TARGET_NVPTX_GPU_ARCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::compiler {

struct GpuArch {
  std::string name;      // CompileJob.target: "sm_90a"
  int sm = 0;            // 90
  bool wgmma = false;    // wgmma instructions (sm_90a alone)
  std::string llvm_cpu;  // what LLVM generates PTX for; its PTX is then assembled for `name`
  // Replace the header of the PTX where LLVM 19 does not know the GPU; empty: as LLVM wrote it.
  std::string ptx_target, ptx_version;

  int block_shared_bytes = 0;  // dynamic shared memory of one block, with the opt-in
  int sm_shared_bytes = 0;     // of a multiprocessor; each resident block takes reserved_shared_bytes on top
  int sm_threads = 0, sm_blocks = 0;
  static constexpr int kReservedSharedBytes = 1024;
  static constexpr int kSmRegisters = 65536, kThreadRegisters = 255, kRegisterUnit = 256;  // unit: registers a warp

  bool HasFp8Conversions() const { return sm >= 89; }
  bool HasBf16Atomics() const { return sm >= 90; }
  bool HasVectorAtomics() const { return sm >= 90; }
  bool HasStmatrix() const { return sm >= 90; }
};

// INVALID_ARGUMENT: not a GPU that we know; the message lists those there are.
absl::StatusOr<GpuArch> ParseGpuArch(absl::string_view target);

// Resident blocks of `threads` threads, each with `registers` registers, and `shared_bytes` a block, on one
// multiprocessor. 0: it does not fit at all.
struct Occupancy {
  int blocks = 0;
  int warps = 0;      // resident
  int max_warps = 0;  // the multiprocessor's limit
  std::string limit;  // "registers", "shared memory", "threads", "blocks": what is exhausted first
};
Occupancy ComputeOccupancy(const GpuArch& arch, int threads, int registers, int shared_bytes);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_GPU_ARCH_H_
