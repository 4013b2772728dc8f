#include "compiler/pipeline/passes.h"

#include "compiler/analysis/axis_info.h"
#include "compiler/conversion/expand_math.h"
#include "compiler/conversion/split_masked_loops.h"
#include "compiler/conversion/tile_to_loops/tile_to_loops.h"
#include "compiler/conversion/tile_to_simt/tile_to_simt.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/pipeline/cpu_pipeline.h"
#include "compiler/pipeline/nvptx_pipeline.h"
#include "compiler/transforms/gpu_transforms.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// Prints what the axis analysis knows about each block: for tests.
class PrintAxisInfo : public PassWrapper<PrintAxisInfo, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintAxisInfo)
  StringRef getArgument() const override { return "print-axis-info"; }
  StringRef getDescription() const override { return "print contiguity, divisibility and constancy of blocks"; }
  void runOnOperation() override {
    AxisInfoAnalysis axis(getOperation());
    AsmState names(getOperation());
    getOperation().walk<WalkOrder::PreOrder>([&](Operation* op) {
      for (Value result : op->getResults()) {
        if (!isa<RankedTensorType>(result.getType())) continue;
        result.printAsOperand(llvm::outs(), names);
        llvm::outs() << ": " << axis.Get(result) << "\n";
      }
    });
  }
};

}  // namespace

void RegisterPasses() {
  registerPass([] { return CreateAccumulateInDotPass(); });
  registerPass([] { return CreateContractMultiplyAddPass(); });
  registerPass([] { return CreateExpandDescriptorsPass(); });
  registerPass([] { return CreateHoistUniformIncrementsPass(); });
  registerPass([] { return CreateOrderSumsPass(); });
  registerPass([] { return CreateWidenSmallFloatsPass(); });
  registerPass([] { return CreateTileToLoopsPass(); });
  registerPass([] { return CreateReturnOnFailurePass(); });
  registerPass([] { return CreateExpandMathPass(); });
  registerPass([] { return CreateSplitMaskedLoopsPass(); });
  registerPass([] { return CreateAssignLayoutsPass(); });
  registerPass([] { return CreateExpandDotsPass(); });
  registerPass([] { return CreateTileToSimtPass(); });
  registerPass([] { return CreateAllocateSharedPass(); });
  registerPass([] { return CreateGuardAccessesPass(); });
  registerPass([] { return CreateInsertBarriersPass(); });
  registerPass([] { return CreateStageDotOperandsPass(); });
  registerPass([] { return CreateStoreInSlicesPass(); });
  registerPass([]() -> std::unique_ptr<Pass> { return std::make_unique<PrintAxisInfo>(); });
  registerPass([] { return createCanonicalizerPass(); });
  registerPass([] { return createCSEPass(); });
  registerPass([] { return createLoopInvariantCodeMotionPass(); });
  registerPass([] { return createConvertVectorToLLVMPass(); });
  registerPass([] { return createConvertSCFToCFPass(); });
  registerPass([] { return createArithToLLVMConversionPass(); });
  registerPass([] { return createConvertControlFlowToLLVMPass(); });
  registerPass([] { return createConvertFuncToLLVMPass(); });
  registerPass([] { return createReconcileUnrealizedCastsPass(); });
  PassPipelineRegistration<>("cpu-tile-passes", "the cpu target's passes over tile IR",
                             [](OpPassManager& passes) { AddCpuTilePasses(&passes); });
  PassPipelineRegistration<>("gpu-tile-passes", "the nvptx target's passes over tile IR",
                             [](OpPassManager& passes) { AddGpuTilePasses(&passes, {}); });
  PassPipelineRegistration<>("gpu-simt-passes", "tile IR with layouts to simt IR",
                             [](OpPassManager& passes) { AddGpuSimtPasses(&passes, {}); });
  PassPipelineRegistration<>("cpu-llvm-passes", "loops to the LLVM dialect",
                             [](OpPassManager& passes) { AddCpuLlvmPasses(&passes); });
}

void RegisterDialects(DialectRegistry* registry) {
  registry->insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                   scf::SCFDialect, simt::SimtDialect, tile::TileDialect, vector::VectorDialect>();
}

}  // namespace tessera::compiler
