// Type-checks one variant of a kernel and emits it as tile IR.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_EMIT_TILE_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_EMIT_TILE_H_

#include <vector>

#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/module/module_index.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::frontend {

// Emits `job.kernel` of the module behind `index`, specialised as `job.parameters` says.
//
// The result holds one func.func, named as the kernel, with the unit attribute "tile.kernel", the dialects tile, arith,
// math and scf in its body, and a file:line:column location on every operation. Its arguments are the runtime
// parameters in order (tuples and tensor descriptors flattened; constants, None and `equals_one` integers gone) and
// `parameters` describes them one by one. Inside a descriptor EntryParameter.path is {0} for the base (16-byte aligned),
// {1, i} for extent i (i32) and {2, i} for stride i (i64, in elements, a multiple of 16 bytes); the last stride is 1
// and no argument.
//
// Null: `diagnostics` got at least one error. Warnings may be there on success too. Loads the dialects it needs
// into `context`. Bounded: limits on unrolled steps, depth of calls, operations and block size end a runaway with an error.
mlir::OwningOpRef<mlir::ModuleOp> EmitTile(const ModuleIndex& index, const storage::CompileJob& job,
                                           mlir::MLIRContext& context, Diagnostics* diagnostics,
                                           std::vector<storage::EntryParameter>* parameters);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_EMIT_TILE_H_
