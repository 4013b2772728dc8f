// split-masked-loops: innermost loops run without masks as far as all lanes are inside a bound.
//
// Assumes scf.for with constant bounds over lanes, as tile_to_loops makes them. A comparison `base + iv + lane < bound`,
// whose base and bound the loop does not change, is true for all lanes up to some iteration: there the loop is split.
//
//   scf.for %i = %c0 to %c1024 step %c16 {
//     %mask = arith.cmpi slt, broadcast(trunci(%i)) + <0, 1, .., 15>, broadcast(%n) : vector<16xi32>
//     .. masked load, masked store with %mask ..
//   }
// becomes
//   %split = ..                                  // 0 .. 1024, a multiple of 16, at most %n
//   scf.for %i = %c0 to %split step %c16 { .. with <true, .., true> for %mask .. }
//   scf.for %i = %split to %c1024 step %c16 { .. as before .. }
#include "compiler/conversion/split_masked_loops.h"

#include <algorithm>
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

// A loop of fewer iterations is not worth a second copy of its body, and a long body is not worth copying.
constexpr int64_t kFewestIterations = 4;
constexpr int64_t kMostOperations = 300;

std::optional<int64_t> ConstantInt(Value value) {
  mlir::APInt constant;
  if (!mlir::matchPattern(value, mlir::m_ConstantInt(&constant)) || constant.getBitWidth() > 64) return std::nullopt;
  return constant.getSExtValue();
}

// base + iv + offset, computed without wrapping as far as it stays below the bound it is compared with.
struct LinearIndex {
  Value base;  // null: 0
  int64_t offset = 0;
  bool has_iv = false;
};

// The comparison is true in all lanes while base + iv + last_offset < bound.
struct MaskBound {
  arith::CmpIOp compare;
  Value base;
  Value bound;
  int64_t last_offset;
};

class LoopSplitter {
 public:
  explicit LoopSplitter(mlir::scf::ForOp loop) : loop_(loop) {}

  // Splits the loop if a mask in it has a bound; else leaves everything as it is.
  void Run() {
    std::optional<int64_t> first = ConstantInt(loop_.getLowerBound()), end = ConstantInt(loop_.getUpperBound());
    std::optional<int64_t> step = ConstantInt(loop_.getStep());
    if (!first || !end || !step || *first < 0 || *end > INT32_MAX || *step <= 0) return;
    if (!loop_.getInductionVar().getType().isInteger(64) || (*end - *first) / *step < kFewestIterations) return;
    int64_t operations = 0;
    bool is_innermost = true;
    loop_.getBody()->walk([&](mlir::Operation* op) {
      ++operations;
      if (mlir::isa<mlir::LoopLikeOpInterface>(op)) is_innermost = false;
    });
    if (!is_innermost || operations > kMostOperations) return;
    for (arith::CmpIOp compare : loop_.getBody()->getOps<arith::CmpIOp>())
      if (std::optional<MaskBound> bound = FindBound(compare); bound && bound->last_offset <= INT32_MAX - *end)
        bounds_.push_back(*bound);
    if (!bounds_.empty()) Split(*first, *end, *step);
  }

 private:
  bool IsOutside(Value value) { return loop_.isDefinedOutsideOfLoop(value); }

  std::optional<LinearIndex> MatchScalar(Value value) {
    if (value == loop_.getInductionVar()) return LinearIndex{{}, 0, true};
    if (std::optional<int64_t> constant = ConstantInt(value)) {
      if (*constant < 0 || *constant > INT32_MAX) return LinearIndex{value, 0, false};
      return LinearIndex{{}, *constant, false};
    }
    if (IsOutside(value)) return LinearIndex{value, 0, false};
    if (auto add = value.getDefiningOp<arith::AddIOp>()) return Sum(MatchScalar(add.getLhs()), MatchScalar(add.getRhs()));
    // The induction variable and constants fit into 31 bits: they are the same in any width. A base need not be.
    std::optional<LinearIndex> inner;
    if (auto narrow = value.getDefiningOp<arith::TruncIOp>()) {
      if (!narrow.getType().isInteger(32)) return std::nullopt;
      inner = MatchScalar(narrow.getIn());
    }
    if (auto wide = value.getDefiningOp<arith::ExtSIOp>()) inner = MatchScalar(wide.getIn());
    if (!inner || inner->base) return std::nullopt;
    return inner;
  }

  static std::optional<LinearIndex> Sum(std::optional<LinearIndex> a, std::optional<LinearIndex> b) {
    if (!a || !b || (a->base && b->base) || (a->has_iv && b->has_iv)) return std::nullopt;
    if (a->offset + b->offset > INT32_MAX) return std::nullopt;
    return LinearIndex{a->base ? a->base : b->base, a->offset + b->offset, a->has_iv || b->has_iv};
  }

  // Like MatchScalar, for a vector; the offset is that of the last lane.
  std::optional<LinearIndex> MatchLanes(Value value) {
    if (auto broadcast = value.getDefiningOp<mlir::vector::BroadcastOp>()) {
      if (mlir::isa<mlir::VectorType>(broadcast.getSourceType())) return std::nullopt;
      return MatchScalar(broadcast.getSource());
    }
    if (auto add = value.getDefiningOp<arith::AddIOp>()) return Sum(MatchLanes(add.getLhs()), MatchLanes(add.getRhs()));
    mlir::DenseIntElementsAttr lanes;
    if (!mlir::matchPattern(value, mlir::m_Constant(&lanes))) return std::nullopt;
    int64_t largest = 0;
    for (const mlir::APInt& lane : lanes.getValues<mlir::APInt>()) {
      if (lane.isNegative() || lane.getSExtValue() > INT32_MAX) return std::nullopt;
      largest = std::max(largest, lane.getSExtValue());
    }
    return LinearIndex{{}, largest, false};
  }

  // The scalar whose copies are all lanes of `value`; null if there is none outside of the loop.
  Value UniformOutside(Value value) {
    auto broadcast = value.getDefiningOp<mlir::vector::BroadcastOp>();
    if (!broadcast || mlir::isa<mlir::VectorType>(broadcast.getSourceType())) return {};
    return IsOutside(broadcast.getSource()) ? broadcast.getSource() : Value();
  }

  std::optional<MaskBound> FindBound(arith::CmpIOp compare) {
    // One comparison for all lanes is a branch, which is predicted well: not worth a second copy of the loop.
    if (!mlir::isa<mlir::VectorType>(compare.getType())) return std::nullopt;
    Value index = compare.getLhs(), bound = compare.getRhs();
    if (compare.getPredicate() == arith::CmpIPredicate::sgt) std::swap(index, bound);
    else if (compare.getPredicate() != arith::CmpIPredicate::slt) return std::nullopt;
    mlir::Type element = mlir::getElementTypeOrSelf(index.getType());
    if (!element.isInteger(32) && !element.isInteger(64)) return std::nullopt;
    Value uniform = UniformOutside(bound);
    if (!uniform) return std::nullopt;
    std::optional<LinearIndex> linear = MatchLanes(index);
    if (!linear || !linear->has_iv) return std::nullopt;
    return MaskBound{compare, linear->base, uniform, linear->offset};
  }

  // How many values iv = 0, 1, 2, .. are inside the bound: max(0, bound - base - last_offset), in i64.
  Value Inside(mlir::OpBuilder& builder, MaskBound mask) {
    mlir::Location loc = mask.compare.getLoc();
    auto constant = [&](int64_t value) -> Value { return builder.create<arith::ConstantOp>(loc, builder.getI64IntegerAttr(value)); };
    auto widen = [&](Value value) -> Value {
      if (!value) return constant(0);
      return value.getType().isInteger(64) ? value : builder.create<arith::ExtSIOp>(loc, builder.getI64Type(), value);
    };
    Value base = widen(mask.base), bound = widen(mask.bound);
    // Where the bound is larger, their difference is right as an unsigned number, whatever they are.
    Value is_larger = builder.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sgt, bound, base);
    Value difference = builder.create<arith::SubIOp>(loc, bound, base);
    difference = builder.create<arith::SelectOp>(loc, is_larger, difference, constant(0));
    Value offset = constant(mask.last_offset);
    Value beyond = builder.create<arith::SubIOp>(loc, builder.create<arith::MaxUIOp>(loc, difference, offset), offset);
    return beyond;
  }

  void Split(int64_t first, int64_t end, int64_t step) {
    mlir::OpBuilder builder(loop_);
    mlir::Location loc = loop_.getLoc();
    auto constant = [&](int64_t value) -> Value { return builder.create<arith::ConstantOp>(loc, builder.getI64IntegerAttr(value)); };
    // Iterations iv < inside have all their lanes inside; the split is at the first that has not.
    Value inside = constant(end);
    for (MaskBound bound : bounds_) inside = builder.create<arith::MinUIOp>(loc, inside, Inside(builder, bound));
    Value from_first = builder.create<arith::SubIOp>(loc, builder.create<arith::MaxUIOp>(loc, inside, constant(first)), constant(first));
    Value iterations = builder.create<arith::DivUIOp>(loc, builder.create<arith::AddIOp>(loc, from_first, constant(step - 1)), constant(step));
    Value split = builder.create<arith::AddIOp>(loc, constant(first), builder.create<arith::MulIOp>(loc, iterations, constant(step)));

    mlir::IRMapping mapping;
    auto unmasked = mlir::cast<mlir::scf::ForOp>(builder.clone(*loop_, mapping));
    unmasked.setUpperBound(split);
    for (MaskBound bound : bounds_) {
      Value compare = mapping.lookup(bound.compare.getResult());
      mlir::OpBuilder inner(compare.getDefiningOp());
      auto all = mlir::DenseElementsAttr::get(mlir::cast<mlir::VectorType>(compare.getType()), true);
      compare.replaceAllUsesWith(inner.create<arith::ConstantOp>(loc, all));
      compare.getDefiningOp()->erase();
    }
    loop_.setLowerBound(split);
    loop_.getInitArgsMutable().assign(unmasked.getResults());
  }

  mlir::scf::ForOp loop_;
  llvm::SmallVector<MaskBound> bounds_;
};

class SplitMaskedLoopsPass : public mlir::PassWrapper<SplitMaskedLoopsPass, mlir::OperationPass<mlir::func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitMaskedLoopsPass)

  llvm::StringRef getArgument() const override { return "split-masked-loops"; }
  llvm::StringRef getDescription() const override { return "run loops without masks as far as all lanes are inside"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, mlir::scf::SCFDialect>();
  }

  void runOnOperation() override {
    llvm::SmallVector<mlir::scf::ForOp> loops;
    getOperation().walk([&](mlir::scf::ForOp loop) { loops.push_back(loop); });
    for (mlir::scf::ForOp loop : loops) LoopSplitter(loop).Run();
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> CreateSplitMaskedLoopsPass() { return std::make_unique<SplitMaskedLoopsPass>(); }

}  // namespace tessera::compiler
