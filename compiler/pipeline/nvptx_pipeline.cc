#include "compiler/pipeline/nvptx_pipeline.h"

#include "compiler/conversion/tile_to_simt/tile_to_simt.h"
#include "compiler/transforms/gpu_transforms.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {

void AddGpuTilePasses(mlir::OpPassManager* passes, const GpuOptions& options) {
  passes->addNestedPass<mlir::func::FuncOp>(CreateExpandDescriptorsPass());
  passes->addPass(mlir::createCanonicalizerPass());
  passes->addPass(mlir::createCSEPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateAccumulateInDotPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateStoreInSlicesPass(options));
  passes->addPass(mlir::createLoopInvariantCodeMotionPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateExpandDotsPass(options));
  passes->addNestedPass<mlir::func::FuncOp>(CreateAssignLayoutsPass(options));
  passes->addNestedPass<mlir::func::FuncOp>(CreateStageDotOperandsPass(options));
  passes->addPass(mlir::createCSEPass());
}

void AddGpuSimtPasses(mlir::OpPassManager* passes, const GpuOptions& options) {
  passes->addPass(CreateTileToSimtPass(options));
  if (options.guarded) passes->addNestedPass<mlir::func::FuncOp>(CreateGuardAccessesPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateAllocateSharedPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateInsertBarriersPass());
}

}  // namespace tessera::compiler
