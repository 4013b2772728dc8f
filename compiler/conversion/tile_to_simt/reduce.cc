#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

mlir::LogicalResult Emitter::EmitReduce(tile::ReduceOp op) { return op.emitError("not supported on GPUs yet: reductions"); }

}  // namespace tessera::compiler
