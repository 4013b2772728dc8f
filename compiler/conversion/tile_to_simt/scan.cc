#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

mlir::LogicalResult Emitter::EmitScan(tile::ScanOp op) { return op.emitError("not supported on GPUs yet: scans"); }

}  // namespace tessera::compiler
