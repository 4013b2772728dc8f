#include "compiler/conversion/tile_to_simt/tile_to_simt.h"

#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// What operations with effects need, through what loops and branches carry.
class Liveness {
 public:
  explicit Liveness(func::FuncOp function) {
    function.walk([&](Operation* op) {
      if (isa<scf::ForOp>(op)) {
        for (Value bound : op->getOperands().take_front(3)) Mark(bound);
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        Mark(branch.getCondition());
      } else if (isa<scf::WhileOp, scf::ConditionOp>(op) || (isa<scf::YieldOp>(op) && isa<scf::WhileOp>(op->getParentOp()))) {
        for (Value operand : op->getOperands()) Mark(operand);
      } else if (!isa<scf::YieldOp>(op) && !wouldOpBeTriviallyDead(op)) {
        for (Value operand : op->getOperands()) Mark(operand);
      }
    });
    while (!open_.empty()) Visit(open_.pop_back_val());
  }
  bool IsLive(Value value) const { return live_.contains(value); }

 private:
  void Mark(Value value) {
    if (live_.insert(value).second) open_.push_back(value);
  }
  void MarkCarried(scf::ForOp loop, unsigned i) {
    Mark(loop.getInitArgs()[i]);
    Mark(loop.getRegionIterArgs()[i]);
    Mark(loop.getYieldedValues()[i]);
  }
  void Visit(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (loop && argument.getArgNumber() > 0) MarkCarried(loop, argument.getArgNumber() - 1);
      return;
    }
    Operation* op = value.getDefiningOp();
    unsigned i = cast<OpResult>(value).getResultNumber();
    if (auto loop = dyn_cast<scf::ForOp>(op)) return MarkCarried(loop, i);
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Mark(branch.thenYield().getOperand(i));
      Mark(branch.elseYield().getOperand(i));
      return;
    }
    for (Value operand : op->getOperands()) Mark(operand);
  }

  llvm::DenseSet<Value> live_;
  llvm::SmallVector<Value> open_;
};

// Addresses of registers that no access uses, above all, also where a loop advances them.
void EraseDead(func::FuncOp function) {
  Liveness liveness(function);
  llvm::SmallVector<Operation*> ops;
  function.walk([&](Operation* op) { ops.push_back(op); });
  for (Operation* op : ops) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) continue;
    Operation* yield = loop.getBody()->getTerminator();
    for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
      if (!liveness.IsLive(argument)) yield->setOperand(i, argument);
  }
  for (Operation* op : llvm::reverse(ops))
    if (op->getNumRegions() == 0 && isOpTriviallyDead(op)) op->erase();
}

class TileToSimt : public PassWrapper<TileToSimt, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileToSimt)
  explicit TileToSimt(const GpuOptions& options) : options_(options) {}
  StringRef getArgument() const override { return "tile-to-simt"; }
  StringRef getDescription() const override { return "tile IR with layouts as what one thread does"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, simt::SimtDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    llvm::SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr("tile.kernel")) kernels.push_back(function);
    for (func::FuncOp source : kernels) {
      auto threads = source->getAttrOfType<IntegerAttr>("simt.threads");
      if (!threads) {
        source.emitError("assign-layouts has not run");
        return signalPassFailure();
      }
      if (!source.getBody().hasOneBlock()) {
        source.emitError("not supported on GPUs: unstructured control flow");
        return signalPassFailure();
      }
      GpuOptions options = options_;
      options.num_warps = static_cast<int>(threads.getInt() / 32);
      OpBuilder b(source);
      llvm::SmallVector<Type> arguments;
      for (Type type : source.getArgumentTypes()) arguments.push_back(isa<tile::PtrType>(type) ? b.getI64Type() : type);
      auto target = b.create<func::FuncOp>(source.getLoc(), source.getName(), b.getFunctionType(arguments, {}));
      target->setAttr("simt.kernel", b.getUnitAttr());
      target->setAttr("simt.threads", threads);
      for (unsigned i = 0; i < source.getNumArguments(); ++i) {
        target.setArgAttrs(i, source.getArgAttrDict(i));
        if (isa<tile::PtrType>(source.getArgumentTypes()[i])) target.setArgAttr(i, "simt.pointer", b.getUnitAttr());
      }
      if (failed(Emitter(source, target, options).Run())) return signalPassFailure();
      source.erase();
      EraseDead(target);
    }
  }

 private:
  GpuOptions options_;
};

}  // namespace

std::unique_ptr<Pass> CreateTileToSimtPass(const GpuOptions& options) { return std::make_unique<TileToSimt>(options); }

}  // namespace tessera::compiler
