// simt IR -> LLVM IR for NVIDIA GPUs (NVVM intrinsics, inline PTX), in one walk.
//
// LLVM IR is built directly, without the LLVM dialect between: kernels are long straight lines of scalar operations,
// and each more pass over them costs compile time that a user waits for.
#ifndef TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_SIMT_TO_NVVM_H_
#define TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_SIMT_TO_NVVM_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/target/nvptx/gpu_arch.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::compiler {

struct NvvmOptions {
  GpuArch arch;
  int max_registers = 0;  // .maxnreg; 0: the assembler decides
  bool contract_fp = true;  // a * b + c may become one fused multiply-add
  bool line_info = true;
};

// A line of KernelMetadata.report_messages: what a GpuLaunchReport's index stands for.
struct ReportMessage {
  std::string text;  // the assertion's message, or the prefix of a print
  std::string kind;  // of a print: short dtype name, or "x8" .. "x64" for hexadecimal; of blocks with their extents, "i32[4,8]"
  std::string where; // "file:line" of the operation
  int operand = 0;   // of a print: index of the printed operand
};

struct NvvmModule {
  std::unique_ptr<llvm::Module> module;
  std::string entry_symbol;
  int threads = 0;
  int shared_bytes = 0;
  std::vector<ReportMessage> messages;
  std::set<std::string> libdevice_symbols;  // declared, not defined
};

// Translates the one function of `module` that carries "simt.kernel". The entry has one parameter for each argument,
// at its natural size, then one of 8 bytes: the device address of a GpuLaunchReport (base/kernel_abi.h).
// The module is changed: conversions that the GPU lacks are spelled out in it.
// UNIMPLEMENTED: an operation that this target does not have, named with its source line. INTERNAL: a defect of ours.
absl::StatusOr<NvvmModule> SimtToNvvm(mlir::ModuleOp module, const NvvmOptions& options, llvm::LLVMContext& context);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_SIMT_TO_NVVM_SIMT_TO_NVVM_H_
