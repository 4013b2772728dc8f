// tile-to-simt: tile IR with layouts -> what one thread of the block does.
//
// Every tensor value becomes one scalar for each register of its layout; scf values that carry tensors carry those scalars.
// Assumes that assign-layouts ran. Shared memory is left without offsets and without barriers: allocate-shared and
// insert-barriers follow.
#ifndef TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_TILE_TO_SIMT_H_
#define TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_TILE_TO_SIMT_H_

#include <memory>

#include "compiler/analysis/layouts/gpu_options.h"
#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> CreateTileToSimtPass(const GpuOptions& options = {});

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_TILE_TO_SIMT_H_
