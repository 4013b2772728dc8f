#include "compiler/pipeline/cpu_pipeline.h"

#include "compiler/conversion/expand_math.h"
#include "compiler/conversion/split_masked_loops.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {

void AddCpuTilePasses(mlir::OpPassManager* passes) {
  passes->addNestedPass<mlir::func::FuncOp>(CreateExpandDescriptorsPass());
  passes->addPass(mlir::createCanonicalizerPass());
  passes->addPass(mlir::createCSEPass());
  // Products fold their sums before rounding splits them.
  passes->addNestedPass<mlir::func::FuncOp>(CreateAccumulateInDotPass());
  // Larger sums of fp32 keep the order that vectors of this machine like.
  OrderSumsOptions ordered;
  ordered.most_elements = 512;
  ordered.most_small_elements = 8192;
  passes->addNestedPass<mlir::func::FuncOp>(CreateOrderSumsPass(ordered));
  passes->addNestedPass<mlir::func::FuncOp>(CreateWidenSmallFloatsPass());
  // Hoisting of increments wants invariant amounts outside of loops.
  passes->addPass(mlir::createLoopInvariantCodeMotionPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateHoistUniformIncrementsPass());
  passes->addPass(mlir::createCanonicalizerPass());
  passes->addPass(mlir::createCSEPass());
}

void AddCpuLoopPasses(mlir::OpPassManager* passes, const CodegenTarget& target, bool want_plan, TileToLoopsResult* result) {
  passes->addPass(CreateTileToLoopsPass(target, want_plan, result));
  passes->addPass(mlir::createCSEPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateSplitMaskedLoopsPass());
}

void AddCpuLlvmPasses(mlir::OpPassManager* passes) {
  passes->addPass(CreateExpandMathPass());
  passes->addPass(mlir::createConvertVectorToLLVMPass());
  passes->addPass(mlir::createConvertSCFToCFPass());
  passes->addNestedPass<mlir::func::FuncOp>(CreateReturnOnFailurePass());
  passes->addPass(mlir::createArithToLLVMConversionPass());
  passes->addPass(mlir::createConvertControlFlowToLLVMPass());
  passes->addPass(mlir::createConvertFuncToLLVMPass());
  passes->addPass(mlir::createReconcileUnrealizedCastsPass());
}

}  // namespace tessera::compiler
