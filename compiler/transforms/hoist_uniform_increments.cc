// hoist-uniform-increments: blocks that only advance through a loop become a scalar that advances.
//
// Assumes loop-invariant code was moved out of loops. A tensor carried by scf.for and yielded as itself plus
// loop-invariant amounts (tile.addptr, arith.addi) is recomputed in each iteration from its first value: pointer blocks
// are then index arithmetic, which targets fuse into their loads, and not data.
//
//   %r = scf.for %k = .. iter_args(%p = %init) -> (tensor<64x!tile.ptr<f32>>) {
//     .. use(%p) ..
//     %next = tile.addptr %p, %step : tensor<64x!tile.ptr<f32>>, tensor<64xi32>   // %step = splat(%s)
//     scf.yield %next
//   }
// becomes
//   %n = scf.for %k = .. iter_args(%advance = %zero) -> (i64) {
//     %p = tile.addptr %init, splat(%advance)
//     .. use(%p) ..
//     scf.yield %advance + extsi(%s)
//   }
// An amount that differs between lanes is multiplied by a carried count of iterations instead.
#include <optional>

#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// How a carried tensor advances: the amounts added in one iteration, each defined outside the loop.
struct Advance {
  unsigned index;  // of the iter_arg
  llvm::SmallVector<Value, 2> amounts;
};

std::optional<Advance> FindAdvance(scf::ForOp loop, unsigned index) {
  Value argument = loop.getRegionIterArgs()[index];
  if (!isa<RankedTensorType>(argument.getType())) return std::nullopt;
  Advance advance{index, {}};
  Value value = loop.getYieldedValues()[index];
  while (value != argument) {
    Operation* op = value.getDefiningOp();
    if (!op || !isa<tile::AddPtrOp, arith::AddIOp>(op)) return std::nullopt;
    Value base = op->getOperand(0), amount = op->getOperand(1);
    if (isa<arith::AddIOp>(op) && loop.isDefinedOutsideOfLoop(base)) std::swap(base, amount);
    if (!loop.isDefinedOutsideOfLoop(amount)) return std::nullopt;
    advance.amounts.push_back(amount);
    value = base;
  }
  if (advance.amounts.empty()) return std::nullopt;
  return advance;
}

// The one value of all lanes, or null.
Value UniformScalar(OpBuilder& builder, Location loc, Value tensor) {
  if (auto splat = tensor.getDefiningOp<tile::SplatOp>()) return splat.getSource();
  Attribute attr;
  if (matchPattern(tensor, m_Constant(&attr)))
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      return builder.create<arith::ConstantOp>(loc, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
  return nullptr;
}

Value WidenTo(OpBuilder& builder, Location loc, Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()) == element) return value;
  Type type = element;
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType())) type = tensor.clone(element);
  return builder.create<arith::ExtSIOp>(loc, type, value);
}

class HoistUniformIncrements : public PassWrapper<HoistUniformIncrements, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoistUniformIncrements)
  StringRef getArgument() const override { return "hoist-uniform-increments"; }
  StringRef getDescription() const override { return "carry scalars in place of blocks that only advance"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, scf::SCFDialect, tile::TileDialect>();
  }

  void runOnOperation() override {
    llvm::SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) Rewrite(loop);
  }

 private:
  static void Rewrite(scf::ForOp loop) {
    llvm::SmallVector<Advance> advances;
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      if (auto advance = FindAdvance(loop, i)) advances.push_back(*advance);
    if (advances.empty()) return;

    IRRewriter rewriter(loop.getContext());
    Location loc = loop.getLoc();
    // One carried integer for each advance: the sum of the scalars so far, or the number of iterations.
    llvm::SmallVector<Value> steps, starts;
    llvm::SmallVector<bool> uniform;
    rewriter.setInsertionPoint(loop);
    for (const Advance& advance : advances) {
      Type tensor = loop.getRegionIterArgs()[advance.index].getType();
      Type element = getElementTypeOrSelf(tensor);
      Type counter = isa<tile::PtrType>(element) ? rewriter.getI64Type() : element;
      Value step;
      bool all_uniform = true;
      for (Value amount : advance.amounts) {
        Value scalar = UniformScalar(rewriter, loc, amount);
        if (!scalar) {
          all_uniform = false;
          break;
        }
        scalar = WidenTo(rewriter, loc, scalar, counter);
        step = step ? rewriter.createOrFold<arith::AddIOp>(loc, step, scalar) : scalar;
      }
      if (!all_uniform) step = rewriter.create<arith::ConstantOp>(loc, rewriter.getIntegerAttr(counter, 1));
      steps.push_back(step);
      uniform.push_back(all_uniform);
      starts.push_back(rewriter.create<arith::ConstantOp>(loc, rewriter.getIntegerAttr(counter, 0)));
    }
    auto yields = [&](OpBuilder& builder, Location yield_loc, ArrayRef<BlockArgument> counters) {
      llvm::SmallVector<Value> next;
      for (auto [counter, step] : llvm::zip(counters, steps))
        next.push_back(builder.create<arith::AddIOp>(yield_loc, counter, step));
      return next;
    };
    unsigned first = loop.getNumRegionIterArgs();
    auto replaced = loop.replaceWithAdditionalYields(rewriter, starts, /*replaceInitOperandUsesInLoop=*/false, yields);
    auto wide = cast<scf::ForOp>(replaced->getOperation());

    auto yield = cast<scf::YieldOp>(wide.getBody()->getTerminator());
    for (auto [i, advance] : llvm::enumerate(advances)) {
      BlockArgument argument = wide.getRegionIterArgs()[advance.index];
      rewriter.setInsertionPointToStart(wide.getBody());
      Value now = Advanced(rewriter, loc, wide.getInitArgs()[advance.index], advance, uniform[i],
                           wide.getRegionIterArgs()[first + i]);
      yield->setOperand(advance.index, argument);
      argument.replaceAllUsesExcept(now, yield);
      Value result = wide.getResult(advance.index);
      if (result.use_empty()) continue;
      rewriter.setInsertionPointAfter(wide);
      Value last = Advanced(rewriter, loc, wide.getInitArgs()[advance.index], advance, uniform[i],
                            wide.getResult(first + i));
      result.replaceAllUsesWith(last);
    }
  }

  // `start` after as many steps as `counter` says.
  static Value Advanced(OpBuilder& builder, Location loc, Value start, const Advance& advance, bool uniform,
                        Value counter) {
    auto tensor = cast<RankedTensorType>(start.getType());
    auto counters = tensor.clone(counter.getType());
    Value distance = builder.create<tile::SplatOp>(loc, counters, counter);
    if (!uniform) {
      Value amount;
      for (Value one : advance.amounts) {
        one = WidenTo(builder, loc, one, counter.getType());
        amount = amount ? builder.create<arith::AddIOp>(loc, amount, one).getResult() : one;
      }
      distance = builder.create<arith::MulIOp>(loc, distance, amount);
    }
    if (isa<tile::PtrType>(tensor.getElementType()))
      return builder.create<tile::AddPtrOp>(loc, start, distance);
    return builder.create<arith::AddIOp>(loc, start, distance);
  }
};

}  // namespace

std::unique_ptr<Pass> CreateHoistUniformIncrementsPass() { return std::make_unique<HoistUniformIncrements>(); }

}  // namespace tessera::compiler
