// accumulate-in-dot: an addition to a product that started from zero starts the product there.
//
//   %p = tile.dot %a, %b, %zero, ..      (used once)
//   %s = arith.addf %x, %p
// becomes
//   %s = tile.dot %a, %b, %x, ..
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// The dot that `value` is, if it starts from zero and nothing else uses it.
tile::DotOp FreshDot(Value value) {
  auto dot = value.getDefiningOp<tile::DotOp>();
  if (!dot || !value.hasOneUse()) return nullptr;
  bool zero = matchPattern(dot.getC(), m_Zero()) || matchPattern(dot.getC(), m_AnyZeroFloat());
  return zero ? dot : nullptr;
}

class AccumulateInDot : public PassWrapper<AccumulateInDot, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AccumulateInDot)
  StringRef getArgument() const override { return "accumulate-in-dot"; }
  StringRef getDescription() const override { return "start products from the sum that they are added to"; }
  void runOnOperation() override {
    llvm::SmallVector<Operation*> sums;
    getOperation().walk([&](Operation* op) {
      if (isa<arith::AddFOp, arith::AddIOp>(op)) sums.push_back(op);
    });
    for (Operation* sum : sums) {
      Value other = sum->getOperand(0);
      tile::DotOp dot = FreshDot(sum->getOperand(1));
      if (!dot) {
        dot = FreshDot(sum->getOperand(0));
        other = sum->getOperand(1);
      }
      if (!dot || dot->getBlock() != sum->getBlock()) continue;
      dot->moveBefore(sum);
      dot.getCMutable().assign(other);
      sum->getResult(0).replaceAllUsesWith(dot.getResult());
      sum->erase();
    }
  }
};

}  // namespace

std::unique_ptr<Pass> CreateAccumulateInDotPass() { return std::make_unique<AccumulateInDot>(); }

}  // namespace tessera::compiler
