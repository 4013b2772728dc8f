// Values on demand: an element at an index, or the lanes of a vector.
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

// Row-major strides in elements.
llvm::SmallVector<int64_t, 4> StridesOf(ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (int d = int(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

RankedTensorType BlockType(Value v) { return cast<RankedTensorType>(v.getType()); }

}  // namespace

Lanes Lanes::Along(int dim, int64_t count) {
  Lanes lanes;
  for (int64_t step = 1; step < count; step *= 2) lanes.bits.push_back({dim, step});
  return lanes;
}

int64_t Lanes::Span(int dim) const {
  int64_t span = 1;
  for (const LaneBit& bit : bits)
    if (bit.dim == dim) span = std::max(span, bit.step * 2);
  return span;
}

bool KernelEmitter::IsUniform(Value value, const Lanes& lanes) const {
  if (!isa<RankedTensorType>(value.getType())) return true;
  AxisInfo info = axis_.Get(value);
  return llvm::all_of(lanes.bits, [&](const LaneBit& bit) {
    return bit.dim < 0 || BlockType(value).getDimSize(bit.dim) == 1 || info.constancy[bit.dim] >= 2 * bit.step;
  });
}

bool KernelEmitter::IsConsecutive(Value value, const Lanes& lanes) const {
  if (lanes.scalar() || !isa<RankedTensorType>(value.getType())) return false;
  for (auto [i, bit] : llvm::enumerate(lanes.bits))
    if (bit.dim != lanes.bits[0].dim || bit.dim < 0 || bit.step != int64_t{1} << i) return false;
  return axis_.Get(value).contiguity[lanes.bits[0].dim] >= lanes.count();
}

Evaluated KernelEmitter::Repeat(Evaluated scalar, int64_t count) {
  if (count == 1 || !scalar.value) return scalar;
  GoTo(scalar.level);
  Value value = scalar.value;
  if (isa<LLVM::LLVMPointerType>(value.getType())) value = AsAddress(value);
  return {builder_.createOrFold<vector::BroadcastOp>(loc_, VectorType::get({count}, value.getType()), value), scalar.level};
}

static std::vector<int64_t> KeyOf(Value value, ArrayRef<Index> index, const Lanes& lanes) {
  std::vector<int64_t> key;
  key.reserve(1 + 2 * index.size() + 2 * lanes.bits.size());
  key.push_back(reinterpret_cast<int64_t>(value.getAsOpaquePointer()));
  for (const Index& i : index) {
    key.push_back(reinterpret_cast<int64_t>(i.base.getAsOpaquePointer()));
    key.push_back(i.offset);
  }
  for (const LaneBit& bit : lanes.bits) {
    key.push_back(bit.dim);
    key.push_back(bit.step);
  }
  return key;
}

void KernelEmitter::Remember(Value value, ArrayRef<Index> index, const Lanes& lanes, Evaluated result) {
  levels_[result.level].known[KeyOf(value, index, lanes)] = result;
}

Evaluated KernelEmitter::Evaluate(Value value, ArrayRef<Index> index, const Lanes& lanes) {
  Indices normal(index.begin(), index.end());
  if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
    for (auto [d, i] : llvm::enumerate(normal))
      if (type.getDimSize(d) == 1) i = Index();
  } else {
    normal.clear();
  }
  std::vector<int64_t> key = KeyOf(value, normal, lanes);
  for (int level = depth(); level >= 0; --level) {
    auto found = levels_[level].known.find(key);
    if (found != levels_[level].known.end()) return found->second;
  }
  Evaluated result = EvaluateUncached(value, normal, lanes);
  if (result.value) levels_[result.level].known[key] = result;
  return result;
}

Evaluated KernelEmitter::EvaluateUncached(Value value, ArrayRef<Index> index, const Lanes& lanes) {
  if (!isa<RankedTensorType>(value.getType())) {
    Value scalar = scalars_.lookup(value);
    if (!scalar) return (void)Unsupported(kernel_, "a value of type " + llvm::Twine("unknown origin")), Evaluated();
    return Repeat({scalar, 0}, lanes.count());
  }
  if (!lanes.scalar() && IsUniform(value, lanes)) return Repeat(Evaluate(value, index, Lanes()), lanes.count());
  if (llvm::any_of(lanes.bits, [](const LaneBit& bit) { return bit.dim < 0; })) {
    // Some bits of the lane number make no difference: evaluate without them and repeat.
    Lanes distinct;
    llvm::SmallVector<int> kept;
    for (auto [b, bit] : llvm::enumerate(lanes.bits))
      if (bit.dim >= 0) {
        distinct.bits.push_back(bit);
        kept.push_back(b);
      }
    Evaluated part = Evaluate(value, index, distinct);
    if (!part.value) return part;
    llvm::SmallVector<int64_t> mask(lanes.count(), 0);
    for (int64_t lane = 0; lane < lanes.count(); ++lane)
      for (auto [to, from] : llvm::enumerate(kept)) mask[lane] |= ((lane >> from) & 1) << to;
    GoTo(part.level);
    return {builder_.create<vector::ShuffleOp>(loc_, part.value, part.value, mask), part.level};
  }
  if (const Buffer* buffer = plan_.BufferOf(value)) return ReadBuffer(buffer, index, lanes);
  return EvaluateDefinition(value, index, lanes);
}

Evaluated KernelEmitter::EvaluateDefinition(Value value, ArrayRef<Index> index, const Lanes& lanes) {
  if (!lanes.scalar() && IsUniform(value, lanes)) return Repeat(EvaluateDefinition(value, index, Lanes()), lanes.count());
  Operation* op = value.getDefiningOp();
  if (!op) return (void)Unsupported(kernel_, "a block as an argument of the kernel"), Evaluated();
  return llvm::TypeSwitch<Operation*, Evaluated>(op)
      .Case([&](arith::ConstantOp constant) { return EvaluateConstant(constant, lanes); })
      .Case([&](tile::RangeOp range) { return EvaluateRange(range, index[0], lanes); })
      .Case([&](tile::SplatOp splat) { return Evaluate(splat.getSource(), {}, lanes); })
      .Case<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp>([&](Operation* shape) {
        Indices source_index;
        Lanes source_lanes;
        MapShape(shape, index, lanes, &source_index, &source_lanes);
        return Evaluate(shape->getOperand(0), source_index, source_lanes);
      })
      .Case([&](tile::SplitOp split) {
        Indices source(index.begin(), index.end());
        source.push_back(Index{nullptr, value == split.getRhs() ? 1 : 0, 0});
        return Evaluate(split.getSource(), source, lanes);
      })
      .Case([&](tile::JoinOp join) {
        int last = index.size() - 1, position = -1;
        for (auto [b, bit] : llvm::enumerate(lanes.bits))
          if (bit.dim == last) position = b;
        return EvaluateJoined(join.getLhs(), join.getRhs(), index[last], index.drop_back(), lanes, position);
      })
      .Case([&](tile::CatOp cat) {
        int64_t half = BlockType(cat.getLhs()).getDimSize(0);
        int position = -1;
        for (auto [b, bit] : llvm::enumerate(lanes.bits))
          if (bit.dim == 0 && bit.step == half) position = b;
        Index which = index[0], inside = index[0];
        if (!which.base) {
          which.offset = index[0].offset / half;
          inside.offset = index[0].offset % half;
        } else {
          GoTo(which.level);
          Value all = IndexValue(index[0]);
          which = {builder_.create<arith::ShRUIOp>(loc_, all, ConstI64(llvm::Log2_64(half))), 0, which.level};
          inside = {builder_.create<arith::AndIOp>(loc_, all, ConstI64(half - 1)), 0, which.level};
        }
        return EvaluateJoined(cat.getLhs(), cat.getRhs(), which, {inside}, lanes, position);
      })
      .Case([&](tile::GatherOp gather) { return EvaluateGather(gather, index, lanes); })
      .Case([&](tile::LoadOp load) { return EvaluateLoad(load, index, lanes); })
      .Default([&](Operation* other) {
        if (IsLaneByLane(other)) return EvaluateLaneOp(other, index, lanes);
        (void)Unsupported(other, other->getName().getStringRef());
        return Evaluated();
      });
}

Evaluated KernelEmitter::EvaluateLaneOp(Operation* op, ArrayRef<Index> index, const Lanes& lanes) {
  llvm::SmallVector<Value> operands;
  int level = 0;
  for (Value operand : op->getOperands()) {
    Evaluated e = Evaluate(operand, index, lanes);
    if (!e.value) return {};
    operands.push_back(e.value);
    level = std::max(level, e.level);
  }
  GoTo(level);
  return {LaneOp(op, operands, lanes.count()), level};
}

Evaluated KernelEmitter::EvaluateRange(tile::RangeOp op, Index index, const Lanes& lanes) {
  GoTo(index.level);
  Type i32 = builder_.getI32Type();
  int32_t start = op.getStart();
  Value first;
  if (!index.base) {
    first = Const(i32, start + index.offset);
  } else {
    first = builder_.create<arith::TruncIOp>(loc_, i32, index.base);
    if (start + index.offset != 0)
      first = builder_.create<arith::AddIOp>(loc_, first, Const(i32, start + index.offset));
  }
  Evaluated result{first, index.level};
  if (lanes.scalar()) return result;
  result = Repeat(result, lanes.count());
  llvm::SmallVector<int32_t> steps(lanes.count(), 0);
  for (int64_t lane = 0; lane < lanes.count(); ++lane)
    for (auto [b, bit] : llvm::enumerate(lanes.bits))
      if ((lane >> b) & 1) steps[lane] += bit.step;
  auto type = cast<VectorType>(result.value.getType());
  Value offsets = builder_.create<arith::ConstantOp>(loc_, DenseIntElementsAttr::get(type, steps));
  result.value = builder_.createOrFold<arith::AddIOp>(loc_, result.value, offsets);
  return result;
}

Evaluated KernelEmitter::EvaluateConstant(arith::ConstantOp op, const Lanes& lanes) {
  auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
  if (!splat) return (void)Unsupported(op, "a constant block of differing elements"), Evaluated();
  GoTo(0);
  Type element = Emitted(splat.getElementType());
  TypedAttr scalar = cast<TypedAttr>(splat.getSplatValue<Attribute>());
  if (element != splat.getElementType())
    scalar = builder_.getIntegerAttr(element, splat.getSplatValue<APFloat>().bitcastToAPInt());
  if (lanes.scalar()) return {builder_.create<arith::ConstantOp>(loc_, scalar), 0};
  auto vector = VectorType::get({lanes.count()}, element);
  return {builder_.create<arith::ConstantOp>(loc_, DenseElementsAttr::get(vector, ArrayRef<Attribute>{scalar})), 0};
}

// One of two blocks, chosen by `which` (0 or 1) and, where `bit` is not -1, by that bit of the lane number.
Evaluated KernelEmitter::EvaluateJoined(Value lhs, Value rhs, Index which, ArrayRef<Index> index, const Lanes& lanes,
                                        int bit) {
  if (bit < 0 && !which.base) return Evaluate(which.offset == 0 ? lhs : rhs, index, lanes);
  Lanes inner = lanes;
  if (bit >= 0) inner.bits.erase(inner.bits.begin() + bit);
  Evaluated a = Evaluate(lhs, index, inner), b = Evaluate(rhs, index, inner);
  if (!a.value || !b.value) return {};
  int level = std::max(a.level, b.level);
  if (bit < 0) {
    level = std::max(level, which.level);
    GoTo(level);
    Value first = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, IndexValue(which), ConstI64(0));
    return {builder_.create<arith::SelectOp>(loc_, first, a.value, b.value), level};
  }
  GoTo(level);
  int64_t half = inner.count();
  auto as_vector = [&](Value v) -> Value {
    if (half > 1) return v;
    if (isa<LLVM::LLVMPointerType>(v.getType())) v = AsAddress(v);
    return builder_.create<vector::BroadcastOp>(loc_, VectorType::get({1}, v.getType()), v);
  };
  llvm::SmallVector<int64_t> mask;
  for (int64_t lane = 0; lane < lanes.count(); ++lane) {
    int64_t low = lane & ((int64_t{1} << bit) - 1), high = (lane >> (bit + 1)) << bit;
    mask.push_back((high | low) + (((lane >> bit) & 1) ? half : 0));
  }
  return {builder_.create<vector::ShuffleOp>(loc_, as_vector(a.value), as_vector(b.value), mask), level};
}

Evaluated KernelEmitter::EvaluateGather(tile::GatherOp op, ArrayRef<Index> index, const Lanes& lanes) {
  const Buffer* source = plan_.BufferOf(op.getSource());
  int axis = op.getAxis();
  Evaluated picked = Evaluate(op.getIndex(), index, lanes);
  if (!picked.value) return {};
  auto strides = StridesOf(source->shape);
  int level = picked.level;
  for (auto [d, i] : llvm::enumerate(index))
    if (int(d) != axis) level = std::max(level, i.level);
  GoTo(level);
  Index outer;
  for (auto [d, i] : llvm::enumerate(index))
    if (int(d) != axis) outer = Sum(outer, Scaled(i, strides[d]));
  GoTo(level);
  Type wide = lanes.scalar() ? i64_ : Type(VectorType::get({lanes.count()}, i64_));
  Value where = picked.value;
  if (where.getType() != wide) where = builder_.create<arith::ExtSIOp>(loc_, wide, where);
  // An index outside the block reads some element, never other memory.
  where = builder_.create<arith::AndIOp>(loc_, where, Const(wide, source->shape[axis] - 1));
  where = builder_.create<arith::MulIOp>(loc_, where, Const(wide, strides[axis]));
  if (lanes.scalar()) {
    where = builder_.create<arith::AddIOp>(loc_, where, IndexValue(outer));
    Type type = Emitted(source->element);
    return {FromMemory(LoadAt(BufferAddress(source, where), MemoryType(type)), type), level};
  }
  llvm::SmallVector<int64_t> lane_offsets(lanes.count(), 0);
  for (int64_t lane = 0; lane < lanes.count(); ++lane)
    for (auto [b, bit] : llvm::enumerate(lanes.bits))
      if (((lane >> b) & 1) && bit.dim != axis) lane_offsets[lane] += bit.step * strides[bit.dim];
  where = builder_.create<arith::AddIOp>(
      loc_, where, builder_.create<arith::ConstantOp>(loc_, DenseIntElementsAttr::get(cast<VectorType>(wide), lane_offsets)));
  Type type = EmittedLanes(source->element, lanes.count());
  Type memory = MemoryType(type);
  int64_t bytes = std::max<int64_t>(1, getElementTypeOrSelf(memory).getIntOrFloatBitWidth() / 8);
  where = builder_.create<arith::MulIOp>(loc_, where, Const(wide, bytes));
  Value base = AsAddress(BufferAddress(source, IndexValue(outer)));
  where = builder_.create<arith::AddIOp>(loc_, where, builder_.create<vector::BroadcastOp>(loc_, wide, base));
  return {FromMemory(GatherAt(where, nullptr, Zero(memory)), type), level};
}

bool KernelEmitter::MapLanes(Operation* op, const Lanes& lanes, Lanes* source) {
  source->bits.clear();
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    int axis = expand.getAxis();
    for (LaneBit bit : lanes.bits)
      source->bits.push_back({bit.dim == axis ? -1 : (bit.dim > axis ? bit.dim - 1 : bit.dim), bit.step});
  } else if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    auto from = BlockType(broadcast.getSource());
    for (LaneBit bit : lanes.bits)
      source->bits.push_back({bit.dim >= 0 && from.getDimSize(bit.dim) == 1 ? -1 : bit.dim, bit.step});
  } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
    for (LaneBit bit : lanes.bits) source->bits.push_back({bit.dim < 0 ? -1 : trans.getOrder()[bit.dim], bit.step});
  } else if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    auto from = BlockType(reshape.getSource()), to = BlockType(reshape.getResult());
    auto from_strides = StridesOf(from.getShape()), to_strides = StridesOf(to.getShape());
    for (LaneBit bit : lanes.bits) {
      LaneBit mapped{-1, 1};
      if (bit.dim >= 0) {
        int64_t linear = bit.step * to_strides[bit.dim];
        for (int d = 0; d < from.getRank(); ++d)
          if (from_strides[d] <= linear && linear < from_strides[d] * from.getDimSize(d)) mapped = {d, linear / from_strides[d]};
      }
      source->bits.push_back(mapped);
    }
  } else {
    return false;
  }
  return true;
}

bool KernelEmitter::MapShape(Operation* op, ArrayRef<Index> index, const Lanes& lanes, Indices* source_index,
                             Lanes* source_lanes) {
  if (!MapLanes(op, lanes, source_lanes)) return false;
  source_index->clear();
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    source_index->append(index.begin(), index.end());
    source_index->erase(source_index->begin() + expand.getAxis());
  } else if (isa<tile::BroadcastOp>(op)) {
    source_index->append(index.begin(), index.end());  // extents of 1 are normalised by Evaluate
  } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
    source_index->resize(index.size());
    for (auto [d, s] : llvm::enumerate(trans.getOrder())) (*source_index)[s] = index[d];
  } else {
    auto from = BlockType(op->getOperand(0)), to = BlockType(op->getResult(0));
    auto from_strides = StridesOf(from.getShape()), to_strides = StridesOf(to.getShape());
    // Extents are powers of two: dimensions are ranges of bits of the linear index.
    for (int s = 0; s < from.getRank(); ++s) {
      Index sum;
      for (int d = 0; d < to.getRank(); ++d) {
        int64_t low = std::max(from_strides[s], to_strides[d]);
        int64_t high = std::min(from_strides[s] * from.getDimSize(s), to_strides[d] * to.getDimSize(d));
        if (low >= high) continue;
        int64_t shift = low / to_strides[d];
        Index part = index[d];
        if (!part.base) {
          part.offset = (part.offset / shift) % (high / low);
        } else if (shift != 1 || high != to_strides[d] * to.getDimSize(d)) {
          GoTo(part.level);
          Value v = IndexValue(part);
          if (shift != 1) v = builder_.create<arith::ShRUIOp>(loc_, v, ConstI64(llvm::Log2_64(shift)));
          if (high != to_strides[d] * to.getDimSize(d)) v = builder_.create<arith::AndIOp>(loc_, v, ConstI64(high / low - 1));
          part = {v, 0, part.level};
        }
        sum = Sum(sum, Scaled(part, low / from_strides[s]));
      }
      source_index->push_back(sum);
    }
  }
  return true;
}

//===-- indices ---------------------------------------------------------------------------------===//

Value KernelEmitter::IndexValue(const Index& index) {
  if (!index.base) return ConstI64(index.offset);
  if (index.offset == 0) return index.base;
  return builder_.create<arith::AddIOp>(loc_, index.base, ConstI64(index.offset));
}

Index KernelEmitter::Scaled(const Index& index, int64_t factor) {
  if (factor == 1) return index;
  Index scaled{nullptr, index.offset * factor, index.level};
  if (index.base) {
    GoTo(index.level);
    scaled.base = builder_.create<arith::MulIOp>(loc_, index.base, ConstI64(factor));
  }
  return scaled;
}

Index KernelEmitter::Sum(const Index& a, const Index& b) {
  Index sum{a.base ? a.base : b.base, a.offset + b.offset, std::max(a.level, b.level)};
  if (a.base && b.base) {
    GoTo(sum.level);
    sum.base = builder_.create<arith::AddIOp>(loc_, a.base, b.base);
  }
  return sum;
}

}  // namespace tessera::compiler
