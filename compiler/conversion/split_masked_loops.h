// Loops over lanes that a bound masks -> a loop without masks and the rest.
#ifndef TESSERA_COMPILER_CONVERSION_SPLIT_MASKED_LOOPS_H_
#define TESSERA_COMPILER_CONVERSION_SPLIT_MASKED_LOOPS_H_

#include <memory>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

// `split-masked-loops`, a pass over functions of loops and vectors (what tile_to_loops makes).
std::unique_ptr<mlir::Pass> CreateSplitMaskedLoopsPass();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_SPLIT_MASKED_LOOPS_H_
