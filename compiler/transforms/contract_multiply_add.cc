// contract-multiply-add: a product that is added to or subtracted from something is fused with it, as a GPU does.
//
//   %p = arith.mulf %a, %b
//   %s = arith.addf %p, %c
// becomes
//   %s = math.fma %a, %b, %c
//
// In fp32 and fp64, also where the product has other uses. Of two products the one with fewer uses is fused, the left one
// where they have as many; that is LLVM's choice for NVPTX. Functions with "tile.no_fp_fusion" are left alone.
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

class ContractMultiplyAdd : public PassWrapper<ContractMultiplyAdd, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ContractMultiplyAdd)
  StringRef getArgument() const override { return "contract-multiply-add"; }
  StringRef getDescription() const override { return "fuse products with sums"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<math::MathDialect>(); }

  void runOnOperation() override {
    if (getOperation()->hasAttr("tile.no_fp_fusion")) return;
    llvm::SmallVector<Operation*> sums;
    getOperation().walk([&](Operation* op) {
      if (!isa<arith::AddFOp, arith::SubFOp>(op)) return;
      Type element = getElementTypeOrSelf(op->getResult(0).getType());
      if (element.isF32() || element.isF64()) sums.push_back(op);
    });
    for (Operation* sum : sums) Contract(sum);
  }

 private:
  static size_t Uses(arith::MulFOp product) { return std::distance(product->use_begin(), product->use_end()); }

  static void Contract(Operation* sum) {
    auto left = sum->getOperand(0).getDefiningOp<arith::MulFOp>(), right = sum->getOperand(1).getDefiningOp<arith::MulFOp>();
    if (!left && !right) return;
    bool fuse_left = left && !(right && Uses(left) > Uses(right));
    arith::MulFOp product = fuse_left ? left : right;
    Value other = sum->getOperand(fuse_left ? 1 : 0), factor = product.getLhs();
    OpBuilder builder(sum);
    if (isa<arith::SubFOp>(sum)) {
      if (fuse_left) other = builder.create<arith::NegFOp>(sum->getLoc(), other);
      else factor = builder.create<arith::NegFOp>(sum->getLoc(), factor);
    }
    Value fused = builder.create<math::FmaOp>(sum->getLoc(), factor, product.getRhs(), other);
    sum->getResult(0).replaceAllUsesWith(fused);
    sum->erase();
    if (product->use_empty()) product->erase();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateContractMultiplyAddPass() { return std::make_unique<ContractMultiplyAdd>(); }

}  // namespace tessera::compiler
