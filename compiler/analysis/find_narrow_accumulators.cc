// Sums of many fp16 or bf16 values, kept in that type: 11 or 8 bits hold a sum of 2048 or 256 ones, and no more.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/analysis/lints.h"
#include "compiler/dialect/tile/tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// Shorter sums lose little, and kernels choose them knowingly.
constexpr int64_t kLongSum = 512;

const char* NarrowName(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() ? "fp16" : element.isBF16() ? "bf16" : nullptr;
}

std::optional<int64_t> TripCount(scf::ForOp loop) {
  APInt low, high, step;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&low)) || !matchPattern(loop.getUpperBound(), m_ConstantInt(&high)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)) || step.getSExtValue() <= 0)
    return std::nullopt;
  return std::max<int64_t>(0, (high.getSExtValue() - low.getSExtValue() + step.getSExtValue() - 1) / step.getSExtValue());
}

void CheckReduce(tile::ReduceOp reduce, std::vector<Lint>* lints) {
  const int64_t extent = cast<RankedTensorType>(reduce.getSources()[0].getType()).getDimSize(reduce.getAxis());
  const char* name = NarrowName(reduce.getSources()[0].getType());
  if (!name || extent < kLongSum) return;
  auto* yield = reduce.getCombine().front().getTerminator();
  auto sum = yield->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!sum || !NarrowName(sum.getType())) return;
  lints->push_back({reduce.getLoc(), "a sum of " + std::to_string(extent) + " " + name + " values is accumulated in " + name + "; convert them first: x.to(tl.float32)"});
}

// What a loop adds to the accumulator it carries, `terms` of it in each round.
void CheckLoop(scf::ForOp loop, std::vector<Lint>* lints) {
  std::optional<int64_t> trips = TripCount(loop);
  for (auto [argument, yielded] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues())) {
    const char* name = NarrowName(argument.getType());
    if (!name) continue;
    Operation* op = yielded.getDefiningOp();
    if (auto select = dyn_cast_or_null<arith::SelectOp>(op); select && select.getFalseValue() == argument) op = select.getTrueValue().getDefiningOp();
    tile::DotOp dot = dyn_cast_or_null<tile::DotOp>(op);
    if (auto sum = dyn_cast_or_null<arith::AddFOp>(op)) {
      if (sum.getLhs() != argument && sum.getRhs() != argument) continue;
      dot = (sum.getLhs() == argument ? sum.getRhs() : sum.getLhs()).getDefiningOp<tile::DotOp>();
    } else if (!dot || dot.getC() != argument) {
      continue;
    }
    const int64_t terms = dot ? cast<RankedTensorType>(dot.getA().getType()).getShape().back() : 1;
    if (trips && *trips * terms < kLongSum) continue;
    std::string what = dot ? "this loop's product of matrices" : "this loop's sum";
    std::string how = dot ? std::string("; let tl.dot accumulate in fp32 and convert the result after the loop")
                          : std::string("; keep it in fp32 and convert the result after the loop");
    lints->push_back({op->getLoc(), what + " is accumulated in " + name + (trips ? " over " + std::to_string(*trips * terms) + " terms" : "") + how});
  }
}

void CheckDot(tile::DotOp dot, std::vector<Lint>* lints) {
  const char* name = NarrowName(dot.getType());
  const int64_t terms = cast<RankedTensorType>(dot.getA().getType()).getShape().back();
  if (!name || terms < kLongSum) return;
  lints->push_back({dot.getLoc(), "a product of matrices over " + std::to_string(terms) + " terms is accumulated in " + name + "; leave out_dtype at fp32 and convert the result"});
}

}  // namespace

void FindNarrowAccumulators(func::FuncOp kernel, std::vector<Lint>* lints) {
  kernel.walk([&](Operation* op) {
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) CheckReduce(reduce, lints);
    if (auto loop = dyn_cast<scf::ForOp>(op)) CheckLoop(loop, lints);
    if (auto dot = dyn_cast<tile::DotOp>(op)) CheckDot(dot, lints);
  });
}

std::vector<Lint> FindLints(func::FuncOp kernel) {
  std::vector<Lint> lints;
  FindInactiveValues(kernel, &lints);
  FindNarrowAccumulators(kernel, &lints);
  auto place = [](const Lint& lint) {
    auto at = dyn_cast<FileLineColLoc>(lint.at);
    return at ? std::make_tuple(at.getFilename().str(), at.getLine(), at.getColumn()) : std::make_tuple(std::string(), 0u, 0u);
  };
  std::stable_sort(lints.begin(), lints.end(), [&](const Lint& a, const Lint& b) { return place(a) < place(b); });
  lints.erase(std::unique(lints.begin(), lints.end(), [&](const Lint& a, const Lint& b) { return place(a) == place(b) && a.message == b.message; }), lints.end());
  return lints;
}

}  // namespace tessera::compiler
