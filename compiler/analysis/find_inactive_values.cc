// Follows what masked-off lanes of a load hold, from the load to a reduction.
//
// A value carries parts: "where this comparison of the mask is false, the lane holds c". tl.where with the same
// comparison replaces c; elementwise operations compute with it; shape operations move the lanes. What is not
// understood ends the search silently.
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/lints.h"
#include "compiler/dialect/tile/tile.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Known {
  kExactly,  // the lane holds `value`
  kAtLeast,  // it has been through a maximum with other values
  kAtMost,
  kShifted,  // `value` minus, or plus, a result of a reduction: not 0 but by chance
};

// Where one comparison of a load's mask is false.
struct Part {
  Value root;                     // the comparison, before it was broadcast
  llvm::SmallVector<int, 3> dims;  // for each dimension of the value the root's, or -1
  Known known = Known::kExactly;
  double value = 0;
  bool explicit_other = false;
  Location load;

  bool SameMask(const Part& o) const { return root == o.root && dims == o.dims; }
};
using Parts = llvm::SmallVector<Part, 2>;

struct Bounds {
  double low = -kInfinity, high = kInfinity;
};

std::optional<double> ConstantOf(Value value) {
  Attribute attr;
  if (!matchPattern(value, m_Constant(&attr))) return std::nullopt;
  auto number = [](Attribute a) -> std::optional<double> {
    if (auto f = dyn_cast<FloatAttr>(a)) return f.getValueAsDouble();
    if (auto i = dyn_cast<IntegerAttr>(a)) {
      if (i.getType().isInteger(1)) return i.getValue().getZExtValue();
      return i.getValue().getBitWidth() <= 64 ? std::optional<double>(double(i.getValue().getSExtValue())) : std::nullopt;
    }
    return std::nullopt;
  };
  if (auto splat = dyn_cast<SplatElementsAttr>(attr)) return number(splat.getSplatValue<Attribute>());
  return number(attr);
}

// The one number that every lane holds.
std::optional<double> UniformConstant(Value value) {
  while (Operation* op = value.getDefiningOp()) {
    if (auto constant = ConstantOf(value)) return constant;
    if (!isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp>(op)) return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

enum class Combine { kOther, kMax, kMin, kUnsignedMax, kUnsignedMin, kSum, kProduct };

// What a reduction does to its first operand.
Combine CombineOf(tile::ReduceOp reduce) {
  Block& block = reduce.getCombine().front();
  const unsigned n = reduce.getSources().size();
  Value left = block.getArgument(0), right = block.getArgument(n);
  Value result = block.getTerminator()->getOperand(0);
  while (Operation* op = result.getDefiningOp()) {  // through conversions back to a narrow type
    if (!isa<arith::TruncFOp, arith::ExtFOp, tile::FpToFpOp>(op)) break;
    result = op->getOperand(0);
  }
  Operation* op = result.getDefiningOp();
  if (!op) return Combine::kOther;
  auto from = [&](Value operand, Value argument) {
    while (Operation* cast = operand.getDefiningOp()) {
      if (!isa<arith::TruncFOp, arith::ExtFOp, tile::FpToFpOp>(cast)) break;
      operand = cast->getOperand(0);
    }
    return operand == argument;
  };
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    // argmax: the comparison of the two values, alone or joined by one of indices where they are equal.
    if (!from(select.getTrueValue(), left) || !from(select.getFalseValue(), right)) return Combine::kOther;
    llvm::SmallVector<Value, 4> open = {select.getCondition()};
    while (!open.empty()) {
      Operation* condition = open.pop_back_val().getDefiningOp();
      if (!condition) continue;
      if (auto f = dyn_cast<arith::CmpFOp>(condition); f && from(f.getLhs(), left) && from(f.getRhs(), right)) {
        using P = arith::CmpFPredicate;
        P p = f.getPredicate();
        if (p == P::OGT || p == P::UGT || p == P::OGE || p == P::UGE) return Combine::kMax;
        if (p == P::OLT || p == P::ULT || p == P::OLE || p == P::ULE) return Combine::kMin;
      }
      if (auto i = dyn_cast<arith::CmpIOp>(condition); i && from(i.getLhs(), left) && from(i.getRhs(), right)) {
        using P = arith::CmpIPredicate;
        P p = i.getPredicate();
        if (p == P::sgt || p == P::sge) return Combine::kMax;
        if (p == P::slt || p == P::sle) return Combine::kMin;
        if (p == P::ugt || p == P::uge) return Combine::kUnsignedMax;
        if (p == P::ult || p == P::ule) return Combine::kUnsignedMin;
      }
      if (isa<arith::OrIOp>(condition)) open.append(condition->operand_begin(), condition->operand_end());
    }
    return Combine::kOther;
  }
  if (op->getNumOperands() != 2) return Combine::kOther;
  bool plain = (from(op->getOperand(0), left) && from(op->getOperand(1), right)) || (from(op->getOperand(0), right) && from(op->getOperand(1), left));
  if (!plain) return Combine::kOther;
  if (isa<arith::MaxNumFOp, arith::MaximumFOp, arith::MaxSIOp>(op)) return Combine::kMax;
  if (isa<arith::MinNumFOp, arith::MinimumFOp, arith::MinSIOp>(op)) return Combine::kMin;
  if (isa<arith::MaxUIOp>(op)) return Combine::kUnsignedMax;
  if (isa<arith::MinUIOp>(op)) return Combine::kUnsignedMin;
  if (isa<arith::AddFOp, arith::AddIOp>(op)) return Combine::kSum;
  if (isa<arith::MulFOp, arith::MulIOp>(op)) return Combine::kProduct;
  return Combine::kOther;
}

bool IsMax(Operation* op) { return isa<arith::MaxNumFOp, arith::MaximumFOp, arith::MaxSIOp>(op); }
bool IsMin(Operation* op) { return isa<arith::MinNumFOp, arith::MinimumFOp, arith::MinSIOp>(op); }

// What one operation makes of known operands.
std::optional<double> Fold(Operation* op, llvm::ArrayRef<double> in) {
  if (in.size() == 1) {
    const double x = in[0];
    if (isa<arith::NegFOp>(op)) return -x;
    if (isa<math::AbsFOp, math::AbsIOp>(op)) return std::fabs(x);
    if (isa<math::ExpOp>(op)) return std::exp(x);
    if (isa<math::Exp2Op>(op)) return std::exp2(x);
    if (isa<math::LogOp>(op)) return std::log(x);
    if (isa<math::Log2Op>(op)) return std::log2(x);
    if (isa<math::SqrtOp>(op)) return std::sqrt(x);
    if (isa<math::RsqrtOp>(op)) return 1 / std::sqrt(x);
    if (isa<math::SinOp>(op)) return std::sin(x);
    if (isa<math::CosOp>(op)) return std::cos(x);
    if (isa<math::TanhOp>(op)) return std::tanh(x);
    if (isa<math::ErfOp>(op)) return std::erf(x);
    if (isa<arith::ExtFOp, arith::TruncFOp, tile::FpToFpOp, arith::SIToFPOp, arith::ExtSIOp, arith::ExtUIOp, arith::UIToFPOp>(op)) return x;
    return std::nullopt;
  }
  if (in.size() == 2) {
    if (isa<arith::AddFOp, arith::AddIOp>(op)) return in[0] + in[1];
    if (isa<arith::SubFOp, arith::SubIOp>(op)) return in[0] - in[1];
    if (isa<arith::MulFOp, arith::MulIOp>(op)) return in[0] * in[1];
    if (isa<arith::DivFOp>(op)) return in[0] / in[1];
    if (IsMax(op)) return std::max(in[0], in[1]);
    if (IsMin(op)) return std::min(in[0], in[1]);
  }
  return std::nullopt;
}

std::string NumberText(double value) {
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

unsigned LineOf(Location location) {
  if (auto place = dyn_cast<FileLineColLoc>(location)) return place.getLine();
  return 0;
}

class Finder {
 public:
  Finder(func::FuncOp kernel, std::vector<Lint>* lints) : kernel_(kernel), axis_(kernel), lints_(lints) {}

  void Run() {
    kernel_.walk<WalkOrder::PreOrder>([&](Operation* op) {
      if (isa<tile::ReduceOp, tile::ScanOp, tile::MapOp>(op)) {
        if (auto reduce = dyn_cast<tile::ReduceOp>(op)) Check(reduce);
        return WalkResult::skip();
      }
      if (!isa<scf::ForOp, scf::IfOp, scf::WhileOp>(op)) Visit(op);
      // A maximum carried by a loop: what it has reached when the loop ends.
      if (auto yield = dyn_cast<scf::YieldOp>(op))
        if (auto loop = dyn_cast<scf::ForOp>(yield->getParentOp()))
          for (auto [result, operand] : llvm::zip(loop.getResults(), yield.getOperands())) {
            Parts kept;
            for (const Part& part : PartsOf(operand))
              if (part.known == Known::kAtLeast || part.known == Known::kAtMost) kept.push_back(part);
            if (!kept.empty()) parts_[result] = kept;
          }
      return WalkResult::advance();
    });
  }

 private:
  Parts PartsOf(Value value) const {
    auto found = parts_.find(value);
    return found == parts_.end() ? Parts() : found->second;
  }

  // The comparisons that `mask` is a conjunction of, for a value of rank `dims.size()`; dims as in Part.
  void Conjuncts(Value mask, llvm::SmallVector<int, 3> dims, llvm::SmallVectorImpl<Part>* out, Location load) const {
    Operation* op = mask.getDefiningOp();
    if (op && isa<arith::AndIOp>(op)) {
      for (Value operand : op->getOperands()) Conjuncts(operand, dims, out, load);
      return;
    }
    if (auto broadcast = dyn_cast_or_null<tile::BroadcastOp>(op)) return Conjuncts(broadcast.getSource(), dims, out, load);
    if (auto expand = dyn_cast_or_null<tile::ExpandDimsOp>(op)) {
      for (int& d : dims) d = d == int(expand.getAxis()) ? -1 : d > int(expand.getAxis()) ? d - 1 : d;
      return Conjuncts(expand.getSource(), dims, out, load);
    }
    if (auto splat = dyn_cast_or_null<tile::SplatOp>(op)) {
      for (int& d : dims) d = -1;
      return Conjuncts(splat.getSource(), dims, out, load);
    }
    if (ConstantOf(mask)) return;  // true; were it false, there would be no lanes at all
    Part part{mask, dims, Known::kExactly, 0, false, load};
    // Dimensions along which the comparison is broadcast are all alike.
    if (auto tensor = dyn_cast<RankedTensorType>(mask.getType()))
      for (int& d : part.dims)
        if (d >= 0 && tensor.getDimSize(d) == 1) d = -1;
    out->push_back(part);
  }
  static llvm::SmallVector<int, 3> AllDims(Type type) {
    llvm::SmallVector<int, 3> dims;
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t d = 0; d < tensor.getRank(); ++d) dims.push_back(int(d));
    return dims;
  }

  bool VariesAlong(const Part& part, int axis) const {
    int d = part.dims[axis];
    auto tensor = dyn_cast<RankedTensorType>(part.root.getType());
    return d >= 0 && tensor && axis_.Get(part.root).constancy[d] < tensor.getDimSize(d);
  }

  void Visit(Operation* op) {
    if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType())) return;
    Value result = op->getResult(0);
    Parts parts;
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      if (!load.getMask()) return;
      std::optional<double> other = load.getOther() ? UniformConstant(load.getOther()) : std::optional<double>(0);
      if (!other) return;
      Conjuncts(load.getMask(), AllDims(load.getMask().getType()), &parts, load.getLoc());
      for (Part& part : parts) {
        part.value = *other;
        part.explicit_other = static_cast<bool>(load.getOther());
      }
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      parts = OfSelect(select);
    } else if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
      parts = PartsOf(expand.getSource());
      for (Part& part : parts) part.dims.insert(part.dims.begin() + expand.getAxis(), -1);
    } else if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
      parts = PartsOf(broadcast.getSource());
    } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
      for (const Part& part : PartsOf(trans.getSource())) {
        Part moved = part;
        for (auto [to, from] : llvm::enumerate(trans.getOrder())) moved.dims[to] = part.dims[from];
        parts.push_back(moved);
      }
    } else if (isa<tile::HintOp>(op)) {
      parts = PartsOf(op->getOperand(0));
    } else if (op->getNumOperands() > 0 && op->getNumRegions() == 0 &&
               llvm::all_of(op->getOperandTypes(), [&](Type type) { return isa<RankedTensorType>(type); })) {
      parts = OfElementwise(op);
    }
    if (!parts.empty()) parts_[result] = std::move(parts);
  }

  Parts OfSelect(arith::SelectOp select) const {
    Parts result, conditions;
    if (!isa<RankedTensorType>(select.getCondition().getType())) return result;
    Conjuncts(select.getCondition(), AllDims(select.getCondition().getType()), &conditions, select.getLoc());
    Parts of_value = PartsOf(select.getTrueValue());
    bool all_known = llvm::all_of(conditions, [&](const Part& c) { return llvm::any_of(of_value, [&](const Part& p) { return p.SameMask(c); }); });
    if (!all_known) return result;  // chosen by something else as well: a masked-off lane may be left out by it
    std::optional<double> otherwise = UniformConstant(select.getFalseValue());
    for (Part part : of_value) {
      bool replaced = llvm::any_of(conditions, [&](const Part& c) { return part.SameMask(c); });
      if (replaced && !otherwise) continue;
      if (replaced) {
        part.known = Known::kExactly;
        part.value = *otherwise;
        part.explicit_other = true;
        part.load = select.getLoc();
      }
      result.push_back(part);
    }
    return result;
  }

  // A result of a reduction, perhaps scaled: a mean. Uniform along the lanes that `part` varies along.
  bool ComesFromReduction(Value value, const Part& part) const {
    AxisInfo info = axis_.Get(value);
    auto tensor = cast<RankedTensorType>(value.getType());
    if (tensor.getRank() != int64_t(part.dims.size())) return false;
    for (size_t d = 0; d < part.dims.size(); ++d)
      if (part.dims[d] >= 0 && VariesAlong(part, d) && info.constancy[d] < tensor.getDimSize(d)) return false;
    for (int steps = 0; steps < 12; ++steps) {
      Operation* op = value.getDefiningOp();
      if (!op) return false;
      if (auto reduce = dyn_cast<tile::ReduceOp>(op)) return CombineOf(reduce) == Combine::kSum;
      if (!isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, arith::DivFOp, arith::MulFOp, arith::TruncFOp, arith::ExtFOp,
               tile::FpToFpOp>(op))
        return false;
      value = op->getOperand(0);
    }
    return false;
  }

  Parts OfElementwise(Operation* op) const {
    Parts result;
    llvm::SmallVector<Parts, 3> in;
    for (Value operand : op->getOperands()) in.push_back(PartsOf(operand));
    for (const Parts& parts : in)
      for (const Part& part : parts) {
        if (llvm::any_of(result, [&](const Part& p) { return p.SameMask(part); })) continue;
        if (auto made = Compute(op, in, part)) result.push_back(*made);
      }
    return result;
  }

  // What lanes of `part`'s mask hold in the result of `op`.
  std::optional<Part> Compute(Operation* op, llvm::ArrayRef<Parts> in, const Part& part) const {
    Part made = part;
    llvm::SmallVector<std::optional<double>, 2> values;
    Known known = Known::kExactly;
    int shifted = 0;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      values.push_back(UniformConstant(operand));
      for (const Part& of_operand : in[i])
        if (of_operand.SameMask(part)) {
          values.back() = of_operand.value;
          shifted += of_operand.known == Known::kShifted;
          if (of_operand.known != Known::kExactly) known = of_operand.known;
        }
    }
    const unsigned count = values.size();
    if (shifted > 0) {
      // (c - mean) times itself, or scaled by something known: still not 0.
      if (isa<arith::MulFOp>(op) && op->getOperand(0) == op->getOperand(1)) return made;
      if (isa<math::AbsFOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp, tile::FpToFpOp>(op)) return made;
      return std::nullopt;
    }
    bool is_product = isa<arith::MulFOp, arith::MulIOp>(op);
    if (count == 2 && is_product && (values[0] == 0.0 || values[1] == 0.0) && known == Known::kExactly) {
      made.value = 0;
      return made;
    }
    bool all = llvm::all_of(values, [](const auto& v) { return v.has_value(); });
    if (all) {
      if (known != Known::kExactly && !IsMax(op) && !IsMin(op) && !isa<arith::ExtFOp, arith::TruncFOp, tile::FpToFpOp>(op)) return std::nullopt;
      llvm::SmallVector<double, 2> numbers;
      for (const auto& v : values) numbers.push_back(*v);
      std::optional<double> folded = Fold(op, numbers);
      if (!folded || std::isnan(*folded)) return std::nullopt;
      made.value = *folded;
      made.known = known;
      return made;
    }
    if (count != 2) return std::nullopt;
    // A value that no other lane undercuts (0 among absolute values) changes no maximum.
    const unsigned lane = values[0] ? 0 : 1;
    if (IsMax(op) && known != Known::kAtMost) {
      if (*values[lane] <= BoundsOf(op->getOperand(lane)).low) return std::nullopt;
      made.value = *values[lane];
      made.known = Known::kAtLeast;
      return made;
    }
    if (IsMin(op) && known != Known::kAtLeast) {
      if (*values[lane] >= BoundsOf(op->getOperand(lane)).high) return std::nullopt;
      made.value = *values[lane];
      made.known = Known::kAtMost;
      return made;
    }
    if (isa<arith::SubFOp>(op) && values[0] == 0.0 && known == Known::kExactly && ComesFromReduction(op->getOperand(1), part)) {
      made.known = Known::kShifted;
      return made;
    }
    return std::nullopt;
  }

  // Of the data itself, from the operations that made it.
  Bounds BoundsOf(Value value, int depth = 0) const {
    Bounds bounds;
    if (auto constant = UniformConstant(value)) return {*constant, *constant};
    Operation* op = value.getDefiningOp();
    if (!op || depth > 24) return bounds;
    auto of = [&](unsigned i) { return BoundsOf(op->getOperand(i), depth + 1); };
    if (isa<math::AbsFOp, math::AbsIOp, math::ExpOp, math::Exp2Op, math::SqrtOp, math::RsqrtOp>(op)) return {0, kInfinity};
    if (isa<math::TanhOp, math::ErfOp, math::SinOp, math::CosOp>(op)) return {-1, 1};
    if (isa<arith::UIToFPOp, arith::ExtUIOp>(op))
      return {0, std::exp2(getElementTypeOrSelf(op->getOperand(0).getType()).getIntOrFloatBitWidth()) - 1};
    if (isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp, tile::HintOp, arith::ExtFOp, arith::TruncFOp,
            tile::FpToFpOp, arith::SIToFPOp, arith::ExtSIOp>(op))
      return of(0);
    if (isa<tile::RangeOp, tile::ProgramIdOp>(op)) return {0, kInfinity};
    if (isa<arith::MulFOp>(op) && op->getOperand(0) == op->getOperand(1)) return {0, kInfinity};
    if (isa<arith::MulFOp, arith::DivFOp, arith::AddFOp>(op)) {
      Bounds a = of(0), b = of(1);
      if (isa<arith::AddFOp>(op)) return {a.low + b.low, a.high + b.high};
      if (a.low >= 0 && b.low >= 0) return {0, kInfinity};
      return bounds;
    }
    if (isa<arith::NegFOp>(op)) {
      Bounds a = of(0);
      return {-a.high, -a.low};
    }
    if (IsMax(op)) {
      Bounds a = of(0), b = of(1);
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    if (IsMin(op)) {
      Bounds a = of(0), b = of(1);
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    if (isa<arith::SelectOp>(op)) {
      Bounds a = of(1), b = of(2);
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    return bounds;
  }

  void Check(tile::ReduceOp reduce) {
    const Combine combine = CombineOf(reduce);
    if (combine == Combine::kOther) return;
    Value source = reduce.getSources()[0];
    for (const Part& part : PartsOf(source)) {
      if (!VariesAlong(part, int(reduce.getAxis()))) continue;
      std::optional<std::string> message = WhyWrong(combine, part, source);
      if (!message) continue;
      lints_->push_back({reduce.getLoc(), *message});
      return;
    }
  }

  std::optional<std::string> WhyWrong(Combine combine, const Part& part, Value source) const {
    const bool is_integer = getElementTypeOrSelf(source.getType()).isInteger();
    const double c = part.value;
    std::string lanes = "lanes outside the mask hold " + NumberText(c);
    if (part.known == Known::kAtLeast) lanes = "lanes outside the mask hold at least " + NumberText(c);
    if (part.known == Known::kAtMost) lanes = "lanes outside the mask hold at most " + NumberText(c);
    std::string where = unsigned(LineOf(part.load)) > 0 ? " (from line " + std::to_string(LineOf(part.load)) + ")" : "";
    if (!part.explicit_other) where += " because the load has no `other`";
    Bounds bounds = BoundsOf(source);
    switch (combine) {
      case Combine::kMax:
        // Counts and lengths are loaded with other=0 on purpose.
        if (part.known == Known::kShifted || part.known == Known::kAtMost || (is_integer && part.explicit_other)) return std::nullopt;
        if (c < 0 || c <= bounds.low) return std::nullopt;
        return lanes + where + " and win this maximum where all other values are smaller; use " + (is_integer ? "the smallest value of the type" : "other=-float('inf')");
      case Combine::kMin:
        if (part.known == Known::kShifted || part.known == Known::kAtLeast) return std::nullopt;
        if (c > 0 || c >= bounds.high) return std::nullopt;
        return lanes + where + " and win this minimum where all other values are larger; use " + (is_integer ? "the largest value of the type" : "other=float('inf')");
      case Combine::kUnsignedMin:
        if (part.known != Known::kExactly || c != 0) return std::nullopt;
        return lanes + where + " and win this minimum; use the largest value of the type";
      case Combine::kSum:
        if (part.known == Known::kShifted)
          return "lanes outside the mask hold 0 minus the result of another reduction" + where + " and are part of this sum; set them to 0 first: tl.where(mask, x - mean, 0.0)";
        if (part.known != Known::kExactly || c == 0) return std::nullopt;
        return lanes + where + " and are part of this sum; set them to 0 first";
      case Combine::kProduct:
        if (part.known != Known::kExactly || c == 1) return std::nullopt;
        return lanes + where + " and are part of this product; set them to 1 first";
      default:
        return std::nullopt;
    }
  }

  func::FuncOp kernel_;
  AxisInfoAnalysis axis_;
  std::vector<Lint>* lints_;
  llvm::DenseMap<Value, Parts> parts_;
};

}  // namespace

void FindInactiveValues(func::FuncOp kernel, std::vector<Lint>* lints) {
  if (!kernel.isExternal()) Finder(kernel, lints).Run();
}

}  // namespace tessera::compiler
