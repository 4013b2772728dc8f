#include "compiler/analysis/axis_info.h"

#include <algorithm>
#include <numeric>

#include "compiler/dialect/tile/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

constexpr int64_t kMaxPower = int64_t{1} << 40;

int64_t Gcd(int64_t a, int64_t b) { return std::gcd(a, b); }

// The largest power of two that divides `v`, at most kMaxPower.
int64_t PowerOfTwoIn(int64_t v) {
  if (v == 0) return kMaxPower;
  return std::min(v & -v, kMaxPower);
}

llvm::SmallVector<int64_t, 3> ShapeOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type)) return llvm::SmallVector<int64_t, 3>(tensor.getShape());
  return {1};
}

int64_t BytesOf(Type type) {
  if (isa<tile::PtrType>(type)) return 8;
  return std::max<int64_t>(1, type.getIntOrFloatBitWidth() / 8);
}

int64_t PointeeBytes(Type type) { return BytesOf(cast<tile::PtrType>(getElementTypeOrSelf(type)).getPointee()); }

// A divisor of every element along d, not of run starts alone.
int64_t DivisorOfAll(const AxisInfo& info, int d) { return info.contiguity[d] > 1 ? 1 : info.divisibility[d]; }

AxisInfo OfConstant(Type type, int64_t value) {
  AxisInfo info = AxisInfo::Unknown(type);
  info.constancy = ShapeOf(type);
  for (auto& d : info.divisibility) d = PowerOfTwoIn(value);
  info.constant = value;
  info.non_negative = value >= 0;
  return info;
}

std::optional<int64_t> IntConstant(Operation* op) {
  Attribute attr;
  if (!matchPattern(op, m_Constant(&attr))) return std::nullopt;
  if (auto integer = dyn_cast<IntegerAttr>(attr)) {
    if (integer.getValue().getBitWidth() > 64) return std::nullopt;
    return integer.getType().isInteger(1) ? int64_t(integer.getValue().getZExtValue()) : integer.getValue().getSExtValue();
  }
  if (auto splat = dyn_cast<SplatElementsAttr>(attr))
    if (splat.getElementType().isInteger())
      return splat.getElementType().isInteger(1) ? int64_t(splat.getSplatValue<APInt>().getZExtValue())
                                                 : splat.getSplatValue<APInt>().getSExtValue();
  return std::nullopt;
}

// Equal runs where all operands have equal runs.
AxisInfo OfPure(Type type, llvm::ArrayRef<AxisInfo> operands) {
  AxisInfo info = AxisInfo::Unknown(type);
  if (operands.empty()) return info;
  for (int d = 0; d < info.rank(); ++d) {
    int64_t run = info.rank() == 1 && !isa<RankedTensorType>(type) ? 1 : ShapeOf(type)[d];
    for (const AxisInfo& operand : operands) run = Gcd(run, operand.rank() == info.rank() ? operand.constancy[d] : 1);
    info.constancy[d] = run;
  }
  return info;
}

// a + scale * b, or a - b.
AxisInfo OfSum(Type type, const AxisInfo& a, const AxisInfo& b, bool subtract, int64_t scale) {
  AxisInfo info = OfPure(type, {a, b});
  for (int d = 0; d < info.rank(); ++d) {
    int64_t run = Gcd(a.contiguity[d], b.constancy[d]);
    if (!subtract) run = std::max(run, Gcd(a.constancy[d], b.contiguity[d]));
    info.contiguity[d] = run;
    auto start_divisor = [&](const AxisInfo& x, int64_t unit) {
      int64_t divisor = x.divisibility[d];
      // A run of the result may start inside a longer run of the operand.
      if (x.contiguity[d] > run) divisor = Gcd(divisor, run * unit);
      return divisor;
    };
    int64_t b_divisor = std::min(kMaxPower, start_divisor(b, 1) * scale);
    info.divisibility[d] = Gcd(start_divisor(a, scale), b_divisor);
  }
  if (a.constant && b.constant && scale == 1)
    return OfConstant(type, subtract ? int64_t(uint64_t(*a.constant) - uint64_t(*b.constant)) : int64_t(uint64_t(*a.constant) + uint64_t(*b.constant)));
  info.non_negative = !subtract && a.non_negative && b.non_negative;
  return info;
}

AxisInfo OfProduct(Type type, const AxisInfo& a, const AxisInfo& b) {
  if (a.constant && b.constant) return OfConstant(type, int64_t(uint64_t(*a.constant) * uint64_t(*b.constant)));
  if (a.constant == 1) return b;
  if (b.constant == 1) return a;
  AxisInfo info = OfPure(type, {a, b});
  for (int d = 0; d < info.rank(); ++d)
    info.divisibility[d] = std::min(kMaxPower, std::min(DivisorOfAll(a, d), int64_t{1} << 20) * std::min(DivisorOfAll(b, d), int64_t{1} << 20));
  info.non_negative = a.non_negative && b.non_negative;
  return info;
}

// a / b (both kinds).
AxisInfo OfQuotient(Type type, const AxisInfo& a, const AxisInfo& b) {
  if (b.constant == 1) return a;
  AxisInfo info = OfPure(type, {a, b});
  info.non_negative = a.non_negative && b.non_negative;
  if (!a.non_negative) return info;
  for (int d = 0; d < info.rank(); ++d) {
    int64_t run = Gcd(Gcd(a.contiguity[d], a.divisibility[d]), Gcd(DivisorOfAll(b, d), b.constancy[d]));
    info.constancy[d] = std::max(info.constancy[d], run);
    if (b.constant && *b.constant > 0 && a.contiguity[d] == 1)
      info.divisibility[d] = std::max<int64_t>(1, a.divisibility[d] / PowerOfTwoIn(*b.constant));
    if (b.constant && PowerOfTwoIn(*b.constant) != *b.constant) info.divisibility[d] = 1;
  }
  return info;
}

AxisInfo OfRemainder(Type type, const AxisInfo& a, const AxisInfo& b, bool assume_non_negative) {
  AxisInfo info = OfPure(type, {a, b});
  info.non_negative = a.non_negative;
  if (!a.non_negative && !assume_non_negative) return info;
  for (int d = 0; d < info.rank(); ++d) {
    int64_t b_divisor = DivisorOfAll(b, d);
    info.contiguity[d] = Gcd(Gcd(a.contiguity[d], a.divisibility[d]), Gcd(b_divisor, b.constancy[d]));
    int64_t divisor = a.divisibility[d];
    if (a.contiguity[d] > info.contiguity[d]) divisor = Gcd(divisor, info.contiguity[d]);
    info.divisibility[d] = Gcd(divisor, b_divisor);
  }
  return info;
}

AxisInfo OfCompare(arith::CmpIOp op, const AxisInfo& a, const AxisInfo& b) {
  AxisInfo info = OfPure(op.getType(), {a, b});
  using P = arith::CmpIPredicate;
  P p = op.getPredicate();
  bool lhs_runs = p == P::slt || p == P::sge || p == P::ult || p == P::uge;
  bool rhs_runs = p == P::sgt || p == P::sle || p == P::ugt || p == P::ule;
  for (int d = 0; d < info.rank(); ++d) {
    auto run = [&](const AxisInfo& runs, const AxisInfo& bound) {
      return Gcd(Gcd(runs.contiguity[d], runs.divisibility[d]), Gcd(bound.constancy[d], DivisorOfAll(bound, d)));
    };
    if (lhs_runs) info.constancy[d] = std::max(info.constancy[d], run(a, b));
    if (rhs_runs) info.constancy[d] = std::max(info.constancy[d], run(b, a));
  }
  return info;
}

AxisInfo OfReshape(tile::ReshapeOp op, const AxisInfo& source) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getResult().getType());
  AxisInfo info = AxisInfo::Unknown(to);
  info.non_negative = source.non_negative;
  bool all_equal = true;
  for (int d = 0; d < from.getRank(); ++d) all_equal &= source.constancy[d] == from.getDimSize(d);
  if (all_equal) info.constancy = ShapeOf(to);
  if (from.getRank() > 0 && to.getRank() > 0) {
    int s = from.getRank() - 1, t = to.getRank() - 1;
    info.contiguity[t] = std::min(source.contiguity[s], to.getDimSize(t));
    info.constancy[t] = std::max(info.constancy[t], std::min(source.constancy[s], to.getDimSize(t)));
    info.divisibility[t] = source.contiguity[s] > info.contiguity[t] ? Gcd(source.divisibility[s], info.contiguity[t] ) : source.divisibility[s];
    if (isa<tile::PtrType>(to.getElementType()) && source.contiguity[s] > info.contiguity[t])
      info.divisibility[t] = 1;
  }
  return info;
}

}  // namespace

AxisInfo AxisInfo::Unknown(Type type) {
  AxisInfo info;
  auto rank = ShapeOf(type).size();
  info.contiguity.assign(rank, 1);
  info.constancy.assign(rank, 1);
  info.divisibility.assign(rank, 1);
  return info;
}

bool AxisInfo::operator==(const AxisInfo& o) const {
  return contiguity == o.contiguity && constancy == o.constancy && divisibility == o.divisibility &&
         constant == o.constant && non_negative == o.non_negative;
}

AxisInfo AxisInfo::Join(const AxisInfo& a, const AxisInfo& b) {
  AxisInfo info = a;
  for (int d = 0; d < a.rank(); ++d) {
    info.contiguity[d] = Gcd(a.contiguity[d], b.contiguity[d]);
    info.constancy[d] = Gcd(a.constancy[d], b.constancy[d]);
    info.divisibility[d] = Gcd(a.divisibility[d], b.divisibility[d]);
    if (a.contiguity[d] != b.contiguity[d]) info.divisibility[d] = Gcd(info.divisibility[d], info.contiguity[d]);
  }
  if (a.constant != b.constant) info.constant.reset();
  info.non_negative = a.non_negative && b.non_negative;
  return info;
}

llvm::raw_ostream& operator<<(llvm::raw_ostream& out, const AxisInfo& info) {
  auto list = [&](const char* name, llvm::ArrayRef<int64_t> values) {
    out << name << " = [";
    llvm::interleaveComma(values, out);
    out << "]";
  };
  list("contiguity", info.contiguity);
  list(", divisibility", info.divisibility);
  list(", constancy", info.constancy);
  if (info.constant) out << ", constant = " << *info.constant;
  return out;
}

AxisInfoAnalysis::AxisInfoAnalysis(Operation* root, Remainders remainders) : remainders_(remainders) {
  if (auto function = dyn_cast<func::FuncOp>(root)) {
    if (function.isExternal()) return;
    for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
      AxisInfo info = AxisInfo::Unknown(argument.getType());
      if (auto attr = function.getArgAttrOfType<IntegerAttr>(i, "tile.divisibility"))
        info.divisibility[0] = PowerOfTwoIn(attr.getInt());
      info_[argument] = info;
    }
  }
  for (Region& region : root->getRegions())
    for (Block& block : region) VisitBlock(block);
}

AxisInfo AxisInfoAnalysis::Get(Value value) const {
  auto found = info_.find(value);
  return found == info_.end() ? AxisInfo::Unknown(value.getType()) : found->second;
}

void AxisInfoAnalysis::VisitBlock(Block& block) {
  for (Operation& op : block) VisitOp(&op);
}

void AxisInfoAnalysis::VisitOp(Operation* op) {
  auto join_all = [&](ValueRange targets, ValueRange sources) {
    bool changed = false;
    for (auto [target, source] : llvm::zip(targets, sources)) {
      AxisInfo joined = AxisInfo::Join(Get(target), Get(source));
      if (joined == Get(target)) continue;
      info_[target] = joined;
      changed = true;
    }
    return changed;
  };
  auto assign_all = [&](ValueRange targets, ValueRange sources) {
    for (auto [target, source] : llvm::zip(targets, sources)) info_[target] = Get(source);
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    AxisInfo iv = AxisInfo::Unknown(loop.getInductionVar().getType());
    AxisInfo low = Get(loop.getLowerBound()), step = Get(loop.getStep());
    iv.divisibility[0] = Gcd(low.divisibility[0], step.divisibility[0]);
    iv.non_negative = low.non_negative && step.non_negative;
    info_[loop.getInductionVar()] = iv;
    assign_all(loop.getRegionIterArgs(), loop.getInitArgs());
    // Each round only loses information: a few suffice.
    do VisitBlock(*loop.getBody());
    while (join_all(loop.getRegionIterArgs(), loop.getYieldedValues()));
    assign_all(loop.getResults(), loop.getRegionIterArgs());
    return;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    VisitBlock(*branch.thenBlock());
    if (!branch.elseBlock()) return;
    VisitBlock(*branch.elseBlock());
    assign_all(branch.getResults(), branch.thenYield().getOperands());
    join_all(branch.getResults(), branch.elseYield().getOperands());
    return;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    assign_all(loop.getBeforeArguments(), loop.getInits());
    do {
      VisitBlock(*loop.getBeforeBody());
      assign_all(loop.getAfterArguments(), loop.getConditionOp().getArgs());
      VisitBlock(*loop.getAfterBody());
    } while (join_all(loop.getBeforeArguments(), loop.getYieldOp().getResults()));
    assign_all(loop.getResults(), loop.getConditionOp().getArgs());
    return;
  }
  for (Region& region : op->getRegions())
    for (Block& block : region) VisitBlock(block);
  for (auto [i, result] : llvm::enumerate(op->getResults())) info_[result] = Compute(op, i);
}

AxisInfo AxisInfoAnalysis::Compute(Operation* op, unsigned result) const {
  Type type = op->getResult(result).getType();
  llvm::SmallVector<AxisInfo, 3> in;
  for (Value operand : op->getOperands()) in.push_back(Get(operand));
  AxisInfo info = AxisInfo::Unknown(type);

  if (auto constant = IntConstant(op)) return OfConstant(type, *constant);
  if (op->hasTrait<OpTrait::ConstantLike>()) {
    Attribute attr;
    if (matchPattern(op, m_Constant(&attr)) && isa<SplatElementsAttr>(attr)) info.constancy = ShapeOf(type);
    return info;
  }
  if (isa<tile::ProgramIdOp, tile::NumProgramsOp>(op)) {
    info.non_negative = true;
    return info;
  }
  if (auto range = dyn_cast<tile::RangeOp>(op)) {
    info.contiguity = ShapeOf(type);
    info.divisibility[0] = PowerOfTwoIn(int64_t(range.getStart()));
    info.non_negative = int32_t(range.getStart()) >= 0;
    return info;
  }
  if (isa<tile::SplatOp>(op)) {
    info.constancy = ShapeOf(type);
    for (auto& d : info.divisibility) d = in[0].divisibility[0];
    info.constant = in[0].constant;
    info.non_negative = in[0].non_negative;
    return info;
  }
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    info = in[0];
    int64_t divisor = 1;
    for (int d = 0; d < in[0].rank(); ++d) divisor = std::max(divisor, DivisorOfAll(in[0], d));
    int axis = expand.getAxis();
    info.contiguity.insert(info.contiguity.begin() + axis, 1);
    info.constancy.insert(info.constancy.begin() + axis, 1);
    info.divisibility.insert(info.divisibility.begin() + axis, divisor);
    return info;
  }
  if (isa<tile::BroadcastOp>(op)) {
    info = in[0];
    auto from = ShapeOf(op->getOperand(0).getType()), to = ShapeOf(type);
    for (int d = 0; d < info.rank(); ++d) {
      if (from[d] == to[d]) continue;
      info.divisibility[d] = DivisorOfAll(in[0], d);
      info.contiguity[d] = 1;
      info.constancy[d] = to[d];
    }
    return info;
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    info.constant = in[0].constant;
    info.non_negative = in[0].non_negative;
    for (auto [d, s] : llvm::enumerate(trans.getOrder())) {
      info.contiguity[d] = in[0].contiguity[s];
      info.constancy[d] = in[0].constancy[s];
      info.divisibility[d] = in[0].divisibility[s];
    }
    return info;
  }
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) return OfReshape(reshape, in[0]);
  if (isa<tile::UnsplatOp>(op)) {
    info.non_negative = in[0].non_negative;
    info.divisibility[0] = in[0].divisibility.empty() ? 1 : in[0].divisibility[0];
    for (int64_t d : in[0].divisibility) info.divisibility[0] = std::max(info.divisibility[0], d);
    return info;
  }
  if (auto hint = dyn_cast<tile::HintOp>(op)) {
    info = in[0];
    auto raise = [&](llvm::SmallVector<int64_t, 3>& to, std::optional<ArrayRef<int64_t>> promised) {
      if (!promised) return;
      for (auto [d, value] : llvm::enumerate(*promised))
        if (d < to.size()) to[d] = std::max(to[d], PowerOfTwoIn(value));
    };
    raise(info.contiguity, hint.getContiguity());
    raise(info.divisibility, hint.getDivisibility());
    raise(info.constancy, hint.getConstancy());
    return info;
  }
  if (isa<tile::ConvertLayoutOp>(op)) return in[0];
  if (isa<tile::AddPtrOp>(op)) return OfSum(type, in[0], in[1], false, PointeeBytes(type));
  if (isa<tile::PtrCastOp>(op)) {
    info = in[0];
    if (PointeeBytes(type) == PointeeBytes(op->getOperand(0).getType())) return info;
    for (int d = 0; d < info.rank(); ++d) info.divisibility[d] = DivisorOfAll(in[0], d);
    info.contiguity.assign(info.rank(), 1);
    return info;
  }
  if (isa<arith::AddIOp>(op)) return OfSum(type, in[0], in[1], false, 1);
  if (isa<arith::SubIOp>(op)) return OfSum(type, in[0], in[1], true, 1);
  if (isa<arith::MulIOp>(op)) return OfProduct(type, in[0], in[1]);
  if (isa<tile::DivSOp, tile::DivUOp, arith::DivSIOp, arith::DivUIOp>(op)) return OfQuotient(type, in[0], in[1]);
  if (isa<tile::RemSOp, tile::RemUOp, arith::RemSIOp, arith::RemUIOp>(op)) return OfRemainder(type, in[0], in[1], remainders_ == Remainders::kUnsigned);
  if (isa<arith::ShLIOp>(op) && in[1].constant && *in[1].constant >= 0 && *in[1].constant < 40)
    return OfProduct(type, in[0], OfConstant(op->getOperand(1).getType(), int64_t{1} << *in[1].constant));
  if (isa<arith::ShRSIOp, arith::ShRUIOp>(op) && in[1].constant && *in[1].constant >= 0 && *in[1].constant < 40)
    return OfQuotient(type, in[0], OfConstant(op->getOperand(1).getType(), int64_t{1} << *in[1].constant));
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) return OfCompare(compare, in[0], in[1]);
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp>(op)) {
    bool from_bool = getElementTypeOrSelf(op->getOperand(0).getType()).isInteger(1);
    if (isa<arith::TruncIOp>(op) && getElementTypeOrSelf(type).isInteger(1)) return OfPure(type, in);
    info = in[0];
    if (from_bool) info.constant.reset();
    if (isa<arith::TruncIOp>(op)) info.constant.reset();
    if (isa<arith::ExtUIOp>(op)) {
      if (in[0].constant && *in[0].constant < 0) info.constant.reset();
      info.non_negative = true;
    }
    return info;
  }
  if (isa<arith::SelectOp>(op)) {
    info = AxisInfo::Join(in[1], in[2]);
    for (int d = 0; d < info.rank(); ++d) {
      int64_t run = in[0].rank() == info.rank() && isa<RankedTensorType>(op->getOperand(0).getType()) ? in[0].constancy[d] : kMaxPower;
      if (info.contiguity[d] > run) {
        info.contiguity[d] = run;
        info.divisibility[d] = 1;
      }
      info.constancy[d] = Gcd(info.constancy[d], run);
    }
    info.constant.reset();
    return info;
  }
  if (isa<arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp>(op)) {
    info = OfPure(type, in);
    for (int d = 0; d < info.rank(); ++d) info.divisibility[d] = Gcd(DivisorOfAll(in[0], d), DivisorOfAll(in[1], d));
    info.non_negative = in[0].non_negative && in[1].non_negative;
    if (isa<arith::MaxSIOp>(op)) info.non_negative = in[0].non_negative || in[1].non_negative;
    return info;
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    if (!isa<RankedTensorType>(type)) return info;
    for (int d = 0, s = 0; d < info.rank(); ++d, ++s) {
      if (s == int(reduce.getAxis())) ++s;
      int64_t run = in[0].constancy[s];
      for (const AxisInfo& source : in) run = Gcd(run, source.constancy[s]);
      info.constancy[d] = run;
    }
    return info;
  }
  bool lane_by_lane = op->hasTrait<OpTrait::Elementwise>() ||
                      isa<tile::LoadOp, tile::FpToFpOp, tile::FpToIntOp, tile::MulHiUOp, tile::PtrToIntOp,
                          tile::IntToPtrOp, tile::ExternOp>(op);
  if (lane_by_lane) return OfPure(type, in);
  return info;
}

}  // namespace tessera::compiler
