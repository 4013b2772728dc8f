// Operations that need a whole block at once, in shared memory.
#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

using namespace mlir;

LogicalResult Emitter::EmitGather(tile::GatherOp op) { return op.emitError("not supported on GPUs yet: gather"); }
LogicalResult Emitter::EmitHistogram(tile::HistogramOp op) { return op.emitError("not supported on GPUs yet: histogram"); }
LogicalResult Emitter::EmitSort(tile::SortOp op) { return op.emitError("not supported on GPUs yet: sort"); }

}  // namespace tessera::compiler
