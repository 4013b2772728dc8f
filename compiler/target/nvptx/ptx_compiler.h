// LLVM IR for NVIDIA GPUs -> PTX text.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_PTX_COMPILER_H_
#define TESSERA_COMPILER_TARGET_NVPTX_PTX_COMPILER_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/nvptx/gpu_arch.h"

namespace llvm {
class Module;
}

namespace tessera::compiler {

struct PtxOptions {
  GpuArch arch;
  bool has_library = false;  // libdevice functions were linked in: they are inlined
  bool want_llvm = false;    // text of the optimised LLVM IR
};

struct Ptx {
  std::string text, llvm;
  double optimize_seconds = 0, codegen_seconds = 0;
};

// Optimises and generates code; changes `module`. Deterministic. INTERNAL: LLVM has no code for something.
absl::StatusOr<Ptx> CompilePtx(llvm::Module& module, const PtxOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_PTX_COMPILER_H_
