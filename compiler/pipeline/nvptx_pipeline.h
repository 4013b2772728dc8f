// The order of passes for NVIDIA GPUs, up to the simt dialect.
#ifndef TESSERA_COMPILER_PIPELINE_NVPTX_PIPELINE_H_
#define TESSERA_COMPILER_PIPELINE_NVPTX_PIPELINE_H_

#include "compiler/analysis/layouts/gpu_options.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {

// Tile IR -> tile IR with layouts (stage tile_gpu).
void AddGpuTilePasses(mlir::OpPassManager* passes, const GpuOptions& options);

// Tile IR with layouts -> simt IR with shared memory allocated and barriers in place (stage simt).
void AddGpuSimtPasses(mlir::OpPassManager* passes, const GpuOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_PIPELINE_NVPTX_PIPELINE_H_
