// Tile IR -> a relocatable object whose entry has the ABI of base/kernel_abi.h.
#ifndef TESSERA_COMPILER_TARGET_CPU_CPU_TARGET_H_
#define TESSERA_COMPILER_TARGET_CPU_CPU_TARGET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace tessera::compiler {

struct CpuTargetOptions {
  // CompileJob.cpu_features: "name:features". Empty: the CPU this process runs on.
  std::string cpu_features;
  // LaunchOptions.enable_fp_fusion: a * b + c may be rounded once.
  bool fp_fusion = true;
  // Stages whose text is wanted, any of: "tile_cpu" (tile IR after the target's own passes), "plan" (what is kept in
  // memory, and where), "loops" (scf, vector), "llvm_dialect", "llvm", "asm". Names that are not the target's are ignored.
  std::vector<std::string> emit;
  // Texts that take the place of stages: "tile_cpu", "loops", "llvm_dialect", "llvm", "asm". Those after it are made from it.
  std::map<std::string, std::string> override_stages;
};

struct CpuObject {
  std::string object;           // relocatable ELF
  std::string entry_symbol;     // a KernelEntry
  uint64_t scratch_bytes = 0;   // one KernelContext.scratch; may be 0
  uint32_t scratch_align = 64;
  std::map<std::string, std::string> stages;  // as CpuTargetOptions.emit asked
  std::vector<std::pair<std::string, double>> stage_seconds;
};

// Registers the dialects that CompileForCpu makes operations of. Call it on the registry of a context before use.
void RegisterCpuTargetDialects(mlir::DialectRegistry* registry);

// Compiles the one function of `module` that carries "tile.kernel"; the module is consumed (rewritten in place).
// INVALID_ARGUMENT: a cpu_features text that cannot be read, an override that does not parse. UNIMPLEMENTED: an operation that this target does not
// have, named with its source line. RESOURCE_EXHAUSTED: scratch memory beyond 1 GiB. INTERNAL: a defect of ours.
absl::StatusOr<CpuObject> CompileForCpu(mlir::ModuleOp module, const CpuTargetOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_CPU_CPU_TARGET_H_
