#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

mlir::LogicalResult Emitter::EmitDot(tile::DotOp op) { return op.emitError("not supported on GPUs yet: products"); }

}  // namespace tessera::compiler
