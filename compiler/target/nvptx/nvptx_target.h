// simt IR -> a cubin.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_NVPTX_TARGET_H_
#define TESSERA_COMPILER_TARGET_NVPTX_NVPTX_TARGET_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/conversion/simt_to_nvvm/simt_to_nvvm.h"
#include "compiler/target/nvptx/gpu_arch.h"
#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler {

struct NvptxOptions {
  GpuArch arch;
  bool fp_fusion = true;
  int max_registers = 0;           // 0: the assembler decides
  std::vector<std::string> emit;   // "llvm", "ptx"; other names are ignored
  bool assemble = true;            // false: stop at PTX
};

struct GpuCode {
  std::string cubin;
  std::string ptx;
  std::string entry_symbol;
  int threads = 0;  // of a block
  int shared_bytes = 0, registers = 0, spill_bytes = 0, local_bytes = 0;
  std::vector<ReportMessage> messages;
  std::string assembler;
  std::vector<std::string> warnings;  // of the assembler: serialised wgmma, say
  std::map<std::string, std::string> stages;
  std::vector<std::pair<std::string, double>> stage_seconds;  // nvvm, llvm, ptx, cubin
};

// Compiles the kernel of `module`, which is changed on the way.
// RESOURCE_EXHAUSTED: more shared memory or threads than a block can have on this GPU; the message has both numbers.
// UNIMPLEMENTED, FAILED_PRECONDITION, INTERNAL: as SimtToNvvm, LinkLibdevice and Assemble say.
absl::StatusOr<GpuCode> CompileSimt(mlir::ModuleOp module, const NvptxOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_NVPTX_TARGET_H_
