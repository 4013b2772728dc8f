// Operations that need a whole block at once: gather and histogram in shared memory, sort by a bitonic network.
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

// An integer as i32, of which only the low bits matter.
Value AsI32(OpBuilder& b, Location loc, Value value) {
  unsigned bits = value.getType().getIntOrFloatBitWidth();
  if (bits == 32) return value;
  if (bits > 32) return b.create<arith::TruncIOp>(loc, b.getI32Type(), value);
  return b.create<arith::ExtUIOp>(loc, b.getI32Type(), value);
}

}  // namespace

LogicalResult Emitter::EmitGather(tile::GatherOp op) {
  LinearLayout from = LayoutOf(op.getSource()), index_layout = LayoutOf(op.getIndex()), to = LayoutOf(op.getResult());
  int axis = static_cast<int>(op.getAxis());
  Type element = Emitted(op.getType());
  SharedMap map = PlanShared(from, from, SharedBytes(element));
  if (map.bytes > options_.shared_bytes)
    return op.emitError() << "not supported on GPUs: a gather from a block of " << map.bytes << " bytes, more than the shared memory of "
                          << options_.shared_bytes << " bytes";
  Value buffer = Allocate(map.bytes);
  StoreShared(buffer, map, from, Get(op.getSource()));
  // The offset of the element's line, then the step along it.
  auto line = [&](int32_t flat) {
    LinearLayout::Coordinates at = index_layout.CoordinatesOf(flat);
    at[axis] = 0;
    return map.Offset(from.FlatOf(at));
  };
  Registers offsets = Indices(index_layout, line), result;
  llvm::SmallVector<int32_t, 16> images;
  int32_t step_mask = 0, line_mask = 0;
  for (int64_t step = 1; step < from.shape()[axis]; step *= 2) {
    images.push_back(map.Offset(static_cast<int32_t>(step * from.Stride(axis))));
    step_mask |= images.back();
  }
  for (int64_t flat = 1; flat < index_layout.elements(); flat *= 2) line_mask |= line(static_cast<int32_t>(flat));
  for (auto [offset, index] : llvm::zip(offsets, Get(op.getIndex()))) {
    Value place = AsI32(b_, loc_, index);
    place = Make<arith::AndIOp>(place, I32(from.shape()[axis] - 1));
    Value step = SpreadBits(place, images, 32);
    Value at = step_mask & line_mask ? Make<arith::XOrIOp>(offset, step) : Make<arith::OrIOp>(offset, step);
    result.push_back(FromShared(b_.create<simt::LoadSharedOp>(loc_, SharedType(element), buffer, at, Value()), element));
  }
  Free(buffer);
  Set(op.getResult(), Convert(result, index_layout, to));
  return success();
}

LogicalResult Emitter::EmitHistogram(tile::HistogramOp op) {
  LinearLayout to = LayoutOf(op.getResult()), from = LayoutOf(op.getSource());
  SharedMap map = PlanShared(to, to, 4);
  if (map.bytes > options_.shared_bytes) return op.emitError("not supported on GPUs: a histogram larger than shared memory");
  Value buffer = Allocate(map.bytes);
  StoreShared(buffer, map, to, Registers(to.registers(), I32(0)));
  int64_t bins = to.elements();
  Value owner = Owner(from);
  const Registers& values = Get(op.getSource());
  for (int32_t r = 0; r < from.registers(); ++r) {
    Value value = values[r];
    unsigned bits = value.getType().getIntOrFloatBitWidth();
    Value counted = And(owner, op.getMask() ? Get(op.getMask())[r] : nullptr);
    if (bits >= 63 || bins < int64_t{1} << bits)
      counted = And(counted, Make<arith::CmpIOp>(arith::CmpIPredicate::ult, value, Constant(value.getType(), bins)));
    Value bin = Make<arith::AndIOp>(AsI32(b_, loc_, value), I32(bins - 1));
    b_.create<simt::AtomicSharedOp>(loc_, tile::RmwKind::ADD, buffer, SpreadBits(bin, map.images, 32), I32(1), counted);
  }
  Set(op.getResult(), LoadShared(buffer, map, to, b_.getI32Type()));
  Free(buffer);
  return success();
}

LogicalResult Emitter::EmitSort(tile::SortOp op) {
  LinearLayout home = LayoutOf(op.getSource()), layout = home;
  int axis = layout.rank() - 1;
  Registers values = Get(op.getSource());
  bool plain = layout.IsDisjoint();
  for (int64_t step = 1; step < layout.shape()[axis] && plain; step *= 2) {
    bool found = false;
    for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp})
      found |= llvm::is_contained(layout.bases(input), static_cast<int32_t>(step));
    plain = found;
  }
  if (!plain) {
    layout = PlainLayout(layout.shape());
    values = Convert(values, home, layout);
  }
  Type element = values[0].getType();
  SharedMap map = PlanShared(layout, layout, SharedBytes(element));
  int64_t extent = layout.shape()[axis];
  auto greater = [&](Value a, Value b) -> Value {
    if (!isa<FloatType>(element))
      return Make<arith::CmpIOp>(op.getIsUnsigned() ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, a, b);
    if (element.getIntOrFloatBitWidth() == 8) {
      a = b_.create<tile::FpToFpOp>(loc_, b_.getF32Type(), a, tile::Rounding::RTNE);
      b = b_.create<tile::FpToFpOp>(loc_, b_.getF32Type(), b, tile::Rounding::RTNE);
    }
    return Make<arith::CmpFOp>(arith::CmpFPredicate::OGT, a, b);
  };
  // Whether bit `flat_bit` of an element's index is set: of register r's part here, of the thread's as a condition.
  auto thread_bit = [&](int32_t flat_bit) -> Value {
    int32_t mask = 0;
    for (auto [i, basis] : llvm::enumerate(layout.bases(LinearLayout::kLane))) mask |= basis == flat_bit ? 1 << i : 0;
    for (auto [i, basis] : llvm::enumerate(layout.bases(LinearLayout::kWarp))) mask |= basis == flat_bit ? 32 << i : 0;
    return mask ? ThreadTest(mask) : nullptr;
  };
  for (int64_t block = 2; block <= extent; block *= 2) {
    for (int64_t distance = block / 2; distance > 0; distance /= 2) {
      int32_t step = static_cast<int32_t>(distance);
      std::optional<int32_t> reg = layout.FindRegister(step);
      Registers others(values.size());
      if (reg) {
        for (size_t r = 0; r < values.size(); ++r) others[r] = values[r ^ *reg];
      } else if (const auto* lane = llvm::find(layout.bases(LinearLayout::kLane), step); lane != layout.bases(LinearLayout::kLane).end()) {
        Value mask = I32(1 << (lane - layout.bases(LinearLayout::kLane).begin()));
        for (size_t r = 0; r < values.size(); ++r) others[r] = Shuffle(simt::ShuffleKind::XOR, values[r], mask);
      } else {
        if (map.bytes > options_.shared_bytes) return op.emitError("not supported on GPUs: sorting a block larger than shared memory");
        Value buffer = Allocate(map.bytes);
        StoreShared(buffer, map, layout, values);
        others = LoadShared(buffer, map, layout, element, nullptr, nullptr, I32(map.Offset(step)), map.Offset(step));
        Free(buffer);
      }
      Value second_thread = reg ? nullptr : thread_bit(step);
      Value flip_thread = block == extent ? nullptr : thread_bit(static_cast<int32_t>(block));
      Registers next(values.size());
      for (int32_t r = 0; r < layout.registers(); ++r) {
        int32_t flat = layout.ApplyTo(LinearLayout::kRegister, r);
        Value own = values[r], other = others[r];
        Value low = own, high = other;
        if (second_thread) {
          low = Make<arith::SelectOp>(second_thread, other, own);
          high = Make<arith::SelectOp>(second_thread, own, other);
        } else if (flat & step) {
          std::swap(low, high);
        }
        Value swap = greater(low, high);
        bool flipped = block == extent ? op.getDescending() : (flat & block) != 0;
        if (flip_thread) swap = Make<arith::XOrIOp>(swap, flip_thread);
        else if (flipped) swap = Not(swap);
        next[r] = Make<arith::SelectOp>(swap, other, own);
      }
      values = std::move(next);
    }
  }
  Set(op.getResult(), Convert(values, layout, LayoutOf(op.getResult())));
  return success();
}

}  // namespace tessera::compiler
