// The order of passes for the cpu target.
#ifndef TESSERA_COMPILER_PIPELINE_CPU_PIPELINE_H_
#define TESSERA_COMPILER_PIPELINE_CPU_PIPELINE_H_

#include "compiler/conversion/tile_to_loops/tile_to_loops.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {

// Tile IR -> tile IR ready for tile-to-loops.
void AddCpuTilePasses(mlir::OpPassManager* passes);

// Tile IR -> loops, vectors and scalars in the entry function.
void AddCpuLoopPasses(mlir::OpPassManager* passes, const CodegenTarget& target, bool want_plan = false,
                      TileToLoopsResult* result = nullptr);

// Loops -> the LLVM dialect.
void AddCpuLlvmPasses(mlir::OpPassManager* passes);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_PIPELINE_CPU_PIPELINE_H_
