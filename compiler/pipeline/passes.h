// Registers every pass of the compiler under its command-line name, for tessera-opt.
#ifndef TESSERA_COMPILER_PIPELINE_PASSES_H_
#define TESSERA_COMPILER_PIPELINE_PASSES_H_

#include "mlir/IR/DialectRegistry.h"

namespace tessera::compiler {

// Passes by name: our own, and upstream's canonicalize, cse and the conversions that the pipelines use. Pipelines by
// name: tile-to-llvm-cpu. Call once a process.
void RegisterPasses();

// The dialects that passes and textual IR may use.
void RegisterDialects(mlir::DialectRegistry* registry);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_PIPELINE_PASSES_H_
