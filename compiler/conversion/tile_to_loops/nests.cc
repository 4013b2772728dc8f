// Loop nests: stores, values that are materialised, and reductions.
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

RankedTensorType BlockType(Value v) { return cast<RankedTensorType>(v.getType()); }

// Below this cost of one vector a reduction needs several sums to keep the units busy.
constexpr double kCheapVector = 8;

// The value that leaves others unchanged under a combine region of one operation, or null.
TypedAttr IdentityOf(Region& region, OpBuilder& builder) {
  Block& body = region.front();
  if (body.getNumArguments() != 2 || std::distance(body.begin(), body.end()) != 2) return nullptr;
  Operation& op = body.front();
  if (op.getNumOperands() != 2 || op.getNumResults() != 1 || body.back().getOperand(0) != op.getResult(0)) return nullptr;
  bool uses_both = (op.getOperand(0) == body.getArgument(0) && op.getOperand(1) == body.getArgument(1)) ||
                   (op.getOperand(1) == body.getArgument(0) && op.getOperand(0) == body.getArgument(1));
  if (!uses_both) return nullptr;
  Type type = op.getResult(0).getType();
  if (auto element = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics& s = element.getFloatSemantics();
    if (isa<arith::AddFOp>(op)) return builder.getFloatAttr(type, APFloat::getZero(s, true));
    if (isa<arith::MulFOp>(op)) return builder.getFloatAttr(type, APFloat::getOne(s));
    if (isa<arith::MaxNumFOp, arith::MinNumFOp>(op)) return builder.getFloatAttr(type, APFloat::getNaN(s));
    if (isa<arith::MaximumFOp>(op)) return builder.getFloatAttr(type, APFloat::getInf(s, true));
    if (isa<arith::MinimumFOp>(op)) return builder.getFloatAttr(type, APFloat::getInf(s, false));
    return nullptr;
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  if (isa<arith::AddIOp, arith::OrIOp, arith::XOrIOp, arith::MaxUIOp>(op)) return builder.getIntegerAttr(type, 0);
  if (isa<arith::MulIOp>(op)) return builder.getIntegerAttr(type, 1);
  if (isa<arith::AndIOp, arith::MinUIOp>(op)) return builder.getIntegerAttr(type, APInt::getAllOnes(bits));
  if (isa<arith::MaxSIOp>(op)) return builder.getIntegerAttr(type, APInt::getSignedMinValue(bits));
  if (isa<arith::MinSIOp>(op)) return builder.getIntegerAttr(type, APInt::getSignedMaxValue(bits));
  return nullptr;
}

}  // namespace

//===-- loop levels ---------------------------------------------------------------------------------===//

void KernelEmitter::GoTo(int level) {
  Level& at = levels_[level];
  if (at.before) return builder_.setInsertionPoint(at.before);
  if (!at.block->empty() && at.block->back().hasTrait<OpTrait::IsTerminator>())
    return builder_.setInsertionPoint(&at.block->back());
  builder_.setInsertionPointToEnd(at.block);
}

void KernelEmitter::StartNest() {
  Block* block = levels_[0].block;
  levels_.assign(1, Level{block, nullptr, {}});
  GoTo(0);
}

void KernelEmitter::MoveInto(Block* block) {
  levels_.assign(1, Level{block, nullptr, {}});
  GoTo(0);
}

scf::ForOp KernelEmitter::OpenLoopWith(int64_t first, int64_t extent, int64_t step, ValueRange carried, Index* index) {
  GoTo(depth());
  Value low = ConstI64(first), high = ConstI64(extent), by = ConstI64(step);
  auto loop = builder_.create<scf::ForOp>(loc_, low, high, by, carried);
  levels_.back().before = loop;
  levels_.push_back(Level{loop.getBody(), nullptr, {}});
  *index = {loop.getInductionVar(), 0, depth()};
  GoTo(depth());
  return loop;
}

Index KernelEmitter::OpenLoop(int64_t first, int64_t extent, int64_t step) {
  if (extent - first <= step) return {nullptr, first, 0};
  Index index;
  OpenLoopWith(first, extent, step, {}, &index);
  return index;
}

void KernelEmitter::CloseLoop() {
  levels_.pop_back();
  levels_.back().before = nullptr;
  GoTo(depth());
}

void KernelEmitter::CloseTo(int target) {
  while (depth() > target) CloseLoop();
  GoTo(depth());
}

Indices KernelEmitter::OpenNestOver(ArrayRef<int64_t> shape, const Lanes& lanes, int skip) {
  Indices index(shape.size());
  for (bool lane_dims : {false, true})
    for (int d = 0; d < int(shape.size()); ++d)
      if (d != skip && (lanes.Span(d) > 1) == lane_dims) index[d] = OpenLoop(0, shape[d], lanes.Span(d));
  return index;
}

//===-- which lanes ------------------------------------------------------------------------------------===//

// Roughly the instructions that one vector of `value` takes.
double KernelEmitter::LaneCost(Value value, const Lanes& lanes, llvm::DenseMap<Value, int>* seen) {
  if (!isa<RankedTensorType>(value.getType()) || ++(*seen)[value] > 1) return 0;
  Lanes distinct;
  for (const LaneBit& bit : lanes.bits)
    if (bit.dim >= 0 && BlockType(value).getDimSize(bit.dim) > 1) distinct.bits.push_back(bit);
  if (distinct.scalar() || IsUniform(value, distinct)) return 1;
  if (const Buffer* buffer = plan_.BufferOf(value)) {
    int64_t stride = 1;
    bool consecutive = true;
    for (const LaneBit& bit : distinct.bits) {
      int64_t element_stride = bit.step;
      for (size_t d = bit.dim + 1; d < buffer->shape.size(); ++d) element_stride *= buffer->shape[d];
      consecutive &= element_stride == stride;
      stride *= 2;
    }
    return consecutive ? 1 : 1.5 * distinct.count();
  }
  Operation* op = value.getDefiningOp();
  return op ? DefinitionCost(op, distinct, seen) : 1;
}

double KernelEmitter::DefinitionCost(Operation* op, const Lanes& lanes, llvm::DenseMap<Value, int>* seen) {
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    double cost = 0;
    if (load.getMask()) cost += LaneCost(load.getMask(), lanes, seen);
    if (load.getOther()) cost += LaneCost(load.getOther(), lanes, seen);
    if (IsConsecutive(load.getPtr(), lanes) || IsUniform(load.getPtr(), lanes)) return cost + 1;
    return cost + 2.5 * lanes.count() + LaneCost(load.getPtr(), lanes, seen);
  }
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp>(op)) {
    Lanes source;
    MapLanes(op, lanes, &source);
    return LaneCost(op->getOperand(0), source, seen);
  }
  if (isa<arith::ConstantOp, tile::RangeOp, tile::SplatOp>(op)) return 0.5;
  if (isa<tile::JoinOp>(op)) {
    Lanes inner;
    int last = BlockType(op->getResult(0)).getRank() - 1;
    for (const LaneBit& bit : lanes.bits)
      if (bit.dim != last) inner.bits.push_back(bit);
    return 2 + LaneCost(op->getOperand(0), inner, seen) + LaneCost(op->getOperand(1), inner, seen);
  }
  if (isa<tile::GatherOp>(op)) return 2.0 * lanes.count() + LaneCost(op->getOperand(1), lanes, seen);
  double cost = isa<math::MathDialect>(op->getDialect()) ? 15 : 1;
  for (Value operand : op->getOperands()) cost += LaneCost(operand, lanes, seen);
  return cost;
}

// Cost of one vector of a root: what it evaluates and what it writes.
double KernelEmitter::RootCost(Operation* op, const Lanes& lanes, llvm::DenseMap<Value, int>* seen) {
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    double cost = LaneCost(store.getValue(), lanes, seen);
    if (store.getMask()) cost += LaneCost(store.getMask(), lanes, seen);
    if (IsConsecutive(store.getPtr(), lanes)) return cost + 1;
    return cost + 2.5 * lanes.count() + LaneCost(store.getPtr(), lanes, seen);
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    double cost = 0;
    for (Value source : reduce.getSources()) cost += LaneCost(source, lanes, seen);
    return cost;
  }
  // Kept blocks are row-major.
  bool consecutive = lanes.bits[0].dim == int(BlockType(op->getResult(0)).getRank()) - 1;
  return DefinitionCost(op, lanes, seen) + (consecutive ? 1 : 2.0 * lanes.count());
}

llvm::SmallVector<Lanes> KernelEmitter::LaneCandidates(ArrayRef<int64_t> shape, int axis) const {
  int64_t width = target_.vector_bits / 32;
  llvm::SmallVector<Lanes> candidates;
  for (int d = int(shape.size()) - 1; d >= 0; --d)
    if (shape[d] > 1) candidates.push_back(Lanes::Along(d, std::min(shape[d], width)));
  if (shape.size() > 1 && shape.back() < width) {
    // Short last dimensions: lanes over several of them.
    Lanes lanes;
    for (int d = int(shape.size()) - 1; d >= 0 && d != axis; --d)
      for (int64_t step = 1; step < shape[d] && lanes.count() < width; step *= 2) lanes.bits.push_back({d, step});
    if (!lanes.scalar()) candidates.push_back(lanes);
  }
  return candidates;
}

Lanes KernelEmitter::Cheapest(ArrayRef<int64_t> shape, int axis,
                              llvm::function_ref<double(const Lanes&, llvm::DenseMap<Value, int>*)> cost) {
  Lanes best;
  double best_cost = 1e30;
  for (const Lanes& lanes : LaneCandidates(shape, axis)) {
    llvm::DenseMap<Value, int> seen;
    double each = 1 + cost(lanes, &seen);
    // Lanes along the axis of a reduction are combined at its end.
    if (axis >= 0 && lanes.Span(axis) > 1) each += 10.0 * lanes.count() / shape[axis];
    each /= lanes.count();
    if (each >= best_cost) continue;
    best_cost = each;
    best = lanes;
  }
  return best;
}

Lanes KernelEmitter::ChooseLanesFor(ArrayRef<Value> values, ArrayRef<int64_t> shape, int axis) {
  return Cheapest(shape, axis, [&](const Lanes& lanes, llvm::DenseMap<Value, int>* seen) {
    double cost = 0;
    for (Value value : values) cost += LaneCost(value, lanes, seen);
    return cost;
  });
}

Lanes KernelEmitter::ChooseLanes(const Step& step) {
  bool ordered = false;
  for (Operation* op : step.ops)
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      if (!IsVectorisable(reduce.getCombine())) return Lanes();
      ordered |= reduce.getOrdered();
    }
  Lanes lanes = Cheapest(step.shape, step.axis, [&](const Lanes& lanes, llvm::DenseMap<Value, int>* seen) {
    if (ordered && lanes.Span(step.axis) > 1) return 1e12;
    double cost = 0;
    for (Operation* op : step.ops) cost += RootCost(op, lanes, seen);
    return cost;
  });
  return ordered && lanes.Span(step.axis) > 1 ? Lanes() : lanes;
}

//===-- nests ------------------------------------------------------------------------------------------===//

LogicalResult KernelEmitter::EmitNest(const Step& step) {
  Lanes lanes = ChooseLanes(step);
  if (step.axis >= 0) return EmitReductions(step, lanes);
  StartNest();
  Indices index = OpenNestOver(step.shape, lanes);
  for (Operation* op : step.ops)
    if (failed(EmitRoot(op, index, lanes))) return failure();
  CloseTo(0);
  return success();
}

LogicalResult KernelEmitter::EmitRoot(Operation* op, ArrayRef<Index> index, const Lanes& lanes) {
  loc_ = op->getLoc();
  if (auto store = dyn_cast<tile::StoreOp>(op)) return EmitStore(store, index, lanes);
  Value value = op->getResult(0);
  Evaluated made = EvaluateDefinition(value, index, lanes);
  if (!made.value) return failure();
  Indices normal(index.begin(), index.end());
  for (auto [d, i] : llvm::enumerate(normal))
    if (BlockType(value).getDimSize(d) == 1) i = Index();
  WriteBuffer(plan_.BufferOf(value), index, lanes, made.value);
  Remember(value, normal, lanes, made);
  return success();
}

LogicalResult KernelEmitter::EmitInto(const Buffer* target, Value value) {
  llvm::SmallVector<int64_t, 3> shape(BlockType(value).getShape());
  Lanes lanes = ChooseLanesFor({value}, shape, -1);
  StartNest();
  Indices index = OpenNestOver(shape, lanes);
  Evaluated made = Evaluate(value, index, lanes);
  if (!made.value) return failure();
  WriteBuffer(target, index, lanes, made.value);
  CloseTo(0);
  return success();
}

void KernelEmitter::EmitCopy(const Buffer* target, const Buffer* source) {
  GoTo(0);
  Value zero = ConstI64(0);
  builder_.create<LLVM::MemcpyOp>(loc_, BufferAddress(target, zero), BufferAddress(source, zero), ConstI64(target->bytes), false);
}

LogicalResult KernelEmitter::EmitReductions(const Step& step, const Lanes& lanes) {
  int axis = step.axis;
  int64_t extent = step.shape[axis], span = lanes.Span(axis), count = lanes.count();
  bool across_lanes = span > 1, ordered = false;
  llvm::SmallVector<tile::ReduceOp, 2> reduces;
  llvm::SmallVector<TypedAttr> identities;
  llvm::DenseMap<Value, int> seen;
  double cost = 0;
  for (Operation* op : step.ops) {
    if (!lanes.scalar()) cost += RootCost(op, lanes, &seen);
    auto reduce = dyn_cast<tile::ReduceOp>(op);
    if (!reduce) continue;
    reduces.push_back(reduce);
    identities.push_back(IdentityOf(reduce.getCombine(), builder_));
    ordered |= reduce.getOrdered();
  }
  bool all_identities = llvm::all_of(identities, [](TypedAttr attr) { return bool(attr); });
  int64_t chunks = extent / span;
  int64_t parallel = ordered ? 1 : std::min<int64_t>(chunks, cost < kCheapVector ? 4 : 1);

  StartNest();
  Indices index = OpenNestOver(step.shape, lanes, axis);
  int outer = depth();
  // Sums, in the order parallel chunk, reduction, operand.
  llvm::SmallVector<Value> sums;
  auto accumulate = [&](Index base) -> LogicalResult {
    llvm::SmallVector<Value> next;
    size_t position = 0;
    bool first = sums.empty();
    for (int64_t u = 0; u < parallel; ++u) {
      index[axis] = base + u * span;
      for (Operation* op : step.ops) {
        auto reduce = dyn_cast<tile::ReduceOp>(op);
        if (!reduce) {
          if (failed(EmitRoot(op, index, lanes))) return failure();
          continue;
        }
        loc_ = op->getLoc();
        llvm::SmallVector<Value> values, combined;
        for (Value source : reduce.getSources()) {
          Evaluated e = Evaluate(source, index, lanes);
          if (!e.value) return failure();
          values.push_back(e.value);
        }
        GoTo(depth());
        if (first) {
          combined = values;
        } else {
          ArrayRef<Value> before = ArrayRef<Value>(sums).slice(position, values.size());
          if (failed(Combine(reduce.getCombine(), before, values, count, &combined))) return failure();
        }
        position += values.size();
        next.append(combined.begin(), combined.end());
      }
    }
    sums = next;
    return success();
  };

  int64_t stride = span * parallel;
  if (extent == stride) {
    if (failed(accumulate(Index()))) return failure();
  } else {
    int64_t start = 0;
    if (all_identities) {
      GoTo(depth());
      for (int64_t u = 0; u < parallel; ++u)
        for (TypedAttr identity : identities) {
          TypedAttr value = identity;
          if (count > 1) value = DenseElementsAttr::get(VectorType::get({count}, identity.getType()), ArrayRef<Attribute>{identity});
          sums.push_back(builder_.create<arith::ConstantOp>(loc_, value));
        }
    } else {
      if (failed(accumulate(Index()))) return failure();
      start = stride;
    }
    Index along;
    scf::ForOp loop = OpenLoopWith(start, extent, stride, sums, &along);
    sums.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    if (failed(accumulate(along))) return failure();
    GoTo(depth());
    builder_.create<scf::YieldOp>(loc_, sums);
    CloseLoop();
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  }

  GoTo(outer);
  size_t per_chunk = sums.size() / parallel, position = 0;
  Lanes result_lanes;
  if (!across_lanes)
    for (LaneBit bit : lanes.bits) result_lanes.bits.push_back({bit.dim > axis ? bit.dim - 1 : bit.dim, bit.step});
  Indices result_index(index);
  result_index.erase(result_index.begin() + axis);
  for (tile::ReduceOp reduce : reduces) {
    loc_ = reduce.getLoc();
    size_t n = reduce.getSources().size();
    auto part = [&](int64_t u) { return ArrayRef<Value>(sums).slice(u * per_chunk + position, n); };
    llvm::SmallVector<Value> total(part(0));
    for (int64_t u = 1; u < parallel; ++u) {
      llvm::SmallVector<Value> combined;
      if (failed(Combine(reduce.getCombine(), total, part(u), count, &combined))) return failure();
      total = combined;
    }
    for (int64_t width = across_lanes ? count : 1; width > 1; width /= 2) {
      llvm::SmallVector<Value> low, high, combined;
      for (Value v : total) {
        if (width == 2) {
          low.push_back(builder_.create<vector::ExtractOp>(loc_, v, 0));
          high.push_back(builder_.create<vector::ExtractOp>(loc_, v, 1));
          continue;
        }
        llvm::SmallVector<int64_t> first, second;
        for (int64_t lane = 0; lane < width / 2; ++lane) {
          first.push_back(lane);
          second.push_back(lane + width / 2);
        }
        low.push_back(builder_.create<vector::ShuffleOp>(loc_, v, v, first));
        high.push_back(builder_.create<vector::ShuffleOp>(loc_, v, v, second));
      }
      if (failed(Combine(reduce.getCombine(), low, high, width / 2, &combined))) return failure();
      total = combined;
    }
    for (auto [result, value] : llvm::zip(reduce.getResult(), total)) {
      if (!isa<RankedTensorType>(result.getType())) {
        scalars_[result] = value;
      } else if (const Buffer* buffer = plan_.BufferOf(result)) {
        WriteBuffer(buffer, result_index, result_lanes, value);
      }
    }
    position += n;
  }
  CloseTo(0);
  return success();
}

}  // namespace tessera::compiler
