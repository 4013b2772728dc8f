#include "compiler/conversion/tile_to_loops/tile_to_loops.h"

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/materialisation_plan.h"
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "base/kernel_abi.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

class TileToLoops : public PassWrapper<TileToLoops, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileToLoops)
  TileToLoops() = default;
  TileToLoops(const CodegenTarget& target, bool want_plan, TileToLoopsResult* result)
      : target_(target), want_plan_(want_plan), result_(result) {}
  TileToLoops(const TileToLoops& other)
      : PassWrapper(other), target_(other.target_), want_plan_(other.want_plan_), result_(other.result_) {}

  StringRef getArgument() const override { return "tile-to-loops"; }
  StringRef getDescription() const override { return "kernels as loops over vectors, with the ABI of the CPU device"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                    scf::SCFDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    CodegenTarget target = target_;
    if (bits_option_.getNumOccurrences()) target.vector_bits = bits_option_;
    if (masks_option_.getNumOccurrences()) target.native_masks = target.wide_masks = masks_option_;
    if (fma_option_.getNumOccurrences()) target.fma = fma_option_;
    func::FuncOp kernel;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr("tile.kernel")) kernel = function;
    if (!kernel) {
      getOperation().emitError("no function carries tile.kernel");
      return signalPassFailure();
    }
    NameGatherSources(kernel);
    AxisInfoAnalysis axis(kernel);
    MaterialisationPlan plan(kernel, axis, target.vector_bits);
    if (print_option_) plan.Print(llvm::outs());
    if (want_plan_ && result_) {
      llvm::raw_string_ostream out(result_->plan_text);
      plan.Print(out);
    }
    std::string entry = ("tessera_entry_" + kernel.getName()).str();
    if (failed(KernelEmitter(kernel, plan, axis, target).Emit(entry))) return signalPassFailure();
    kernel.erase();
    if (result_) {
      result_->entry_symbol = entry;
      result_->scratch_bytes = plan.scratch_bytes();
    }
  }

 private:
  // What is gathered from is kept in memory, and only operations of one result can be.
  static void NameGatherSources(func::FuncOp kernel) {
    kernel.walk([](tile::GatherOp gather) {
      if (!gather.getSource().getDefiningOp<tile::SplitOp>()) return;
      OpBuilder builder(gather);
      gather.getSourceMutable().assign(builder.create<tile::HintOp>(gather.getLoc(), gather.getSource().getType(), gather.getSource(),
                                                                    nullptr, nullptr, nullptr));
    });
  }

  CodegenTarget target_;
  bool want_plan_ = false;
  TileToLoopsResult* result_ = nullptr;
  Option<int> bits_option_{*this, "vector-bits", llvm::cl::desc("size of vector registers")};
  Option<bool> masks_option_{*this, "native-masks", llvm::cl::desc("masked accesses are instructions")};
  Option<bool> fma_option_{*this, "fma", llvm::cl::desc("multiply-add is an instruction")};
  Option<bool> print_option_{*this, "print-plan", llvm::cl::desc("print the materialisation plan"), llvm::cl::init(false)};
};

// A failing check stores its message in the context and leaves the function.
class ReturnOnFailure : public PassWrapper<ReturnOnFailure, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReturnOnFailure)
  StringRef getArgument() const override { return "return-on-failure"; }
  StringRef getDescription() const override { return "failing checks of kernels return to the host"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<cf::ControlFlowDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    llvm::SmallVector<cf::AssertOp> checks;
    getOperation().walk([&](cf::AssertOp check) { checks.push_back(check); });
    int number = 0;
    for (cf::AssertOp check : checks) Rewrite(check, number++);
  }

 private:
  void Rewrite(cf::AssertOp check, int number) {
    func::FuncOp function = getOperation();
    Location loc = check.getLoc();
    OpBuilder builder(check);
    auto ptr = LLVM::LLVMPointerType::get(&getContext());
    std::string text = check.getMsg().str();
    text.push_back('\0');
    std::string name = "tessera_failure_" + std::to_string(number);
    OpBuilder at_top(function);
    at_top.create<LLVM::GlobalOp>(loc, LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()), true,
                                  LLVM::Linkage::Internal, name, builder.getStringAttr(text));
    Block* block = check->getBlock();
    Block* rest = block->splitBlock(check->getNextNode());
    Block* fail = builder.createBlock(&function.getBody(), function.getBody().end());
    Value context = function.getArgument(4);
    auto field = [&](int64_t offset) -> Value {
      return builder.create<LLVM::GEPOp>(loc, ptr, builder.getI8Type(), context, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(offset))});
    };
    Value message = builder.create<LLVM::AddressOfOp>(loc, ptr, name);
    builder.create<LLVM::StoreOp>(loc, message, field(offsetof(KernelContext, failure_message)));
    Value one = builder.create<LLVM::ConstantOp>(loc, builder.getI64Type(), builder.getI64IntegerAttr(1));
    builder.create<LLVM::StoreOp>(loc, one, field(offsetof(KernelContext, failed)));
    builder.create<func::ReturnOp>(loc);
    builder.setInsertionPoint(check);
    builder.create<cf::CondBranchOp>(loc, check.getArg(), rest, ValueRange(), fail, ValueRange());
    check.erase();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateTileToLoopsPass(const CodegenTarget& target, bool want_plan, TileToLoopsResult* result) {
  return std::make_unique<TileToLoops>(target, want_plan, result);
}
std::unique_ptr<Pass> CreateTileToLoopsPass() { return std::make_unique<TileToLoops>(); }
std::unique_ptr<Pass> CreateReturnOnFailurePass() { return std::make_unique<ReturnOnFailure>(); }

}  // namespace tessera::compiler
