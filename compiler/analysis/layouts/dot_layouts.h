// The layouts in which a product runs: the place to add a matrix unit.
#ifndef TESSERA_COMPILER_ANALYSIS_LAYOUTS_DOT_LAYOUTS_H_
#define TESSERA_COMPILER_ANALYSIS_LAYOUTS_DOT_LAYOUTS_H_

#include "compiler/analysis/layouts/layout_plan.h"

namespace tessera::compiler {

// Multiply-add by multiply-add: each thread owns a small square of the accumulator, operands are read from shared memory.
DotLayouts FmaDotLayouts(tile::DotOp dot, const GpuOptions& options);

// The layouts for a product on the GPU of `options`.
DotLayouts ChooseDotLayouts(tile::DotOp dot, const GpuOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LAYOUTS_DOT_LAYOUTS_H_
