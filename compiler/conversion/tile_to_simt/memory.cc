// Global memory: loads and stores as wide as contiguity, alignment and masks allow; atomics; reports.
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

constexpr int64_t kWidestAccess = 16;  // bytes

// The kernel's parameter that a pointer is made from; null where that is not plain.
Value RootOf(Value pointer) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(pointer)) {
      Operation* parent = argument.getOwner()->getParentOp();
      if (isa<func::FuncOp>(parent)) return pointer;
      auto loop = dyn_cast<scf::ForOp>(parent);
      if (!loop || argument.getArgNumber() == 0) return nullptr;
      pointer = loop.getInitArgs()[argument.getArgNumber() - 1];
      continue;
    }
    Operation* op = pointer.getDefiningOp();
    if (!isa<tile::AddPtrOp, tile::PtrCastOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp,
             tile::ConvertLayoutOp, tile::HintOp>(op))
      return nullptr;
    pointer = op->getOperand(0);
  }
}

bool IsZero(Value value) { return matchPattern(value, m_Zero()) || matchPattern(value, m_PosZeroFloat()); }

}  // namespace

Emitter::Grouping Emitter::Group(Value pointer, Value mask, const LinearLayout& layout, int64_t bytes) {
  Grouping grouping;
  grouping.run_steps.assign(layout.bits(LinearLayout::kRegister), 0);
  if (layout.rank() == 0) return grouping;
  AxisInfo info = axis_.Get(pointer);
  std::optional<AxisInfo> mask_info;
  if (mask && isa<RankedTensorType>(mask.getType())) mask_info = axis_.Get(mask);
  int fast = 0;
  for (int d = 0; d < layout.rank(); ++d) {
    int64_t limit = std::min(info.contiguity[d], kWidestAccess / bytes);
    if (mask_info) limit = std::min(limit, mask_info->constancy[d]);
    while (limit > 1 && info.divisibility[d] % (limit * bytes) != 0) limit /= 2;
    LinearLayout::Vector vector = layout.VectorAlong(d, std::max<int64_t>(1, limit));
    if (vector.size > grouping.vector.size) grouping.vector = vector;
    if (info.contiguity[d] > info.contiguity[fast]) fast = d;
  }
  // Registers in one contiguous run are at constant distances.
  for (auto [i, basis] : llvm::enumerate(layout.bases(LinearLayout::kRegister))) {
    int64_t stride = layout.Stride(fast), step = basis / stride;
    if (basis % stride != 0 || step >= info.contiguity[fast] || step >= layout.shape()[fast]) continue;
    bool alone = true;
    for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp})
      for (const int32_t& other : layout.bases(input)) alone &= &other == &basis || !(other & basis);
    if (!alone || (basis & (basis - 1))) continue;
    grouping.run_bits |= 1 << i;
    grouping.run_steps[i] = step;
  }
  return grouping;
}

Value Emitter::AddressOf(const Registers& pointers, const Grouping& grouping, int32_t reg, int64_t bytes) {
  int64_t distance = 0;
  for (auto [i, step] : llvm::enumerate(grouping.run_steps))
    if (reg >> i & 1) distance += step;
  Value head = pointers[reg & ~grouping.run_bits];
  if (distance == 0) return head;
  return Make<arith::AddIOp>(head, I64(distance * bytes));
}

void Emitter::EmitBarrier() {
  b_.create<simt::BarrierOp>(loc_);
  shared_reads_.clear();
}

void Emitter::NoteSharedRead(Value pointer) { shared_reads_.insert(RootOf(pointer)); }

void Emitter::OrderAfterReads(Value pointer) {
  if (shared_reads_.empty() || divergent_) return;
  Value root = RootOf(pointer);
  if (root && !shared_reads_.contains(root) && !shared_reads_.contains(nullptr)) return;
  EmitBarrier();
}

LogicalResult Emitter::EmitLoad(tile::LoadOp op) {
  Type element = Emitted(op.getType());
  int64_t bytes = BytesOf(element);
  auto make = [&](Type type, Value address, Value mask, Value other) -> Value {
    return b_.create<simt::LoadOp>(loc_, type, address, mask, other, op.getCache(), op.getEvict(), op.getIsVolatile());
  };
  auto layout = tile::LayoutOf(op.getType());
  if (writes_memory_ && (!layout || Owner(*layout))) NoteSharedRead(op.getPtr());
  if (!layout) {
    Value mask = op.getMask() ? Scalar(op.getMask()) : nullptr, other = mask && op.getOther() ? Scalar(op.getOther()) : nullptr;
    Set(op.getResult(), {make(element, Scalar(op.getPtr()), mask, other)});
    return success();
  }
  const Registers& pointers = Get(op.getPtr());
  const Registers* masks = op.getMask() ? &Get(op.getMask()) : nullptr;
  const Registers* others = masks && op.getOther() ? &Get(op.getOther()) : nullptr;
  if (others && llvm::all_of(*others, IsZero)) others = nullptr;
  Grouping grouping = Group(op.getPtr(), op.getMask(), *layout, bytes);
  const LinearLayout::Vector& vector = grouping.vector;
  Registers results(layout->registers());
  for (int32_t r = 0; r < layout->registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value address = AddressOf(pointers, grouping, r, bytes);
    Value mask = masks ? (*masks)[r] : nullptr;
    if (vector.size == 1) {
      results[r] = make(element, address, mask, others ? (*others)[r] : nullptr);
      continue;
    }
    auto type = VectorType::get({vector.size}, element);
    Value other;
    if (others) {
      llvm::SmallVector<Value> parts;
      for (int64_t i = 0; i < vector.size; ++i) parts.push_back((*others)[vector.Register(r, i)]);
      other = b_.create<vector::FromElementsOp>(loc_, type, parts);
    }
    Value loaded = make(type, address, mask, other);
    for (int64_t i = 0; i < vector.size; ++i) results[vector.Register(r, i)] = b_.create<vector::ExtractOp>(loc_, loaded, i);
  }
  Set(op.getResult(), std::move(results));
  return success();
}

LogicalResult Emitter::EmitStore(tile::StoreOp op) {
  OrderAfterReads(op.getPtr());
  Type element = Emitted(op.getValue().getType());
  int64_t bytes = BytesOf(element);
  auto layout = tile::LayoutOf(op.getPtr().getType());
  if (!layout) {
    Value first = Owner(ScalarLayout());
    Value mask = And(first, op.getMask() ? Scalar(op.getMask()) : nullptr);
    b_.create<simt::StoreOp>(loc_, Scalar(op.getPtr()), Scalar(op.getValue()), mask, op.getCache(), op.getEvict());
    return success();
  }
  const Registers& pointers = Get(op.getPtr());
  const Registers& values = Get(op.getValue());
  const Registers* masks = op.getMask() ? &Get(op.getMask()) : nullptr;
  if (values.size() != pointers.size()) return op.emitError("pointer and value differ in layout");
  Value owner = Owner(*layout);
  Grouping grouping = Group(op.getPtr(), op.getMask(), *layout, bytes);
  const LinearLayout::Vector& vector = grouping.vector;
  for (int32_t r = 0; r < layout->registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value address = AddressOf(pointers, grouping, r, bytes);
    Value value = values[r];
    if (vector.size > 1) {
      llvm::SmallVector<Value> parts;
      for (int64_t i = 0; i < vector.size; ++i) parts.push_back(values[vector.Register(r, i)]);
      value = b_.create<vector::FromElementsOp>(loc_, VectorType::get({vector.size}, element), parts);
    }
    b_.create<simt::StoreOp>(loc_, address, value, And(owner, masks ? (*masks)[r] : nullptr), op.getCache(), op.getEvict());
  }
  return success();
}

// An atomic operation that releases publishes what all threads of the block wrote before it.
void Emitter::FenceBeforeAtomic(Operation* op, tile::MemSem sem) {
  bool releases = sem == tile::MemSem::RELEASE || sem == tile::MemSem::ACQ_REL;
  bool scalar = !isa<RankedTensorType>(op->getOperand(0).getType());
  if (releases && (scalar || stores_)) EmitBarrier();
  else OrderAfterReads(op->getOperand(0));
}

// The old values, known to the owners alone, go to all threads that hold the element.
LogicalResult Emitter::FinishAtomic(Operation* op, Registers old) {
  Value result = op->getResult(0);
  LinearLayout layout = ScalarLayout();
  if (auto of = tile::LayoutOf(result.getType())) layout = *of;
  if (!result.use_empty() && Owner(layout)) old = ConvertThroughShared(old, layout, layout);
  Set(result, std::move(old));
  return success();
}

LogicalResult Emitter::EmitAtomicRmw(tile::AtomicRmwOp op) {
  FenceBeforeAtomic(op, op.getSem());
  LinearLayout layout = ScalarLayout();
  if (auto of = tile::LayoutOf(op.getPtr().getType())) layout = *of;
  Value owner = Owner(layout);
  Registers old;
  for (int32_t r = 0; r < layout.registers(); ++r) {
    Value mask = And(owner, op.getMask() ? Get(op.getMask())[r] : nullptr);
    Value value = Get(op.getValue())[r];
    old.push_back(b_.create<simt::AtomicRmwOp>(loc_, value.getType(), op.getKind(), Get(op.getPtr())[r], value, mask, op.getSem(), op.getScope()));
  }
  return FinishAtomic(op, std::move(old));
}

LogicalResult Emitter::EmitAtomicCas(tile::AtomicCasOp op) {
  FenceBeforeAtomic(op, op.getSem());
  LinearLayout layout = ScalarLayout();
  if (auto of = tile::LayoutOf(op.getPtr().getType())) layout = *of;
  Value owner = Owner(layout);
  Registers old;
  for (int32_t r = 0; r < layout.registers(); ++r) {
    Value value = Get(op.getValue())[r];
    old.push_back(b_.create<simt::AtomicCasOp>(loc_, value.getType(), Get(op.getPtr())[r], Get(op.getCompare())[r], value, owner, op.getSem(), op.getScope()));
  }
  return FinishAtomic(op, std::move(old));
}

LogicalResult Emitter::EmitPrint(tile::PrintOp op) {
  LinearLayout scalar = ScalarLayout();
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    auto tensor = tile::LayoutOf(operand.getType());
    const LinearLayout& layout = tensor ? *tensor : scalar;
    Registers indices = Indices(layout);
    Value owner = Owner(layout);
    const Registers& values = Get(operand);
    for (size_t r = 0; r < values.size(); ++r) {
      auto print = b_.create<simt::PrintOp>(loc_, op.getPrefix(), values[r], indices[r], static_cast<uint32_t>(layout.elements()),
                                            static_cast<uint32_t>(i), owner, op.getHex(), static_cast<bool>(op.getIsUnsigned()[i]));
      if (auto shape = dyn_cast<RankedTensorType>(operand.getType()); shape && shape.getRank() > 1)
        print->setAttr("simt.extents", b_.getDenseI64ArrayAttr(shape.getShape()));
    }
  }
  if (op.getOperands().empty()) return op.emitError("not supported on GPUs: device_print without a value");
  return success();
}

LogicalResult Emitter::EmitAssert(tile::AssertOp op) {
  const Registers& conditions = Get(op.getCondition());
  Value failed;
  for (size_t r = 0; r < conditions.size(); ++r) {
    Value wrong = And(Not(conditions[r]), op.getMask() ? Get(op.getMask())[r] : nullptr);
    failed = failed ? Make<arith::OrIOp>(failed, wrong) : wrong;
  }
  b_.create<simt::ReportOp>(loc_, failed, I64(0), simt::FailureKind::ASSERT, op.getMessage());
  return success();
}

}  // namespace tessera::compiler
