#include "compiler/analysis/layouts/layout_plan.h"

#include <algorithm>
#include <numeric>

#include "compiler/analysis/layouts/dot_layouts.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;
using Layout = tile::LinearLayout;

namespace {

RankedTensorType TensorType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

llvm::SmallVector<int32_t, 4> NaturalOrder(int rank) {
  llvm::SmallVector<int32_t, 4> order(rank);
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  return order;
}

int64_t BytesOf(Type element) {
  return isa<tile::PtrType>(element) ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

llvm::SmallVector<int32_t, 4> Inverse(ArrayRef<int32_t> order) {
  llvm::SmallVector<int32_t, 4> inverse(order.size());
  for (auto [i, d] : llvm::enumerate(order)) inverse[d] = static_cast<int32_t>(i);
  return inverse;
}

// The halves of a layout of two blocks one behind the other, if they lie in different registers.
std::optional<Layout> Half(const Layout& layout) {
  int32_t top = static_cast<int32_t>(layout.shape()[0] / 2);
  std::array<Layout::Bases, Layout::kInputs> bases;
  bool found = false;
  for (int input = 0; input < Layout::kInputs; ++input) {
    for (int32_t basis : layout.bases(static_cast<Layout::Input>(input))) {
      if (basis == top && input == Layout::kRegister) found = true;
      else if (basis & top) return std::nullopt;
      else bases[input].push_back(basis);
    }
  }
  if (!found) return std::nullopt;
  return Layout({layout.shape()[0] / 2}, std::move(bases));
}

}  // namespace

bool KeepsLayout(Operation* op) {
  if (isa<tile::AddPtrOp, tile::PtrCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::FpToFpOp, tile::FpToIntOp, tile::DivSOp,
          tile::DivUOp, tile::RemSOp, tile::RemUOp, tile::MulHiUOp, tile::ExternOp, tile::InlineAsmOp, tile::HintOp, tile::MapOp>(op))
    return true;
  return op->hasTrait<OpTrait::Elementwise>();
}

LayoutPlan::LayoutPlan(func::FuncOp function, const GpuOptions& options) : options_(options) {
  function.walk<WalkOrder::PreOrder>([&](Operation* op) {
    if (isa<tile::ReduceOp, tile::ScanOp, tile::MapOp>(op)) {
      ops_.push_back(op);
      return WalkResult::skip();
    }
    ops_.push_back(op);
    return WalkResult::advance();
  });
  FindCarried(function);
  FindAccesses(function);
  for (Operation* op : ops_)
    if (auto dot = dyn_cast<tile::DotOp>(op)) dots_[op] = ChooseDotLayouts(dot, options_);
  Forward(function, Phase::kProducts);
  Forward(function, Phase::kAll);
  // What loops and branches carry and nothing gives a home to takes what its users ask for.
  for (bool found = true; found;) {
    found = false;
    CollectWants(function);
    for (const Carried& carried : carried_) {
      if (Home(carried.targets[0])) continue;
      for (Value target : carried.targets) {
        auto wanted = wants_.find(target);
        if (wanted == wants_.end()) continue;
        Layout layout = wanted->second;
        for (Value each : carried.targets) SetHome(each, layout);
        found = true;
        break;
      }
    }
    if (found) Forward(function, Phase::kAll);
  }
  for (const Carried& carried : carried_)
    if (!Home(carried.targets[0]))
      for (Value target : carried.targets) SetHome(target, Default(target.getType()));
  Forward(function, Phase::kFinal);
}

std::optional<Layout> LayoutPlan::Home(Value value) const {
  auto found = homes_.find(value);
  if (found == homes_.end()) return std::nullopt;
  return found->second;
}

bool LayoutPlan::SetHome(Value value, const Layout& layout) { return homes_.try_emplace(value, layout).second; }

Layout LayoutPlan::Coalesced(ArrayRef<int64_t> shape, ArrayRef<int32_t> order) const {
  int64_t run = 1;
  bool known = false;
  if (auto by_shape = runs_.find(shape.vec()); by_shape != runs_.end()) {
    auto by_order = by_shape->second.find(order.vec());
    known = by_order != by_shape->second.end();
    if (known) run = by_order->second.first;
  }
  if (!known) run = 4;
  return Layout::Coalesced(shape, run, options_.num_warps, order);
}

Layout LayoutPlan::Default(Type type) const {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  std::vector<int32_t> order;
  int most = 0;
  if (auto by_shape = runs_.find(shape.vec()); by_shape != runs_.end()) {
    for (const auto& [candidate, use] : by_shape->second) {
      if (use.second <= most) continue;
      most = use.second;
      order = candidate;
    }
  }
  if (order.empty()) {
    auto natural = NaturalOrder(shape.size());
    order.assign(natural.begin(), natural.end());
  }
  return Coalesced(shape, order);
}

//===-- memory accesses ---------------------------------------------------------------------------===//

LayoutPlan::Access LayoutPlan::Describe(Operation* op, const AxisInfoAnalysis& axis) const {
  Value pointer = isa<tile::AtomicRmwOp>(op) ? cast<tile::AtomicRmwOp>(op).getPtr() : op->getOperand(0);
  Value mask;
  if (auto load = dyn_cast<tile::LoadOp>(op)) mask = load.getMask();
  if (auto store = dyn_cast<tile::StoreOp>(op)) mask = store.getMask();
  auto type = TensorType(pointer);
  Access access;
  access.bytes = BytesOf(cast<tile::PtrType>(type.getElementType()).getPointee());
  access.order = NaturalOrder(type.getRank());
  if (type.getRank() == 0) return access;
  AxisInfo info = axis.Get(pointer);
  llvm::stable_sort(access.order, [&](int32_t a, int32_t b) { return info.contiguity[a] > info.contiguity[b]; });
  int fast = access.order[0];
  int64_t run = std::min(info.contiguity[fast], std::max<int64_t>(1, 16 / access.bytes));
  while (run > 1 && info.divisibility[fast] % (run * access.bytes) != 0) run /= 2;
  if (mask) run = std::gcd(run, axis.Get(mask).constancy[fast]);
  access.run = info.contiguity[fast] > 1 ? std::max<int64_t>(1, run) : 0;  // 0: scattered
  return access;
}

void LayoutPlan::FindAccesses(func::FuncOp function) {
  AxisInfoAnalysis axis(function, AxisInfoAnalysis::Remainders::kUnsigned);
  std::map<std::vector<int64_t>, int64_t> widest;
  for (Operation* op : ops_) {
    if (!isa<tile::LoadOp, tile::StoreOp, tile::AtomicRmwOp, tile::AtomicCasOp>(op)) continue;
    if (!TensorType(op->getOperand(0))) continue;
    Access access = Describe(op, axis);
    accesses_[op] = access;
    std::vector<int64_t> shape = TensorType(op->getOperand(0)).getShape().vec();
    int64_t& bytes = widest[shape];
    bytes = std::max(bytes, access.bytes);
    if (access.run == 0) continue;
    auto& use = runs_[shape][std::vector<int32_t>(access.order.begin(), access.order.end())];
    use.first = std::max(use.first, access.run);
    ++use.second;
  }
  // Blocks of mixed element types: no thread reads more than 32 bytes in a row.
  for (auto& [shape, orders] : runs_)
    for (auto& [order, use] : orders) use.first = std::min(use.first, std::max<int64_t>(1, 32 / widest[shape]));
}

bool LayoutPlan::IsSmallLoad(Operation* op) const {
  auto load = dyn_cast<tile::LoadOp>(op);
  if (!load || load.getIsVolatile()) return false;
  return TensorType(load.getResult()).getNumElements() <= 64 * options_.num_warps;
}

bool LayoutPlan::Serves(const Layout& layout, const Access& access) const {
  if (access.run == 0) return true;
  if (layout.elements() <= 128 * options_.num_warps) return true;
  int fast = access.order[0];
  // Bytes in a row that a warp reaches with one access.
  Layout::Vector vector = layout.VectorAlong(fast, std::max<int64_t>(1, 16 / access.bytes));
  int64_t covered = vector.size;
  for (bool grown = true; grown;) {
    grown = false;
    for (int32_t basis : layout.bases(Layout::kLane)) {
      if (basis != static_cast<int32_t>(covered * layout.Stride(fast))) continue;
      covered *= 2;
      grown = true;
    }
  }
  covered = std::min(covered, layout.shape()[fast]);
  Layout best = Coalesced(layout.shape(), access.order);
  int64_t best_vector = best.VectorAlong(fast, std::max<int64_t>(1, access.run)).size;
  return covered * access.bytes >= std::min<int64_t>(32, layout.shape()[fast] * access.bytes) && vector.size * 2 >= best_vector;
}

//===-- homes -------------------------------------------------------------------------------------===//

void LayoutPlan::FindCarried(func::FuncOp function) {
  auto add = [&](llvm::SmallVector<Value, 2> targets, llvm::SmallVector<OpOperand*, 2> sources) {
    if (TensorType(targets[0])) carried_.push_back({std::move(targets), std::move(sources)});
  };
  for (Operation* op : ops_) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      Operation* yield = loop.getBody()->getTerminator();
      for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
        add({argument, loop.getResult(i)}, {&loop.getInitArgsMutable()[i], &yield->getOpOperand(i)});
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (unsigned i = 0; i < branch.getNumResults(); ++i)
        add({branch.getResult(i)}, {&branch.thenYield()->getOpOperand(i), &branch.elseYield()->getOpOperand(i)});
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      for (auto [i, argument] : llvm::enumerate(loop.getBeforeArguments()))
        add({argument}, {&loop.getInitsMutable()[i], &loop.getYieldOp()->getOpOperand(i)});
      for (auto [j, argument] : llvm::enumerate(loop.getAfterArguments()))
        add({argument, loop.getResult(j)}, {&loop.getConditionOp()->getOpOperand(j + 1)});
    }
  }
}

std::optional<Layout> LayoutPlan::SourceLayout(ValueRange sources) const {
  for (Value source : sources)
    if (auto home = Home(source)) return home;
  return std::nullopt;
}

Layout LayoutPlan::HomeOrDefault(Value value) const {
  if (auto home = Home(value)) return *home;
  return Default(value.getType());
}

void LayoutPlan::Forward(func::FuncOp, Phase phase) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation* op : ops_) changed |= ForwardOp(op, phase);
    changed |= ForwardCarried(phase);
  }
}

bool LayoutPlan::ForwardCarried(Phase) {
  bool changed = false;
  for (const Carried& carried : carried_) {
    if (Home(carried.targets[0])) continue;
    for (OpOperand* source : carried.sources) {
      auto home = Home(source->get());
      if (!home) continue;
      for (Value target : carried.targets) changed |= SetHome(target, *home);
      break;
    }
  }
  return changed;
}

bool LayoutPlan::ForwardOp(Operation* op, Phase phase) {
  if (op->getNumResults() == 0 || Home(op->getResult(0)) || isa<scf::ForOp, scf::IfOp, scf::WhileOp>(op)) return false;
  RankedTensorType type = TensorType(op->getResult(0));
  if (!type) return false;
  auto set = [&](const Layout& layout) {
    for (Value result : op->getResults()) SetHome(result, layout);
    return true;
  };
  bool all = phase != Phase::kProducts, final = phase == Phase::kFinal;
  if (isa<tile::DotOp>(op)) return set(dots_[op].c);
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    if (!all || IsSmallLoad(op)) return false;
    auto pointer = Home(load.getPtr());
    if (pointer && Serves(*pointer, accesses_[op])) return set(*pointer);
    if (accesses_[op].run == 0) return set(Default(type));
    return set(Coalesced(type.getShape(), accesses_[op].order));
  }
  if (isa<tile::AtomicRmwOp, tile::AtomicCasOp>(op)) {
    if (!all) return false;
    if (auto home = SourceLayout(op->getOperands())) return set(*home);
    return final && set(Default(type));
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    auto source = SourceLayout(reduce.getSources());
    if (!source && final) source = Default(reduce.getSources()[0].getType());
    return source && set(source->Sliced(reduce.getAxis()));
  }
  if (isa<tile::ScanOp, tile::SortOp>(op)) {
    auto source = SourceLayout(op->getOperands());
    if (!source && final) source = Default(type);
    return source && set(*source);
  }
  if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    auto index = Home(gather.getIndex());
    if (!index && final) index = Default(type);
    return index && set(*index);
  }
  if (isa<tile::HistogramOp>(op)) return all && set(Default(type));
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    auto source = Home(reshape.getSource());
    return source && set(source->Reshaped(type.getShape()));
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    auto source = Home(trans.getSource());
    return source && set(source->Transposed(trans.getOrder()));
  }
  if (isa<tile::JoinOp, tile::CatOp>(op)) {
    auto source = SourceLayout(op->getOperands());
    if (!source && final && isa<tile::CatOp>(op)) source = Default(op->getOperand(0).getType());
    return source && set(isa<tile::JoinOp>(op) ? source->Joined() : source->Concatenated());
  }
  if (auto split = dyn_cast<tile::SplitOp>(op)) {
    auto source = Home(split.getSource());
    if (!source) return false;
    auto half = source->Split();
    return set(half ? *half : Default(type));
  }
  if (KeepsLayout(op)) {
    if (auto home = SourceLayout(op->getOperands())) return set(*home);
    return final && !isMemoryEffectFree(op) && set(Default(type));
  }
  return false;
}

//===-- demands -----------------------------------------------------------------------------------===//

Layout LayoutPlan::Demand(Operation* op, unsigned i, const Layout* result) const {
  Value operand = op->getOperand(i);
  auto home = [&]() -> Layout {
    if (result) return *result;
    return HomeOrDefault(op->getResult(0));
  };
  if (auto dot = dots_.find(op); dot != dots_.end()) {
    if (i == 0 && dot->second.a) return *dot->second.a;
    if (i == 1 && dot->second.b) return *dot->second.b;
    if (i == 2) return dot->second.c;
    return HomeOrDefault(operand);
  }
  if (isa<tile::StoreOp>(op)) {
    auto value = Home(op->getOperand(1));
    if (!value) value = Home(op->getOperand(0));
    const Access& access = accesses_.find(op)->second;
    if (value && Serves(*value, access)) return *value;
    if (access.run == 0) return Default(op->getOperand(0).getType());
    return Coalesced(TensorType(op->getOperand(0)).getShape(), access.order);
  }
  if (isa<tile::ReduceOp>(op)) {
    auto source = SourceLayout(op->getOperands());
    return source ? *source : Default(operand.getType());
  }
  if (isa<tile::ExpandDimsOp, tile::ReshapeOp>(op)) return home().Reshaped(TensorType(operand).getShape());
  if (isa<tile::BroadcastOp>(op)) return home().CollapsedTo(TensorType(operand).getShape());
  if (auto trans = dyn_cast<tile::TransOp>(op)) return home().Transposed(Inverse(trans.getOrder()));
  if (isa<tile::JoinOp>(op)) return *home().Split();
  if (isa<tile::CatOp>(op)) return *Half(home());
  if (isa<tile::SplitOp>(op)) {
    auto source = Home(operand);
    if (source && source->Split()) return *source;
    return home().Joined();
  }
  if (isa<tile::GatherOp>(op)) return i == 1 ? home() : HomeOrDefault(operand);
  if (isa<tile::HistogramOp, tile::AssertOp>(op)) {
    auto source = SourceLayout(op->getOperands());
    return source ? *source : Default(operand.getType());
  }
  if (isa<tile::PrintOp, tile::UnsplatOp>(op)) return HomeOrDefault(operand);
  if (op->getNumResults() > 0 && TensorType(op->getResult(0))) return home();
  return HomeOrDefault(operand);
}

Layout LayoutPlan::Feasible(Value value, const Layout& wanted) const {
  Operation* op = value.getDefiningOp();
  if (isa_and_nonnull<tile::JoinOp>(op) && !wanted.Split()) return HomeOrDefault(op->getOperand(0)).Joined();
  if (isa_and_nonnull<tile::CatOp>(op) && !Half(wanted)) return HomeOrDefault(op->getOperand(0)).Concatenated();
  return wanted;
}

void LayoutPlan::CollectWants(func::FuncOp) {
  wants_.clear();
  auto want = [&](Value value, const Layout& layout) {
    if (TensorType(value) && !Home(value)) wants_.try_emplace(value, layout);
  };
  for (Operation* op : llvm::reverse(ops_)) {
    // What a region yields is wanted as the result is.
    if (op->hasTrait<OpTrait::IsTerminator>() || isa<scf::ForOp, scf::IfOp, scf::WhileOp, func::FuncOp>(op)) continue;
    std::optional<Layout> result;
    bool floats = op->getNumResults() > 0 && TensorType(op->getResult(0)) && !Home(op->getResult(0));
    if (floats) {
      for (Value each : op->getResults())
        if (auto wanted = wants_.find(each); wanted != wants_.end() && !result) result = Feasible(each, wanted->second);
      // Nobody has asked for it so far; later rounds may.
      if (!result) continue;
    }
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (TensorType(operand)) want(operand, Demand(op, i, floats ? &*result : nullptr));
  }
  // Along carried values, as far as they float.
  for (const Carried& carried : carried_) {
    for (Value target : carried.targets) {
      auto wanted = wants_.find(target);
      if (wanted == wants_.end()) continue;
      Layout layout = wanted->second;  // inserting moves it
      for (OpOperand* source : carried.sources) want(source->get(), layout);
    }
  }
}

}  // namespace tessera::compiler
