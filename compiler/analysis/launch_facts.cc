#include "compiler/analysis/launch_facts.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "compiler/dialect/tile/tile.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;
using storage::IndexNode;
using storage::LaunchFacts;

constexpr int kMaxNodes = 2000, kMaxAccesses = 100, kMaxTails = 100, kMaxDepth = 200;
constexpr int kLaneZero = -1;  // in Lanes: the index along this dimension is 0

// For each dimension of a value, the dimension of the access whose lane index it is read at.
using Lanes = llvm::SmallVector<int, 3>;
using NodeId = std::optional<uint32_t>;

unsigned BitsOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (auto integer = dyn_cast<IntegerType>(element)) return integer.getWidth() <= 64 ? integer.getWidth() : 0;
  return 0;
}

uint32_t BytesOf(Type type) {
  if (isa<tile::PtrType>(type)) return 8;
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

Lanes OwnLanes(Type type) {
  Lanes lanes;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    for (int64_t d = 0; d < tensor.getRank(); ++d) lanes.push_back(tensor.getDimSize(d) == 1 ? kLaneZero : int(d));
  return lanes;
}

class Collector {
 public:
  Collector(func::FuncOp kernel, const PlaceOf& place) : kernel_(kernel), place_(place) {}

  LaunchFacts Collect() {
    kernel_.walk([&](Operation* op) {
      if (facts_.accesses_size() >= kMaxAccesses) return;
      if (auto load = dyn_cast<tile::LoadOp>(op)) Visit(op, LaunchFacts::Access::LOAD, load.getPtr(), load.getMask());
      if (auto store = dyn_cast<tile::StoreOp>(op)) Visit(op, LaunchFacts::Access::STORE, store.getPtr(), store.getMask());
      if (auto rmw = dyn_cast<tile::AtomicRmwOp>(op)) Visit(op, LaunchFacts::Access::ATOMIC, rmw.getPtr(), rmw.getMask());
    });
    kernel_.walk([&](Operation* op) { CountWork(op); });
    for (auto& [key, work] : works_) *facts_.add_works() = std::move(work);
    return std::move(facts_);
  }

 private:
  struct Pointer {
    unsigned base = 0;
    llvm::SmallVector<std::pair<uint32_t, uint32_t>, 4> offsets;  // node, bytes
  };

  NodeId Add(IndexNode::Kind kind, unsigned bits, llvm::ArrayRef<NodeId> operands, int64_t value = 0) {
    for (const NodeId& operand : operands)
      if (!operand) return std::nullopt;
    std::vector<int64_t> key = {kind, bits, value};
    for (const NodeId& operand : operands) key.push_back(*operand);
    auto [found, is_new] = known_.try_emplace(key, 0);
    if (!is_new) return found->second;
    if (facts_.nodes_size() >= kMaxNodes) {
      known_.erase(found);
      return std::nullopt;
    }
    found->second = facts_.nodes_size();
    IndexNode* node = facts_.add_nodes();
    node->set_kind(kind);
    node->set_bits(bits);
    for (const NodeId& operand : operands) node->add_operands(*operand);
    node->set_value(value);
    return found->second;
  }
  NodeId Constant(int64_t value, unsigned bits) { return Add(IndexNode::CONSTANT, bits, {}, value); }

  // The integer `value` at the lane that `lanes` describes.
  NodeId Translate(Value value, Lanes lanes) {
    auto key = std::make_pair(value.getAsOpaquePointer(), std::vector<int>(lanes.begin(), lanes.end()));
    auto found = translated_.find(key);
    if (found != translated_.end()) return found->second;
    // What is met again below itself is carried by a loop in a way that is not understood.
    translated_[key] = std::nullopt;
    if (++depth_ > kMaxDepth) {
      --depth_;
      return std::nullopt;
    }
    NodeId node = BitsOf(value.getType()) == 0 ? std::nullopt : TranslateNew(value, lanes);
    --depth_;
    translated_[key] = node;
    return node;
  }

  NodeId TranslateNew(Value value, const Lanes& lanes) {
    const unsigned bits = BitsOf(value.getType());
    if (auto argument = dyn_cast<BlockArgument>(value)) return TranslateArgument(argument, lanes, bits);
    Operation* op = value.getDefiningOp();
    Attribute attr;
    if (matchPattern(op, m_Constant(&attr))) {
      if (auto integer = dyn_cast<IntegerAttr>(attr)) return Constant(integer.getValue().getSExtValue(), bits);
      if (auto splat = dyn_cast<SplatElementsAttr>(attr)) return Constant(splat.getSplatValue<APInt>().getSExtValue(), bits);
      return std::nullopt;
    }
    if (auto id = dyn_cast<tile::ProgramIdOp>(op)) return Add(IndexNode::PROGRAM_ID, bits, {}, id.getAxis());
    if (auto count = dyn_cast<tile::NumProgramsOp>(op)) return Add(IndexNode::NUM_PROGRAMS, bits, {}, count.getAxis());
    if (auto range = dyn_cast<tile::RangeOp>(op)) {
      NodeId lane = lanes[0] == kLaneZero ? Constant(0, bits) : Add(IndexNode::LANE, bits, {}, lanes[0]);
      return range.getStart() == 0 ? lane : Add(IndexNode::ADD, bits, {lane, Constant(int32_t(range.getStart()), bits)});
    }
    if (auto source = SourceOfShape(op, lanes)) return Translate(source->first, source->second);
    if (isa<tile::HintOp>(op)) return Translate(op->getOperand(0), lanes);
    if (auto compare = dyn_cast<arith::CmpIOp>(op)) return TranslateCompare(compare, lanes);
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Lanes condition = isa<RankedTensorType>(select.getCondition().getType()) ? lanes : Lanes();
      return Add(IndexNode::SELECT, bits,
                 {Translate(select.getCondition(), condition), Translate(select.getTrueValue(), lanes), Translate(select.getFalseValue(), lanes)});
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (branch.getElseRegion().empty()) return std::nullopt;
      unsigned i = cast<OpResult>(value).getResultNumber();
      return Add(IndexNode::SELECT, bits,
                 {Translate(branch.getCondition(), {}), Translate(branch.thenYield().getOperand(i), lanes), Translate(branch.elseYield().getOperand(i), lanes)});
    }
    if (isa<arith::ExtSIOp>(op)) return Add(IndexNode::SIGN_EXTEND, bits, {Translate(op->getOperand(0), lanes)});
    if (isa<arith::ExtUIOp>(op)) return Add(IndexNode::ZERO_EXTEND, bits, {Translate(op->getOperand(0), lanes)});
    if (isa<arith::TruncIOp>(op)) return Add(IndexNode::TRUNCATE, bits, {Translate(op->getOperand(0), lanes)});
    if (auto kind = BinaryKind(op)) return Add(*kind, bits, {Translate(op->getOperand(0), lanes), Translate(op->getOperand(1), lanes)});
    return std::nullopt;
  }

  // The kernel's parameters, a loop's induction variable, and what a loop counts up by the same amount each time.
  NodeId TranslateArgument(BlockArgument argument, const Lanes& lanes, unsigned bits) {
    Operation* parent = argument.getOwner()->getParentOp();
    if (parent == kernel_.getOperation()) return Add(IndexNode::PARAMETER, bits, {}, argument.getArgNumber());
    auto loop = dyn_cast<scf::ForOp>(parent);
    std::optional<uint32_t> index = loop ? LoopIndex(loop) : std::nullopt;
    if (!index) return std::nullopt;
    NodeId iteration = Iteration(*index, bits);
    if (argument == loop.getInductionVar())
      return Add(IndexNode::ADD, bits, {Translate(loop.getLowerBound(), {}), Add(IndexNode::MUL, bits, {iteration, Translate(loop.getStep(), {})})});
    auto step = loop.getTiedLoopYieldedValue(argument)->get().getDefiningOp<arith::AddIOp>();
    if (!step || (step.getLhs() != argument && step.getRhs() != argument)) return std::nullopt;
    Value amount = step.getLhs() == argument ? step.getRhs() : step.getLhs();
    NodeId increment = Invariant(amount, lanes, *index);
    return Add(IndexNode::ADD, bits, {Translate(loop.getTiedLoopInit(argument)->get(), lanes), Add(IndexNode::MUL, bits, {iteration, increment})});
  }

  NodeId Iteration(uint32_t loop, unsigned bits) { return Add(IndexNode::ITERATION, bits, {}, loop); }

  NodeId Invariant(Value value, const Lanes& lanes, uint32_t loop) {
    NodeId node = Translate(value, lanes);
    return node && !DependsOn(*node, loop) ? node : std::nullopt;
  }
  bool DependsOn(uint32_t node, uint32_t loop) const {
    std::vector<uint32_t> open = {node};
    std::set<uint32_t> seen = {node};
    while (!open.empty()) {
      const IndexNode& at = facts_.nodes(open.back());
      open.pop_back();
      if (at.kind() == IndexNode::ITERATION && at.value() == int64_t(loop)) return true;
      for (uint32_t operand : at.operands())
        if (seen.insert(operand).second) open.push_back(operand);
    }
    return false;
  }

  // nullopt: its bounds are not known.
  std::optional<uint32_t> LoopIndex(scf::ForOp loop) {
    auto found = loops_.find(loop);
    if (found != loops_.end()) return found->second;
    loops_[loop] = std::nullopt;
    NodeId lower = Translate(loop.getLowerBound(), {}), upper = Translate(loop.getUpperBound(), {}), step = Translate(loop.getStep(), {});
    if (!lower || !upper || !step) return std::nullopt;
    uint32_t index = facts_.loops_size();
    LaunchFacts::Loop* added = facts_.add_loops();
    added->set_lower(*lower);
    added->set_upper(*upper);
    added->set_step(*step);
    loops_[loop] = index;
    return index;
  }

  // The operand of an operation that only moves elements, and where in it the lane comes from.
  std::optional<std::pair<Value, Lanes>> SourceOfShape(Operation* op, const Lanes& lanes) {
    if (isa<tile::SplatOp>(op)) return std::make_pair(op->getOperand(0), Lanes());
    if (auto unsplat = dyn_cast<tile::UnsplatOp>(op))
      return std::make_pair(unsplat.getSource(), Lanes(cast<RankedTensorType>(unsplat.getSource().getType()).getRank(), kLaneZero));
    if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
      Lanes inner = lanes;
      inner.erase(inner.begin() + expand.getAxis());
      return std::make_pair(expand.getSource(), inner);
    }
    if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
      auto source = cast<RankedTensorType>(broadcast.getSource().getType());
      Lanes inner = lanes;
      for (int64_t d = 0; d < source.getRank(); ++d)
        if (source.getDimSize(d) == 1) inner[d] = kLaneZero;
      return std::make_pair(broadcast.getSource(), inner);
    }
    if (auto trans = dyn_cast<tile::TransOp>(op)) {
      Lanes inner = lanes;
      for (auto [to, from] : llvm::enumerate(trans.getOrder())) inner[from] = lanes[to];
      return std::make_pair(trans.getSource(), inner);
    }
    if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
      // Dimensions of extent 1 come and go; anything else is not followed.
      auto from = cast<RankedTensorType>(reshape.getSource().getType()), to = cast<RankedTensorType>(reshape.getResult().getType());
      llvm::SmallVector<std::pair<int64_t, int>, 3> wide;
      for (int64_t d = 0; d < to.getRank(); ++d)
        if (to.getDimSize(d) != 1) wide.push_back({to.getDimSize(d), lanes[d]});
      Lanes inner;
      size_t next = 0;
      for (int64_t d = 0; d < from.getRank(); ++d) {
        if (from.getDimSize(d) == 1) {
          inner.push_back(kLaneZero);
        } else {
          if (next >= wide.size() || wide[next].first != from.getDimSize(d)) return std::nullopt;
          inner.push_back(wide[next++].second);
        }
      }
      if (next != wide.size() || reshape.getAllowReorder()) return std::nullopt;
      return std::make_pair(reshape.getSource(), inner);
    }
    return std::nullopt;
  }

  static std::optional<IndexNode::Kind> BinaryKind(Operation* op) {
    if (isa<arith::AddIOp>(op)) return IndexNode::ADD;
    if (isa<arith::SubIOp>(op)) return IndexNode::SUB;
    if (isa<arith::MulIOp>(op)) return IndexNode::MUL;
    if (isa<arith::ShLIOp>(op)) return IndexNode::SHIFT_LEFT;
    if (isa<arith::ShRSIOp>(op)) return IndexNode::SHIFT_RIGHT_SIGNED;
    if (isa<arith::ShRUIOp>(op)) return IndexNode::SHIFT_RIGHT_UNSIGNED;
    if (isa<tile::DivSOp>(op)) return IndexNode::DIV_SIGNED;
    if (isa<tile::DivUOp>(op)) return IndexNode::DIV_UNSIGNED;
    if (isa<tile::RemSOp>(op)) return IndexNode::REM_SIGNED;
    if (isa<tile::RemUOp>(op)) return IndexNode::REM_UNSIGNED;
    if (isa<arith::MinSIOp>(op)) return IndexNode::MIN_SIGNED;
    if (isa<arith::MaxSIOp>(op)) return IndexNode::MAX_SIGNED;
    if (isa<arith::MinUIOp>(op)) return IndexNode::MIN_UNSIGNED;
    if (isa<arith::MaxUIOp>(op)) return IndexNode::MAX_UNSIGNED;
    if (isa<arith::AndIOp>(op)) return IndexNode::AND;
    if (isa<arith::OrIOp>(op)) return IndexNode::OR;
    if (isa<arith::XOrIOp>(op)) return IndexNode::XOR;
    return std::nullopt;
  }

  NodeId TranslateCompare(arith::CmpIOp op, const Lanes& lanes) {
    NodeId lhs = Translate(op.getLhs(), lanes), rhs = Translate(op.getRhs(), lanes);
    switch (op.getPredicate()) {
      case arith::CmpIPredicate::eq: return Add(IndexNode::EQUAL, 1, {lhs, rhs});
      case arith::CmpIPredicate::ne: return Add(IndexNode::NOT_EQUAL, 1, {lhs, rhs});
      case arith::CmpIPredicate::slt: return Add(IndexNode::LESS_SIGNED, 1, {lhs, rhs});
      case arith::CmpIPredicate::sgt: return Add(IndexNode::LESS_SIGNED, 1, {rhs, lhs});
      case arith::CmpIPredicate::sle: return Add(IndexNode::LESS_EQUAL_SIGNED, 1, {lhs, rhs});
      case arith::CmpIPredicate::sge: return Add(IndexNode::LESS_EQUAL_SIGNED, 1, {rhs, lhs});
      case arith::CmpIPredicate::ult: return Add(IndexNode::LESS_UNSIGNED, 1, {lhs, rhs});
      case arith::CmpIPredicate::ugt: return Add(IndexNode::LESS_UNSIGNED, 1, {rhs, lhs});
      case arith::CmpIPredicate::ule: return Add(IndexNode::LESS_EQUAL_UNSIGNED, 1, {lhs, rhs});
      case arith::CmpIPredicate::uge: return Add(IndexNode::LESS_EQUAL_UNSIGNED, 1, {rhs, lhs});
    }
    return std::nullopt;
  }

  std::optional<Pointer> TranslatePointer(Value value, const Lanes& lanes) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      return std::nullopt;
    }
    std::optional<Pointer> pointer = TranslatePointerNew(value, lanes);
    --depth_;
    return pointer;
  }

  std::optional<Pointer> TranslatePointerNew(Value value, const Lanes& lanes) {
    auto plus = [&](std::optional<Pointer> pointer, NodeId offset, Type pointer_type) -> std::optional<Pointer> {
      if (!pointer || !offset) return std::nullopt;
      pointer->offsets.push_back({*offset, BytesOf(cast<tile::PtrType>(getElementTypeOrSelf(pointer_type)).getPointee())});
      return pointer;
    };
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation* parent = argument.getOwner()->getParentOp();
      if (parent == kernel_.getOperation()) {
        Pointer pointer;
        pointer.base = argument.getArgNumber();
        return pointer;
      }
      // A pointer that moves on by the same number of elements each time.
      auto loop = dyn_cast<scf::ForOp>(parent);
      std::optional<uint32_t> index = loop ? LoopIndex(loop) : std::nullopt;
      if (!index || argument == loop.getInductionVar()) return std::nullopt;
      std::optional<Pointer> pointer = TranslatePointer(loop.getTiedLoopInit(argument)->get(), lanes);
      Value at = loop.getTiedLoopYieldedValue(argument)->get();
      while (at != argument) {
        auto step = at.getDefiningOp<tile::AddPtrOp>();
        if (!step) return std::nullopt;
        NodeId amount = Invariant(step.getOffset(), lanes, *index);
        NodeId total = Add(IndexNode::MUL, 64, {Iteration(*index, 64), Add(IndexNode::SIGN_EXTEND, 64, {amount})});
        pointer = plus(std::move(pointer), total, at.getType());
        if (!pointer) return std::nullopt;
        at = step.getPtr();
      }
      return pointer;
    }
    Operation* op = value.getDefiningOp();
    if (auto add = dyn_cast<tile::AddPtrOp>(op)) return plus(TranslatePointer(add.getPtr(), lanes), Translate(add.getOffset(), lanes), value.getType());
    if (auto source = SourceOfShape(op, lanes)) return TranslatePointer(source->first, source->second);
    if (isa<tile::HintOp, tile::PtrCastOp>(op)) return TranslatePointer(op->getOperand(0), lanes);
    return std::nullopt;
  }

  // Loops and conditions around `op`, outermost loop first. False: it stands in a while loop, or under a loop that is not
  // counted. `*known`: every condition was understood.
  template <typename Fact>
  bool Around(Operation* op, Fact* fact, bool* known) {
    for (Operation *inner = op, *outer = op->getParentOp(); outer != kernel_.getOperation(); inner = outer, outer = outer->getParentOp()) {
      if (auto loop = dyn_cast<scf::ForOp>(outer)) {
        std::optional<uint32_t> index = LoopIndex(loop);
        if (!index) return false;
        fact->add_loops(*index);
      } else if (auto branch = dyn_cast<scf::IfOp>(outer)) {
        NodeId condition = Translate(branch.getCondition(), {});
        if (condition && inner->getParentRegion() == &branch.getElseRegion())
          condition = Add(IndexNode::EQUAL, 1, {condition, Constant(0, 1)});
        if (condition) fact->add_conditions(*condition);
        *known &= condition.has_value();
      } else {
        return false;
      }
    }
    std::reverse(fact->mutable_loops()->begin(), fact->mutable_loops()->end());
    return true;
  }

  static uint64_t Elements(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor ? static_cast<uint64_t>(tensor.getNumElements()) : 1;
  }

  // Work with the same loops and conditions around it adds up.
  void CountWork(Operation* op) {
    uint64_t operations = 0;
    auto dot = dyn_cast<tile::DotOp>(op);
    if (dot) {
      operations = 2 * Elements(dot.getResult().getType()) * static_cast<uint64_t>(cast<RankedTensorType>(dot.getA().getType()).getShape().back());
    } else if (isa<tile::ReduceOp, tile::ScanOp>(op)) {
      operations = Elements(op->getOperand(0).getType());
    } else if (op->getNumResults() == 1 && isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
               (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op) ||
                op->getDialect()->getNamespace() == "math" || isa<tile::ExternOp>(op))) {
      operations = Elements(op->getResult(0).getType());
    }
    if (operations == 0) return;
    LaunchFacts::Work work;
    bool known = true;  // a condition that is not understood may hold
    if (!Around(op, &work, &known)) return;
    work.set_matrix_unit(static_cast<bool>(dot));
    auto [found, is_new] = works_.try_emplace(work.SerializeAsString(), work);
    found->second.set_operations(found->second.operations() + operations);
  }

  void Visit(Operation* op, LaunchFacts::Access::Kind kind, Value ptr, Value mask) {
    LaunchFacts::Access access;
    bool known = true;
    if (!Around(op, &access, &known)) return;
    Lanes lanes = OwnLanes(ptr.getType());
    if (mask) {
      CollectTails(mask, op, access);
      NodeId inside = Translate(mask, isa<RankedTensorType>(mask.getType()) ? lanes : Lanes());
      if (inside) access.add_conditions(*inside);
      known &= inside.has_value();
    }
    if (!known) return;
    std::optional<Pointer> pointer = TranslatePointer(ptr, lanes);
    if (!pointer) return;
    access.set_kind(kind);
    *access.mutable_at() = place_(op->getLoc());
    access.set_base(pointer->base);
    access.set_element_bytes(BytesOf(cast<tile::PtrType>(getElementTypeOrSelf(ptr.getType())).getPointee()));
    if (auto tensor = dyn_cast<RankedTensorType>(ptr.getType()))
      for (int64_t extent : tensor.getShape()) access.add_shape(extent);
    for (const auto& [node, bytes] : pointer->offsets) {
      LaunchFacts::Offset* offset = access.add_offsets();
      offset->set_node(node);
      offset->set_bytes(bytes);
    }
    access.set_masked(static_cast<bool>(mask));
    std::set<std::pair<void*, std::vector<int>>> seen;
    CollectWraps(ptr, lanes, /*is_pointer=*/true, /*is_unsigned=*/false, &seen, &access);
    *facts_.add_accesses() = std::move(access);
  }

  // 32-bit sums and products that an address is made of. Behind a mask of bits, an unsigned remainder and the like
  // wrapping may be meant (hashes): those end the search.
  void CollectWraps(Value value, const Lanes& lanes, bool is_pointer, bool is_unsigned, std::set<std::pair<void*, std::vector<int>>>* seen,
                    LaunchFacts::Access* access) {
    if (!seen->insert({value.getAsOpaquePointer(), std::vector<int>(lanes.begin(), lanes.end())}).second) return;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!loop || argument == loop.getInductionVar()) return;
      CollectWraps(loop.getTiedLoopInit(argument)->get(), lanes, is_pointer, is_unsigned, seen, access);
      if (auto step = loop.getTiedLoopYieldedValue(argument)->get().getDefiningOp<tile::AddPtrOp>())
        CollectWraps(step.getOffset(), lanes, false, false, seen, access);
      return;
    }
    Operation* op = value.getDefiningOp();
    if (auto source = SourceOfShape(op, lanes)) return CollectWraps(source->first, source->second, is_pointer, is_unsigned, seen, access);
    if (isa<tile::HintOp, tile::PtrCastOp>(op)) return CollectWraps(op->getOperand(0), lanes, is_pointer, is_unsigned, seen, access);
    if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
      CollectWraps(add.getPtr(), lanes, true, false, seen, access);
      CollectWraps(add.getOffset(), lanes, false, false, seen, access);
      return;
    }
    if (is_pointer) return;
    if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) return CollectWraps(op->getOperand(0), lanes, false, isa<arith::ExtUIOp>(op), seen, access);
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp, tile::DivSOp, tile::RemSOp>(op)) return;
    if (BitsOf(value.getType()) == 32 && !isa<tile::DivSOp, tile::RemSOp>(op)) {
      NodeId node = Translate(value, lanes);
      if (!node) return;
      LaunchFacts::Wrap* wrap = access->add_wraps();
      wrap->set_node(*node);
      wrap->set_is_unsigned(is_unsigned);
      *wrap->mutable_at() = place_(op->getLoc());
    }
    for (Value operand : op->getOperands()) CollectWraps(operand, lanes, false, is_unsigned, seen, access);
  }

  // Comparisons in a conjunction: `start + range < end`, where the range is along one dimension.
  void CollectTails(Value mask, Operation* access_op, const LaunchFacts::Access& access) {
    Operation* op = mask.getDefiningOp();
    if (!op || !tails_seen_.insert(mask.getAsOpaquePointer()).second || facts_.tails_size() >= kMaxTails) return;
    if (isa<arith::AndIOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::TransOp, tile::SplatOp>(op)) {
      for (Value operand : op->getOperands()) CollectTails(operand, access_op, access);
      return;
    }
    auto compare = dyn_cast<arith::CmpIOp>(op);
    auto tensor = compare ? dyn_cast<RankedTensorType>(compare.getLhs().getType()) : RankedTensorType();
    if (!tensor) return;
    int wide = -1;
    for (int64_t d = 0; d < tensor.getRank(); ++d)
      if (tensor.getDimSize(d) != 1) {
        if (wide >= 0) return;
        wide = int(d);
      }
    if (wide < 0) return;
    using P = arith::CmpIPredicate;
    P p = compare.getPredicate();
    bool end_right = p == P::slt || p == P::sle || p == P::ult || p == P::ule;
    bool end_left = p == P::sgt || p == P::sge || p == P::ugt || p == P::uge;
    if (!end_right && !end_left) return;
    if (IsUniform(end_right ? compare.getLhs() : compare.getRhs()) || !IsUniform(end_right ? compare.getRhs() : compare.getLhs())) return;
    Lanes lanes(tensor.getRank(), kLaneZero);
    lanes[wide] = 0;
    NodeId inside = Translate(mask, lanes);
    if (!inside) return;
    LaunchFacts::Tail* tail = facts_.add_tails();
    *tail->mutable_at() = place_(compare.getLoc());
    tail->set_inside(*inside);
    tail->set_extent(tensor.getDimSize(wide));
    *tail->mutable_loops() = access.loops();
  }

  bool IsUniform(Value value) {
    auto [found, is_new] = uniform_.try_emplace(value, false);
    if (!is_new) return found->second;
    bool uniform = IsUniformNew(value);
    return uniform_[value] = uniform;
  }
  bool IsUniformNew(Value value) {
    Operation* op = value.getDefiningOp();
    if (!isa<RankedTensorType>(value.getType())) return true;
    if (!op) return false;
    if (isa<tile::SplatOp>(op)) return true;
    Attribute attr;
    if (matchPattern(op, m_Constant(&attr))) return isa<SplatElementsAttr>(attr);
    if (op->getNumRegions() > 0 || op->getNumOperands() == 0 || isa<tile::LoadOp>(op)) return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) { return IsUniform(operand); });
  }

  func::FuncOp kernel_;
  const PlaceOf& place_;
  LaunchFacts facts_;
  std::map<std::vector<int64_t>, uint32_t> known_;
  std::map<std::pair<void*, std::vector<int>>, NodeId> translated_;
  llvm::DenseMap<Operation*, std::optional<uint32_t>> loops_;
  std::set<void*> tails_seen_;
  std::map<std::string, LaunchFacts::Work> works_;  // by all but their operations
  llvm::DenseMap<Value, bool> uniform_;
  int depth_ = 0;
};

}  // namespace

storage::LaunchFacts CollectLaunchFacts(func::FuncOp kernel, const PlaceOf& place) {
  if (kernel.isExternal()) return {};
  return Collector(kernel, place).Collect();
}

}  // namespace tessera::compiler
