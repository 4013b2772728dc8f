// Tile IR to the interpreter's internal program.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/target/interpreter/program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::interpreter {

// Calls are expanded in place. UNIMPLEMENTED: an operation that the interpreter does not know, with its place.
absl::StatusOr<Program> BuildProgram(mlir::func::FuncOp kernel);

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_
