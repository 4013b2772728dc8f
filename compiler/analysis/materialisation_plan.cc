#include "compiler/analysis/materialisation_plan.h"

#include <algorithm>
#include <functional>
#include <map>

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

bool IsLaneByLane(Operation* op) {
  return op->hasTrait<OpTrait::Elementwise>() ||
         isa<tile::FpToFpOp, tile::FpToIntOp, tile::DivSOp, tile::DivUOp, tile::RemSOp, tile::RemUOp, tile::MulHiUOp,
             tile::AddPtrOp, tile::PtrCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::LoadOp, tile::ExternOp,
             tile::HintOp>(op);
}

namespace {

// Evaluating an element again is worth avoiding only beyond this: writing it and reading it back cost about as much
// as two simple operations each.
constexpr double kWriteCost = 2, kReadCost = 2;
// Trip count that a loop is taken to have.
constexpr double kLoopTrips = 16;

bool IsBlock(Value v) { return isa<RankedTensorType>(v.getType()); }
RankedTensorType BlockType(Value v) { return cast<RankedTensorType>(v.getType()); }

bool TouchesBlocks(Operation* op) {
  return llvm::any_of(op->getOperands(), IsBlock) || llvm::any_of(op->getResults(), IsBlock);
}

enum class Nature { kScalar, kInline, kStore, kReduce, kWhole, kControl, kExtract, kTerminator };

Nature NatureOf(Operation* op) {
  if (op->hasTrait<OpTrait::IsTerminator>()) return Nature::kTerminator;
  if (isa<scf::ForOp, scf::IfOp, scf::WhileOp>(op)) return Nature::kControl;
  if (!TouchesBlocks(op)) return Nature::kScalar;
  if (isa<tile::StoreOp>(op)) return Nature::kStore;
  if (isa<tile::ReduceOp>(op)) return Nature::kReduce;
  if (isa<tile::UnsplatOp>(op)) return Nature::kExtract;
  if (isa<tile::DotOp, tile::ScanOp, tile::SortOp, tile::HistogramOp, tile::AtomicRmwOp, tile::AtomicCasOp,
          tile::MapOp, tile::PrintOp, tile::AssertOp, tile::InlineAsmOp, tile::DescStoreOp>(op))
    return Nature::kWhole;
  return Nature::kInline;
}

// Whether the memory of the user may change.
bool WritesUserMemory(Operation* op) {
  if (auto load = dyn_cast<tile::LoadOp>(op)) return load.getIsVolatile();
  if (auto assembly = dyn_cast<tile::InlineAsmOp>(op)) return !assembly.getIsPure();
  return isa<tile::StoreOp, tile::AtomicRmwOp, tile::AtomicCasOp, tile::DescStoreOp>(op);
}

int64_t StorageBytes(Type element) {
  if (isa<tile::PtrType>(element)) return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

// The function argument (or other origin) that a pointer was made from.
Value BaseOf(Value pointer) {
  while (Operation* op = pointer.getDefiningOp()) {
    if (!isa<tile::AddPtrOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp,
             tile::PtrCastOp, tile::HintOp>(op))
      break;
    pointer = op->getOperand(0);
  }
  return pointer;
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(MaterialisationPlan* plan, func::FuncOp kernel, const AxisInfoAnalysis& axis, int vector_bits)
      : plan_(*plan), kernel_(kernel), axis_(axis), vector_bits_(vector_bits) {}

  void Build() {
    kernel_.walk<WalkOrder::PreOrder>([&](Block* block) { plan_.block_order_.push_back(block); });
    Number(kernel_);
    PlaceCarried();
    DecideAll();
    for (Block& block : kernel_.getBody()) BuildSteps(block);
    ShareWithCarried();
    PlanCarriedWrites();
    AssignOffsets();
  }

 private:
  using LeafFn = llvm::function_ref<void(Value leaf, bool same_index)>;

  //===-- order of operations -----------------------------------------------------------------===//

  void Number(Operation* op) {
    position_[op] = next_position_++;
    ops_.push_back(op);
    for (Region& region : op->getRegions())
      for (Block& block : region)
        for (Operation& inner : block) Number(&inner);
    end_[op] = next_position_++;
  }

  int EmitPosition(Operation* op) const {
    auto moved = moved_to_.find(op);
    return position_.lookup(moved == moved_to_.end() ? op : moved->second);
  }

  // The operation before which an operand of a dot is packed: as many loops further out as it is invariant in.
  static Operation* PackPoint(tile::DotOp dot, Value operand) {
    Operation* at = dot;
    while (true) {
      Operation* parent = at->getParentOp();
      if (!isa<scf::ForOp, scf::WhileOp>(parent) || parent->isAncestor(operand.getParentBlock()->getParentOp())) return at;
      at = parent;
    }
  }

  //===-- what is kept in memory ----------------------------------------------------------------===//

  Buffer* NewBuffer(ArrayRef<int64_t> shape, Type element, int64_t bytes, std::string purpose) {
    auto buffer = std::make_unique<Buffer>();
    buffer->id = plan_.buffers_.size();
    buffer->shape.assign(shape.begin(), shape.end());
    buffer->element = element;
    buffer->bytes = bytes;
    buffer->purpose = std::move(purpose);
    plan_.buffers_.push_back(std::move(buffer));
    return plan_.buffers_.back().get();
  }

  Buffer* BufferFor(Value value, std::string purpose) {
    RankedTensorType type = BlockType(value);
    Buffer* buffer = NewBuffer(type.getShape(), type.getElementType(),
                               type.getNumElements() * StorageBytes(type.getElementType()), std::move(purpose));
    plan_.buffer_of_[value] = buffer;
    return buffer;
  }

  Buffer* Find(Value value) const { return plan_.buffer_of_.lookup(value); }

  // Results that only exist as a whole.
  void PlaceCarried() {
    for (Operation* op : ops_) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (auto [argument, result] : llvm::zip(loop.getRegionIterArgs(), loop.getResults()))
          if (IsBlock(argument)) plan_.buffer_of_[result] = BufferFor(argument, "carried");
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        for (Value result : branch.getResults())
          if (IsBlock(result)) BufferFor(result, "branch");
      } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
        for (Value argument : loop.getBeforeArguments())
          if (IsBlock(argument)) BufferFor(argument, "carried");
        for (auto [argument, result] : llvm::zip(loop.getAfterArguments(), loop.getResults()))
          if (IsBlock(argument)) plan_.buffer_of_[result] = BufferFor(argument, "carried");
      }
      Nature nature = NatureOf(op);
      if (nature == Nature::kWhole || nature == Nature::kReduce)
        for (Value result : op->getResults())
          if (IsBlock(result) && !result.use_empty()) BufferFor(result, op->getName().stripDialect().str());
      if (auto gather = dyn_cast<tile::GatherOp>(op)) forced_.insert(gather.getSource());
      if (auto load = dyn_cast<tile::LoadOp>(op))
        if (load.getIsVolatile() && IsBlock(load.getResult())) forced_.insert(load.getResult());
    }
  }

  double OwnCost(Operation* op) const {
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    bool is_double = element.isF64();
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      AxisInfo info = axis_.Get(load.getPtr());
      for (int d = 0; d < info.rank(); ++d) {
        int64_t extent = BlockType(load.getResult()).getDimSize(d);
        if (extent == 1) continue;
        int64_t lanes = std::min<int64_t>(extent, vector_bits_ / 32);
        if (info.contiguity[d] >= lanes || info.constancy[d] >= lanes) return 2;
      }
      return BlockType(load.getResult()).getNumElements() == 1 ? 2 : 20;
    }
    if (op->hasTrait<OpTrait::ConstantLike>() ||
        isa<tile::RangeOp, tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp,
            tile::HintOp, tile::SplitOp>(op))
      return 0;
    if (isa<tile::DivSOp, tile::DivUOp, tile::RemSOp, tile::RemUOp>(op)) {
      auto divisor = axis_.Get(op->getOperand(1)).constant;
      return divisor && (*divisor & (*divisor - 1)) == 0 ? 2 : 16;
    }
    if (isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp, math::TruncOp, math::FmaOp, math::CopySignOp>(op))
      return 1;
    if (isa<math::MathDialect>(op->getDialect())) return is_double ? 80 : 20;
    if (isa<tile::ExternOp>(op)) return is_double ? 80 : 25;
    if (isa<arith::DivFOp, math::SqrtOp>(op)) return 6;
    if (isa<arith::RemFOp>(op)) return 80;
    if (isa<tile::FpToFpOp, tile::FpToIntOp>(op)) {
      bool small = element.getIntOrFloatBitWidth() < 16 ||
                   getElementTypeOrSelf(op->getOperand(0).getType()).getIntOrFloatBitWidth() < 16;
      return small ? 8 : 2;
    }
    if (isa<tile::GatherOp>(op)) return 20;
    if (isa<tile::JoinOp, tile::CatOp>(op)) return 4;
    return 1;
  }

  // Cost of one element of `value`, evaluated where it is used.
  double CostOf(Value value) {
    if (!IsBlock(value)) return 0;
    if (Find(value)) return kReadCost;
    auto known = cost_.find(value);
    if (known != cost_.end()) return known->second;
    Operation* op = value.getDefiningOp();
    double cost = OwnCost(op);
    for (Value operand : op->getOperands()) cost += CostOf(operand);
    cost = std::min(cost, 1e6);
    cost_[value] = cost;
    return cost;
  }

  // How often an element of operand `source` of `user` is evaluated for each element of the operand, when each element
  // of the result is evaluated once: dimensions that are repeated outside the source's own are loops around it.
  static double Repetition(Operation* user, Value source) {
    auto broadcast = dyn_cast<tile::BroadcastOp>(user);
    if (!broadcast) return 1;
    auto from = BlockType(source), to = BlockType(broadcast.getResult());
    int innermost = -1;
    for (int d = 0; d < from.getRank(); ++d)
      if (from.getDimSize(d) > 1) innermost = d;
    double repetition = 1;
    for (int d = 0; d < innermost; ++d) repetition *= double(to.getDimSize(d)) / from.getDimSize(d);
    return repetition;
  }

  // Share of the lanes at which an access evaluates its addresses: consecutive ones take the first alone.
  double AddressShare(Operation* user, Value source) const {
    Value pointer;
    if (auto load = dyn_cast<tile::LoadOp>(user)) pointer = load.getPtr();
    if (auto store = dyn_cast<tile::StoreOp>(user)) pointer = store.getPtr();
    if (source != pointer) return 1;
    AxisInfo info = axis_.Get(pointer);
    double share = 1;
    for (int64_t run : info.contiguity) share = std::min(share, 1.0 / std::min<int64_t>(run, vector_bits_ / 32));
    return share;
  }

  static double LoopFactor(Block* definition, Operation* user) {
    double factor = 1;
    for (Operation* op = user; op && op->getBlock() != definition; op = op->getParentOp())
      if (isa_and_nonnull<scf::ForOp, scf::WhileOp>(op->getParentOp())) factor *= kLoopTrips;
    return std::min(factor, 1e6);
  }

  void AddSite(Value value, Operation* root, double weight) {
    double& known = sites_[value][root];
    known = std::max(known, weight);
  }

  // Where a root evaluates its operands: its position, and the end of the outermost loop around it that does not hold
  // the value's definition.
  int LastEvaluation(Value value, Operation* root) {
    Operation* at = root;
    if (auto dot = dyn_cast<tile::DotOp>(root)) {
      // Each operand is packed on its own; the latest counts.
      at = dot;
    }
    int last = position_.lookup(at);
    for (Operation* op = at; op && op->getBlock() != value.getParentBlock(); op = op->getParentOp())
      if (isa_and_nonnull<scf::ForOp, scf::WhileOp>(op->getParentOp()) &&
          !op->getParentOp()->isAncestor(value.getParentBlock()->getParentOp()))
        last = std::max(last, end_.lookup(op->getParentOp()));
    return last;
  }

  bool CrossesWrite(tile::LoadOp load, const std::map<Operation*, double>& roots) {
    int from = position_.lookup(load);
    for (const auto& [root, weight] : roots) {
      int to = LastEvaluation(load.getResult(), root);
      for (Operation* write : writes_) {
        int at = position_.lookup(write);
        if (at > from && at < to && write != root) return true;
      }
      if (auto store = dyn_cast<tile::StoreOp>(root))
        if (MayOverlap(load, store)) return true;
    }
    return false;
  }

  // Whether storing one chunk may change what the load reads in the next.
  static bool MayOverlap(tile::LoadOp load, tile::StoreOp store) {
    return load.getPtr() != store.getPtr() && BaseOf(load.getPtr()) == BaseOf(store.getPtr());
  }

  void DecideAll() {
    for (Operation* op : ops_)
      if (WritesUserMemory(op)) writes_.push_back(op);
    for (Operation* op : llvm::reverse(ops_)) Decide(op);
  }

  void Decide(Operation* op) {
    Nature nature = NatureOf(op);
    if (nature != Nature::kInline) {
      for (OpOperand& operand : op->getOpOperands()) {
        if (!IsBlock(operand.get())) continue;
        bool packed = isa<tile::DotOp>(op) && operand.getOperandNumber() < 2;
        double factor = packed ? 1 : LoopFactor(operand.get().getParentBlock(), op);
        factor *= AddressShare(op, operand.get());
        AddSite(operand.get(), op, factor);
      }
      return;
    }
    Value value = op->getResult(0);
    std::map<Operation*, double> roots;
    for (Value result : op->getResults()) {
      auto found = sites_.find(result);
      if (found == sites_.end()) continue;
      for (auto& [root, weight] : found->second) {
        double& known = roots[root];
        known = std::max(known, weight);
      }
    }
    if (roots.empty() && !forced_.count(value)) return;
    bool keep = op->getNumResults() == 1 && IsWorthKeeping(op, value, roots);
    if (keep) {
      BufferFor(value, isa<tile::LoadOp>(op) ? "load" : "value");
      for (Value operand : op->getOperands())
        if (IsBlock(operand)) AddSite(operand, op, Repetition(op, operand) * AddressShare(op, operand) * LoopFactor(operand.getParentBlock(), op));
      return;
    }
    for (Value operand : op->getOperands()) {
      if (!IsBlock(operand)) continue;
      double factor = Repetition(op, operand) * AddressShare(op, operand) * LoopFactor(operand.getParentBlock(), op);
      for (auto& [root, weight] : roots) AddSite(operand, root, weight * factor);
    }
  }

  bool IsWorthKeeping(Operation* op, Value value, const std::map<Operation*, double>& roots) {
    if (forced_.count(value)) return true;
    // Moving elements costs nothing: what they come from may be kept.
    if (isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp, tile::HintOp>(op)) return false;
    if (auto load = dyn_cast<tile::LoadOp>(op))
      if (CrossesWrite(load, roots)) return true;
    double uses = 0;
    for (auto& [root, weight] : roots) uses += weight;
    double cost = CostOf(value);
    return cost * uses > 1.25 * (cost + kWriteCost + kReadCost * uses);
  }

  //===-- steps ---------------------------------------------------------------------------------===//

  // Calls `fn` for all that evaluating the operands of `op` reads: values in memory and scalars.
  void ForLeaves(Operation* op, LeafFn fn) const {
    llvm::DenseMap<Value, int> seen;  // 1: visited at another index, 2: also at the same index
    std::function<void(Value, bool)> visit = [&](Value value, bool same_index) {
      int& mark = seen[value];
      int level = same_index ? 1 : 2;
      if (mark & level) return;
      mark |= level;
      if (!IsBlock(value) || Find(value)) return fn(value, same_index);
      Operation* inner = value.getDefiningOp();
      bool keeps = IsLaneByLane(inner);
      for (Value operand : inner->getOperands()) visit(operand, same_index && keeps);
    };
    bool by_index = isa<tile::StoreOp, tile::ReduceOp, scf::YieldOp, scf::ConditionOp, scf::ForOp, scf::WhileOp>(op) || IsLaneByLane(op);
    for (OpOperand& operand : op->getOpOperands())
      visit(operand.get(), by_index || (isa<tile::DotOp>(op) && operand.getOperandNumber() == 2));
    if (NatureOf(op) == Nature::kControl) return;
    for (Region& region : op->getRegions())
      region.walk([&](Operation* inner) {
        for (Value operand : inner->getOperands())
          if (!region.isAncestor(operand.getParentRegion())) visit(operand, false);
      });
  }

  // Leaves of one value alone, as an operand of a terminator.
  void ForLeavesOf(Value value, LeafFn fn) const {
    llvm::DenseMap<Value, int> seen;
    std::function<void(Value, bool)> visit = [&](Value v, bool same_index) {
      int& mark = seen[v];
      int level = same_index ? 1 : 2;
      if (mark & level) return;
      mark |= level;
      if (!IsBlock(v) || Find(v)) return fn(v, same_index);
      bool keeps = IsLaneByLane(v.getDefiningOp());
      for (Value operand : v.getDefiningOp()->getOperands()) visit(operand, same_index && keeps);
    };
    visit(value, true);
  }

  // Loads that evaluating the operands of `op` performs.
  void ForLoads(Operation* op, llvm::function_ref<void(tile::LoadOp)> fn) const {
    llvm::SmallPtrSet<Operation*, 16> seen;
    llvm::SmallVector<Operation*> work{op};
    while (!work.empty()) {
      Operation* next = work.pop_back_val();
      if (!seen.insert(next).second) continue;
      if (auto load = dyn_cast<tile::LoadOp>(next)) fn(load);
      for (Value operand : next->getOperands())
        if (IsBlock(operand) && !Find(operand)) work.push_back(operand.getDefiningOp());
    }
  }

  struct OpenNest {
    Step step;
    llvm::SmallPtrSet<Operation*, 4> made;  // operations whose results it makes
    bool valid = false;
  };

  static llvm::SmallVector<int64_t, 3> IterationShape(Operation* op) {
    Value shaped;
    if (auto store = dyn_cast<tile::StoreOp>(op)) shaped = store.getValue();
    else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) shaped = reduce.getSources()[0];
    else shaped = op->getResult(0);
    return llvm::SmallVector<int64_t, 3>(BlockType(shaped).getShape());
  }

  void BuildSteps(Block& block) {
    std::vector<Step> steps;
    OpenNest open;
    auto close = [&] {
      if (!open.valid) return;
      for (Operation* op : open.step.ops) moved_to_[op] = open.step.ops.back();
      steps.push_back(open.step);
      open = OpenNest();
    };
    for (Operation& op : block) {
      Nature nature = NatureOf(&op);
      bool nest = nature == Nature::kStore || nature == Nature::kReduce ||
                  (nature == Nature::kInline && op.getNumResults() == 1 && Find(op.getResult(0)));
      // Combine functions and the like: steps for control flow inside them.
      if (nature != Nature::kControl)
        for (Region& region : op.getRegions())
          for (Block& inner : region) BuildSteps(inner);
      if (nature == Nature::kInline && !nest) continue;
      // The first pack of an operand happens before the operation it is planned at.
      if (auto dot = dyn_cast<tile::DotOp>(op)) PlanPacks(dot);
      if (nature == Nature::kTerminator || nature == Nature::kControl || nature == Nature::kWhole) {
        close();
        if (nature == Nature::kTerminator) continue;
        steps.push_back({nature == Nature::kControl ? StepKind::kControl : StepKind::kWhole, {&op}, {}, -1});
        for (Region& region : op.getRegions())
          if (nature == Nature::kControl)
            for (Block& inner : region) BuildSteps(inner);
        continue;
      }
      bool depends = false, by_index = true;
      ForLeaves(&op, [&](Value leaf, bool same_index) {
        Operation* maker = leaf.getDefiningOp();
        if (!maker || !open.made.count(maker)) return;
        depends = true;
        by_index &= same_index && !isa<tile::ReduceOp>(maker);
      });
      if (!nest) {
        if (depends || WritesUserMemory(&op)) close();
        steps.push_back({nature == Nature::kExtract ? StepKind::kExtract : StepKind::kScalar, {&op}, {}, -1});
        continue;
      }
      if (!Joins(open, &op, depends, by_index)) {
        close();
        open.valid = true;
        open.step = {StepKind::kNest, {}, IterationShape(&op), -1};
      }
      open.step.ops.push_back(&op);
      open.made.insert(&op);
      if (auto reduce = dyn_cast<tile::ReduceOp>(op)) open.step.axis = reduce.getAxis();
      if (WritesUserMemory(&op)) close();
    }
    close();
    plan_.steps_[&block] = std::move(steps);
  }

  bool Joins(const OpenNest& open, Operation* op, bool depends, bool by_index) const {
    if (!open.valid || open.step.shape != IterationShape(op)) return false;
    if (depends && !by_index) return false;
    if (auto reduce = dyn_cast<tile::ReduceOp>(op))
      if (open.step.axis >= 0 && (open.step.axis != int(reduce.getAxis()))) return false;
    if (auto load = dyn_cast<tile::LoadOp>(op))
      if (load.getIsVolatile()) return false;
    if (auto store = dyn_cast<tile::StoreOp>(op)) {
      bool overlaps = false;
      for (Operation* member : open.step.ops) {
        // A load is kept because of a write like this one.
        overlaps |= isa<tile::LoadOp>(member);
        ForLoads(member, [&](tile::LoadOp load) { overlaps |= MayOverlap(load, store); });
      }
      return !overlaps;
    }
    return true;
  }

  void PlanPacks(tile::DotOp dot) {
    DotTiling tiling = TileDot(dot, vector_bits_);
    int64_t bytes = tiling.compute.getIntOrFloatBitWidth() / 8;
    auto plan = [&](Value operand, bool is_b, int64_t elements) {
      Operation* at = PackPoint(dot, operand);
      Buffer* buffer = NewBuffer({elements}, tiling.compute, elements * bytes, is_b ? "packed b" : "packed a");
      plan_.packs_[at].push_back({dot, is_b, at, buffer});
      return buffer;
    };
    plan_.packed_[dot].first = plan(dot.getA(), false, tiling.packed_a_elements());
    plan_.packed_[dot].second = plan(dot.getB(), true, tiling.packed_b_elements());
  }

  //===-- carried values --------------------------------------------------------------------------===//

  // Every operation that reads a value in memory, with whether it does so at its own index alone.
  struct Read {
    Operation* op;
    Value value;
    bool same_index;
  };

  void CollectReads() {
    reads_.clear();
    for (Operation* op : ops_) {
      Nature nature = NatureOf(op);
      bool inlined = nature == Nature::kInline && !(op->getNumResults() == 1 && Find(op->getResult(0)));
      if (inlined || op == kernel_) continue;
      ForLeaves(op, [&](Value leaf, bool same_index) {
        if (IsBlock(leaf)) reads_[leaf].push_back({op, leaf, same_index});
      });
    }
  }

  // Lets values that a loop yields be made in the carried memory itself where nothing reads the old value any more.
  void ShareWithCarried() {
    CollectReads();
    // Inner loops first, so that an inner loop's memory can become the outer one's.
    for (Operation* op : llvm::reverse(ops_)) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop) continue;
      for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
        if (!IsBlock(argument)) continue;
        Value yielded = loop.getYieldedValues()[i];
        Buffer* carried = Find(argument);
        Buffer* own = Find(yielded);
        if (!own || own == carried || !CanShare(loop, argument, yielded)) continue;
        for (auto& [value, buffer] : plan_.buffer_of_)
          if (buffer == own) buffer = carried;
        own->bytes = 0;  // dropped
      }
    }
  }

  bool CanShare(scf::ForOp loop, BlockArgument argument, Value yielded) {
    Operation* maker = yielded.getDefiningOp();
    if (!maker || maker->getBlock() != loop.getBody()) return false;
    if (Find(yielded)->element != Find(argument)->element) return false;
    if (llvm::count(loop.getYieldedValues(), yielded) != 1) return false;
    // The same memory may already be carried under another name.
    for (Value other : loop.getRegionIterArgs())
      if (other != argument && IsBlock(other) && Find(other) == Find(yielded)) return false;
    auto step_of = [&](Operation* op) { return moved_to_.count(op) ? moved_to_.lookup(op) : op; };
    for (const Read& read : reads_[argument]) {
      if (maker->isProperAncestor(read.op)) return false;  // inside an inner loop or branch
      if (read.op == maker) {
        bool in_place = isa<tile::DotOp, scf::ForOp>(maker) || (NatureOf(maker) == Nature::kInline);
        if (!in_place || !read.same_index) return false;
        if (isa<tile::DotOp>(maker)) continue;
        continue;
      }
      Operation* here = loop.getBody()->findAncestorOpInBlock(*read.op);
      if (step_of(here) == step_of(maker)) return false;
      if (EmitPosition(here) > EmitPosition(maker)) return false;
    }
    // A dot packs its operands before it starts to write; hoisted ones were packed earlier still.
    return true;
  }

  void PlanCarriedWrites() {
    for (Operation* op : ops_) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        llvm::SmallVector<Value> targets(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
        plan_.inits_[op] = OrderWrites(loop.getInitArgs(), targets, op);
        Operation* yield = loop.getBody()->getTerminator();
        plan_.yields_[yield] = OrderWrites(yield->getOperands(), targets, yield);
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        llvm::SmallVector<Value> targets(branch.getResults().begin(), branch.getResults().end());
        for (Block* block : {branch.thenBlock(), branch.elseBlock()})
          if (block && !targets.empty())
            plan_.yields_[block->getTerminator()] = OrderWrites(block->getTerminator()->getOperands(), targets, block->getTerminator());
      } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
        llvm::SmallVector<Value> before(loop.getBeforeArguments().begin(), loop.getBeforeArguments().end());
        llvm::SmallVector<Value> after(loop.getAfterArguments().begin(), loop.getAfterArguments().end());
        plan_.inits_[op] = OrderWrites(loop.getInits(), before, op);
        Operation* condition = loop.getConditionOp();
        plan_.yields_[condition] = OrderWrites(loop.getConditionOp().getArgs(), after, condition);
        Operation* yield = loop.getYieldOp();
        plan_.yields_[yield] = OrderWrites(yield->getOperands(), before, yield);
      }
    }
  }

  // Orders parallel assignments so that nothing is overwritten before it is read; what cannot be ordered goes through
  // temporary memory.
  llvm::SmallVector<YieldAction, 4> OrderWrites(ValueRange values, ArrayRef<Value> targets, Operation* at) {
    struct Pending {
      unsigned operand;
      Value value;
      Buffer* target;
      llvm::SmallPtrSet<Buffer*, 4> reads;
      bool shifted_self = false;  // reads its own target at another index
    };
    llvm::SmallVector<Pending> pending;
    for (auto [i, value] : llvm::enumerate(values)) {
      if (!IsBlock(value)) continue;
      Buffer* target = Find(targets[i]);
      if (Find(value) == target) continue;
      Pending p{unsigned(i), value, target, {}, false};
      ForLeavesOf(value, [&](Value leaf, bool same_index) {
        if (!IsBlock(leaf)) return;
        p.reads.insert(Find(leaf));
        p.shifted_self |= Find(leaf) == target && !same_index;
        accesses_[Find(leaf)].push_back(at);
      });
      accesses_[target].push_back(at);
      pending.push_back(std::move(p));
    }
    llvm::SmallVector<YieldAction, 4> ordered;
    while (!pending.empty()) {
      auto is_free = [&](const Pending& p) {
        if (p.shifted_self) return false;
        return llvm::none_of(pending, [&](const Pending& o) { return &o != &p && o.reads.count(p.target); });
      };
      auto next = llvm::find_if(pending, is_free);
      const Buffer* temporary = nullptr;
      if (next == pending.end()) {
        next = pending.begin();
        RankedTensorType type = BlockType(next->value);
        Buffer* made = NewBuffer(type.getShape(), type.getElementType(),
                                 type.getNumElements() * StorageBytes(type.getElementType()), "temporary");
        accesses_[made].push_back(at);
        temporary = made;
      }
      ordered.push_back({next->operand, next->target, temporary});
      pending.erase(next);
    }
    return ordered;
  }

  //===-- memory ----------------------------------------------------------------------------------===//

  void CollectAccesses() {
    CollectReads();
    for (auto& [value, reads] : reads_)
      for (const Read& read : reads) accesses_[Find(value)].push_back(read.op);
    for (auto& [value, buffer] : plan_.buffer_of_) {
      Operation* maker = value.getDefiningOp();
      if (!maker) maker = value.getParentBlock()->getParentOp();
      accesses_[buffer].push_back(maker);
    }
    for (auto& [at, packs] : plan_.packs_)
      for (const PackPlan& pack : packs) {
        auto& accesses = accesses_[const_cast<Buffer*>(pack.buffer)];
        accesses.push_back(at);
        accesses.push_back(pack.dot);
        // What is packed early is read early.
        tile::DotOp dot = pack.dot;
        Value operand = pack.is_b ? dot.getB() : dot.getA();
        Operation* where = at;
        ForLeavesOf(operand, [&](Value leaf, bool) {
          if (IsBlock(leaf)) accesses_[Find(leaf)].push_back(where);
        });
      }
  }

  static Block* CommonBlock(ArrayRef<Operation*> ops) {
    Block* block = ops[0]->getBlock();
    while (!llvm::all_of(ops, [&](Operation* op) { return block->findAncestorOpInBlock(*op); }))
      block = block->getParentOp()->getBlock();
    return block;
  }

  void AssignOffsets() {
    CollectAccesses();
    std::vector<Buffer*> order;
    for (auto& owned : plan_.buffers_) {
      Buffer* buffer = owned.get();
      auto found = accesses_.find(buffer);
      if (buffer->bytes == 0 || found == accesses_.end()) {
        buffer->bytes = 0;
        continue;
      }
      Block* home = CommonBlock(found->second);
      buffer->first = next_position_;
      buffer->last = 0;
      for (Operation* op : found->second) {
        Operation* here = home->findAncestorOpInBlock(*op);
        buffer->first = std::min(buffer->first, position_.lookup(here));
        buffer->last = std::max({buffer->last, EmitPosition(here), end_.lookup(here)});
      }
      order.push_back(buffer);
    }
    std::stable_sort(order.begin(), order.end(), [](Buffer* a, Buffer* b) { return a->bytes > b->bytes; });
    std::vector<Buffer*> placed;
    for (Buffer* buffer : order) {
      std::vector<Buffer*> rivals;
      for (Buffer* other : placed)
        if (other->first <= buffer->last && buffer->first <= other->last) rivals.push_back(other);
      std::sort(rivals.begin(), rivals.end(), [](Buffer* a, Buffer* b) { return a->offset < b->offset; });
      int64_t offset = 0;
      for (Buffer* other : rivals) {
        if (offset + buffer->bytes <= other->offset) break;
        offset = std::max(offset, Align(other->offset + other->bytes));
      }
      buffer->offset = offset;
      plan_.scratch_bytes_ = std::max(plan_.scratch_bytes_, Align(offset + buffer->bytes));
      placed.push_back(buffer);
    }
  }

  static int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  MaterialisationPlan& plan_;
  func::FuncOp kernel_;
  const AxisInfoAnalysis& axis_;
  int vector_bits_;
  int next_position_ = 0;
  llvm::DenseMap<Operation*, int> position_, end_;
  std::vector<Operation*> ops_, writes_;
  llvm::DenseSet<Value> forced_;
  llvm::DenseMap<Value, double> cost_;
  llvm::DenseMap<Value, std::map<Operation*, double>> sites_;
  llvm::DenseMap<Operation*, Operation*> moved_to_;  // roots -> last operation of their nest
  llvm::DenseMap<Value, std::vector<Read>> reads_;
  llvm::DenseMap<Buffer*, std::vector<Operation*>> accesses_;
};

MaterialisationPlan::MaterialisationPlan(func::FuncOp kernel, const AxisInfoAnalysis& axis, int vector_bits) {
  PlanBuilder(this, kernel, axis, vector_bits).Build();
}

const Buffer* MaterialisationPlan::BufferOf(Value value) const { return buffer_of_.lookup(value); }

ArrayRef<Step> MaterialisationPlan::StepsOf(Block* block) const {
  auto found = steps_.find(block);
  return found == steps_.end() ? ArrayRef<Step>() : ArrayRef<Step>(found->second);
}

ArrayRef<YieldAction> MaterialisationPlan::YieldsOf(Operation* terminator) const {
  auto found = yields_.find(terminator);
  return found == yields_.end() ? ArrayRef<YieldAction>() : ArrayRef<YieldAction>(found->second);
}

ArrayRef<YieldAction> MaterialisationPlan::InitsOf(Operation* loop) const {
  auto found = inits_.find(loop);
  return found == inits_.end() ? ArrayRef<YieldAction>() : ArrayRef<YieldAction>(found->second);
}

ArrayRef<PackPlan> MaterialisationPlan::PacksBefore(Operation* op) const {
  auto found = packs_.find(op);
  return found == packs_.end() ? ArrayRef<PackPlan>() : ArrayRef<PackPlan>(found->second);
}

const Buffer* MaterialisationPlan::PackedA(tile::DotOp dot) const { return packed_.lookup(dot).first; }
const Buffer* MaterialisationPlan::PackedB(tile::DotOp dot) const { return packed_.lookup(dot).second; }

void MaterialisationPlan::Print(llvm::raw_ostream& out) const {
  out << "scratch " << scratch_bytes_ << " bytes\n";
  for (const auto& buffer : buffers_) {
    if (buffer->bytes == 0) continue;
    out << "buffer " << buffer->id << ": ";
    for (int64_t extent : buffer->shape) out << extent << "x";
    out << buffer->element << ", " << buffer->purpose << ", at " << buffer->offset << ", alive " << buffer->first << ".."
        << buffer->last << "\n";
  }
  auto name = [&](Operation* op) {
    out << op->getName();
    for (Value result : op->getResults())
      if (const Buffer* buffer = BufferOf(result)) out << " -> " << buffer->id;
  };
  for (Block* block : block_order_) {
    auto found = steps_.find(block);
    if (found == steps_.end()) continue;
    out << "block of " << block->getParentOp()->getName() << ":\n";
    for (const Step& step : found->second) {
      if (step.kind == StepKind::kScalar) continue;
      for (const PackPlan& pack : PacksBefore(step.ops[0]))
        out << "  pack " << (pack.is_b ? "b" : "a") << " -> " << pack.buffer->id << "\n";
      for (const YieldAction& init : InitsOf(step.ops[0]))
        out << "  start operand " << init.operand << " -> " << init.target->id << "\n";
      if (step.kind == StepKind::kNest) {
        out << "  nest ";
        llvm::interleave(step.shape, out, "x");
        if (step.axis >= 0) out << " along " << step.axis;
        out << ": ";
      } else {
        out << "  ";
      }
      llvm::interleave(step.ops, name, [&] { out << ", "; });
      out << "\n";
    }
    if (block->empty() || !block->back().hasTrait<OpTrait::IsTerminator>()) continue;
    for (const YieldAction& action : YieldsOf(block->getTerminator())) {
      out << "  yield operand " << action.operand << " -> " << action.target->id;
      if (action.temporary) out << " through " << action.temporary->id;
      out << "\n";
    }
  }
}

}  // namespace tessera::compiler
