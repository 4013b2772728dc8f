// An MLIR module in the LLVM dialect -> an optimised relocatable ELF object for one exact CPU.
#ifndef TESSERA_COMPILER_TARGET_CPU_OBJECT_COMPILER_H_
#define TESSERA_COMPILER_TARGET_CPU_OBJECT_COMPILER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace tessera::compiler {

// A CPU as LLVM names it. Its text form, CompileJob.cpu_features, is "name:features", for example
// "znver4:+avx,+avx2,-amx-tile"; features are sorted by name, so that equal CPUs have equal texts.
struct CpuDescription {
  std::string name;
  std::string features;  // "+a,-b": comma separated, each with its sign

  std::string ToString() const { return name + ":" + features; }
  // Whether `feature` ("avx512f", "avx2", "fma", "neon") is switched on.
  bool Has(absl::string_view feature) const;
  // Bits of the vectors that code should use: 512, 256 or 128.
  int VectorBits() const;
};

// The CPU this process runs on.
CpuDescription DetectHostCpu();

// Reads "name:features". INVALID_ARGUMENT: not of that form, or a CPU this build of LLVM cannot name.
absl::StatusOr<CpuDescription> ParseCpuDescription(absl::string_view text);

struct ObjectOptions {
  CpuDescription cpu;
  // a * b + c may become one fused multiply-add, also across operations (LaunchOptions.enable_fp_fusion).
  bool contract_fp = true;
  bool want_llvm = false;  // text of the optimised LLVM IR
  bool want_asm = false;   // text of the assembly
  // Not empty: takes the place of the optimised LLVM IR, or of the assembly.
  std::string replace_llvm, replace_asm;
};

struct CompiledObject {
  std::string object;  // relocatable ELF, position independent
  std::string llvm;    // empty unless asked for
  std::string assembly;
  double optimize_seconds = 0;
  double codegen_seconds = 0;
};

// Registers what the translation of `module` to LLVM IR needs (builtin and LLVM dialects). Call it on the registry of
// the context before modules are compiled.
void RegisterObjectCompilerDialects(mlir::DialectRegistry* registry);

// Compiles `module`, whose ops are all of the LLVM dialect. Function attributes of the module are kept; the CPU, its
// features and the preferred vector width are set here. Deterministic: equal modules and options give equal bytes.
// Thread-safe for modules of different contexts.
// INVALID_ARGUMENT: the module does not translate, or a text that replaces a stage is wrong. INTERNAL: LLVM has no code for it.
absl::StatusOr<CompiledObject> CompileObject(mlir::ModuleOp module, const ObjectOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_CPU_OBJECT_COMPILER_H_
