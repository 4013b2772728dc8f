// Loads, stores and scratch memory.
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

unsigned BytesOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<LLVM::LLVMPointerType>(element)) return 8;
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

int64_t CountOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

}  // namespace

//===-- types -----------------------------------------------------------------------------------===//

Type KernelEmitter::Emitted(Type type) const {
  if (isa<tile::PtrType>(type)) return ptr_;
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8) return IntegerType::get(type.getContext(), 8);
  return type;
}

Type KernelEmitter::EmittedLanes(Type element, int64_t count) const {
  if (count == 1) return Emitted(element);
  if (isa<tile::PtrType>(element)) return VectorType::get({count}, i64_);
  return VectorType::get({count}, Emitted(element));
}

// Integers of 8 bits for i1, of 16 bits for 16-bit floats (masked accesses of those need no extra features).
Type KernelEmitter::MemoryType(Type type) const {
  Type element = getElementTypeOrSelf(type);
  if (isa<LLVM::LLVMPointerType>(element)) return type;
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits < 8) element = IntegerType::get(type.getContext(), 8);
  if (bits == 16) element = IntegerType::get(type.getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(type)) return VectorType::get(vector.getShape(), element);
  return element;
}

Value KernelEmitter::ToMemory(Value value) {
  Type type = value.getType(), memory = MemoryType(type);
  if (type == memory) return value;
  if (getElementTypeOrSelf(type).isInteger(1)) return builder_.create<arith::ExtUIOp>(loc_, memory, value);
  return builder_.create<arith::BitcastOp>(loc_, memory, value);
}

Value KernelEmitter::FromMemory(Value value, Type type) {
  if (value.getType() == type) return value;
  if (getElementTypeOrSelf(type).isInteger(1))
    return builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ne, value, Zero(value.getType()));
  return builder_.create<arith::BitcastOp>(loc_, type, value);
}

Value KernelEmitter::ConstI64(int64_t value) { return Const(i64_, value); }

Value KernelEmitter::Const(Type type, int64_t value) {
  if (auto vector = dyn_cast<VectorType>(type))
    return builder_.create<arith::ConstantOp>(
        loc_, DenseElementsAttr::get(vector, APInt(vector.getElementTypeBitWidth(), value, true)));
  return builder_.create<arith::ConstantOp>(loc_, builder_.getIntegerAttr(type, value));
}

Value KernelEmitter::Zero(Type type) {
  if (isa<LLVM::LLVMPointerType>(type)) return builder_.create<LLVM::ZeroOp>(loc_, type);
  return builder_.create<arith::ConstantOp>(loc_, builder_.getZeroAttr(type));
}

std::optional<bool> KernelEmitter::ConstantBool(Value value) {
  Attribute attr;
  if (!matchPattern(value, m_Constant(&attr))) return std::nullopt;
  if (auto integer = dyn_cast<IntegerAttr>(attr)) return !integer.getValue().isZero();
  if (auto splat = dyn_cast<SplatElementsAttr>(attr)) return !splat.getSplatValue<APInt>().isZero();
  return std::nullopt;
}

Value KernelEmitter::AsAddress(Value pointer) {
  if (!isa<LLVM::LLVMPointerType>(pointer.getType())) return pointer;
  return builder_.create<LLVM::PtrToIntOp>(loc_, i64_, pointer);
}

Value KernelEmitter::AsPointer(Value address) {
  if (isa<LLVM::LLVMPointerType>(address.getType())) return address;
  return builder_.create<LLVM::IntToPtrOp>(loc_, ptr_, address);
}

//===-- plain accesses -----------------------------------------------------------------------------===//

Value KernelEmitter::LoadAt(Value address, Type type) {
  return builder_.create<LLVM::LoadOp>(loc_, type, address, BytesOf(type));
}

void KernelEmitter::StoreAt(Value address, Value value) {
  builder_.create<LLVM::StoreOp>(loc_, value, address, BytesOf(value.getType()));
}

Value KernelEmitter::MaskedLoadAt(Value address, Value mask, Value passthru) {
  Type type = passthru.getType();
  auto masked = [&](OpBuilder& b) -> Value {
    return b.create<LLVM::MaskedLoadOp>(loc_, type, address, mask, ValueRange{passthru}, b.getI32IntegerAttr(BytesOf(type)));
  };
  bool native = target_.native_masks || (target_.wide_masks && BytesOf(type) >= 4);
  if (native) return masked(builder_);
  // Without the instruction each lane becomes a branch: worth avoiding where all lanes are on.
  Value all = builder_.create<vector::ReductionOp>(loc_, vector::CombiningKind::AND, mask);
  auto branch = builder_.create<scf::IfOp>(
      loc_, all,
      [&](OpBuilder& b, Location l) {
        b.create<scf::YieldOp>(l, ValueRange{b.create<LLVM::LoadOp>(l, type, address, BytesOf(type))});
      },
      [&](OpBuilder& b, Location l) { b.create<scf::YieldOp>(l, ValueRange{masked(b)}); });
  return branch.getResult(0);
}

void KernelEmitter::MaskedStoreAt(Value address, Value value, Value mask) {
  unsigned bytes = BytesOf(value.getType());
  bool native = target_.native_masks || (target_.wide_masks && bytes >= 4);
  if (native) {
    builder_.create<LLVM::MaskedStoreOp>(loc_, value, address, mask, builder_.getI32IntegerAttr(bytes));
    return;
  }
  Value all = builder_.create<vector::ReductionOp>(loc_, vector::CombiningKind::AND, mask);
  builder_.create<scf::IfOp>(
      loc_, all,
      [&](OpBuilder& b, Location l) {
        b.create<LLVM::StoreOp>(l, value, address, bytes);
        b.create<scf::YieldOp>(l);
      },
      [&](OpBuilder& b, Location l) {
        b.create<LLVM::MaskedStoreOp>(l, value, address, mask, b.getI32IntegerAttr(bytes));
        b.create<scf::YieldOp>(l);
      });
}

Value KernelEmitter::GatherAt(Value addresses, Value mask, Value passthru) {
  int64_t count = CountOf(addresses.getType());
  Value pointers = builder_.create<LLVM::IntToPtrOp>(loc_, LLVM::getFixedVectorType(ptr_, count), addresses);
  if (!mask) mask = Const(VectorType::get({count}, builder_.getI1Type()), 1);
  return builder_.create<LLVM::masked_gather>(loc_, passthru.getType(), pointers, mask, ValueRange{passthru},
                                              builder_.getI32IntegerAttr(BytesOf(passthru.getType())));
}

void KernelEmitter::ScatterAt(Value addresses, Value value, Value mask) {
  int64_t count = CountOf(addresses.getType());
  Value pointers = builder_.create<LLVM::IntToPtrOp>(loc_, LLVM::getFixedVectorType(ptr_, count), addresses);
  if (!mask) mask = Const(VectorType::get({count}, builder_.getI1Type()), 1);
  builder_.create<LLVM::masked_scatter>(loc_, value, pointers, mask, builder_.getI32IntegerAttr(BytesOf(value.getType())));
}

//===-- scratch memory --------------------------------------------------------------------------------===//

Value KernelEmitter::BufferAddress(const Buffer* buffer, Value element_index) {
  Value base = scratch_;
  if (buffer->offset != 0)
    base = builder_.create<LLVM::GEPOp>(loc_, ptr_, builder_.getI8Type(), base,
                                        ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(buffer->offset))}, true);
  Type memory = MemoryType(Emitted(buffer->element));
  return builder_.create<LLVM::GEPOp>(loc_, ptr_, memory, base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(element_index)}, true);
}

namespace {

llvm::SmallVector<int64_t, 4> BufferStrides(const Buffer* buffer) {
  llvm::SmallVector<int64_t, 4> strides(buffer->shape.size(), 1);
  for (int d = int(buffer->shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * buffer->shape[d + 1];
  return strides;
}

// Offsets of the lanes in elements; empty if the lanes are consecutive.
llvm::SmallVector<int64_t> LaneOffsets(const Buffer* buffer, const Lanes& lanes) {
  auto strides = BufferStrides(buffer);
  bool consecutive = true;
  for (auto [b, bit] : llvm::enumerate(lanes.bits)) consecutive &= bit.step * strides[bit.dim] == int64_t{1} << b;
  if (consecutive) return {};
  llvm::SmallVector<int64_t> offsets(lanes.count(), 0);
  for (int64_t lane = 0; lane < lanes.count(); ++lane)
    for (auto [b, bit] : llvm::enumerate(lanes.bits))
      if ((lane >> b) & 1) offsets[lane] += bit.step * strides[bit.dim];
  return offsets;
}

}  // namespace

Evaluated KernelEmitter::ReadBuffer(const Buffer* buffer, ArrayRef<Index> index, const Lanes& lanes) {
  auto strides = BufferStrides(buffer);
  Index linear;
  for (auto [d, i] : llvm::enumerate(index)) linear = Sum(linear, Scaled(i, strides[d]));
  GoTo(linear.level);
  Type type = EmittedLanes(buffer->element, lanes.count());
  Type memory = MemoryType(type);
  Value address = BufferAddress(buffer, IndexValue(linear));
  auto offsets = LaneOffsets(buffer, lanes);
  if (offsets.empty()) return {FromMemory(LoadAt(address, memory), type), linear.level};
  for (int64_t& offset : offsets) offset *= BytesOf(memory);
  auto wide = VectorType::get({lanes.count()}, i64_);
  Value addresses = builder_.create<vector::BroadcastOp>(loc_, wide, AsAddress(address));
  addresses = builder_.create<arith::AddIOp>(
      loc_, addresses, builder_.create<arith::ConstantOp>(loc_, DenseIntElementsAttr::get(wide, offsets)));
  return {FromMemory(GatherAt(addresses, nullptr, Zero(memory)), type), linear.level};
}

void KernelEmitter::WriteBuffer(const Buffer* buffer, ArrayRef<Index> index, const Lanes& lanes, Value value) {
  auto strides = BufferStrides(buffer);
  Index linear;
  for (auto [d, i] : llvm::enumerate(index)) linear = Sum(linear, Scaled(i, strides[d]));
  GoTo(depth());
  Value address = BufferAddress(buffer, IndexValue(linear));
  value = ToMemory(value);
  auto offsets = LaneOffsets(buffer, lanes);
  if (offsets.empty()) return StoreAt(address, value);
  // Lane by lane: scratch memory is never masked, and a scatter is no faster.
  Type memory = getElementTypeOrSelf(value.getType());
  for (int64_t lane = 0; lane < lanes.count(); ++lane) {
    Value element = builder_.create<vector::ExtractOp>(loc_, value, lane);
    Value where = builder_.create<LLVM::GEPOp>(loc_, ptr_, memory, address, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(offsets[lane]))}, true);
    StoreAt(where, element);
  }
}

//===-- tile.load and tile.store ------------------------------------------------------------------------===//

Evaluated KernelEmitter::EvaluateLoad(tile::LoadOp op, ArrayRef<Index> index, const Lanes& lanes) {
  Type element = getElementTypeOrSelf(op.getType());
  Type type = EmittedLanes(element, lanes.count());
  Type memory = MemoryType(type);
  bool one_access = lanes.scalar() || IsConsecutive(op.getPtr(), lanes);
  Evaluated pointer = Evaluate(op.getPtr(), index, one_access ? Lanes() : lanes);
  if (!pointer.value) return {};
  int level = pointer.level;

  Evaluated mask, other;
  bool one_mask = false;
  if (op.getMask()) {
    one_mask = lanes.scalar() || (one_access && IsUniform(op.getMask(), lanes));
    mask = Evaluate(op.getMask(), index, one_mask ? Lanes() : lanes);
    if (!mask.value) return {};
    level = std::max(level, mask.level);
    if (ConstantBool(mask.value) == true) mask.value = nullptr;
  }
  if (mask.value && op.getOther()) {
    other = Evaluate(op.getOther(), index, lanes);
    if (!other.value) return {};
    level = std::max(level, other.level);
  }
  GoTo(level);
  auto passthru = [&]() -> Value {
    if (!other.value) return Zero(memory);
    Value v = other.value;
    if (isa<LLVM::LLVMPointerType>(v.getType()) && !isa<LLVM::LLVMPointerType>(memory)) v = AsAddress(v);
    return ToMemory(v);
  };
  auto done = [&](Value loaded) -> Evaluated { return {FromMemory(loaded, type), level}; };

  if (one_access && !mask.value) {
    if (!op.getIsVolatile()) return done(LoadAt(pointer.value, memory));
    return done(builder_.create<LLVM::LoadOp>(loc_, memory, pointer.value, BytesOf(memory), true));
  }
  if (one_access && one_mask) {
    Value fallback = passthru();
    auto branch = builder_.create<scf::IfOp>(
        loc_, mask.value,
        [&](OpBuilder& b, Location l) {
          b.create<scf::YieldOp>(l, ValueRange{b.create<LLVM::LoadOp>(l, memory, pointer.value, BytesOf(memory), op.getIsVolatile())});
        },
        [&](OpBuilder& b, Location l) { b.create<scf::YieldOp>(l, ValueRange{fallback}); });
    return done(branch.getResult(0));
  }
  if (one_access) return done(MaskedLoadAt(pointer.value, mask.value, passthru()));
  return done(GatherAt(pointer.value, mask.value, mask.value ? passthru() : Zero(memory)));
}

LogicalResult KernelEmitter::EmitStore(tile::StoreOp op, ArrayRef<Index> index, const Lanes& lanes) {
  bool one_access = lanes.scalar() || IsConsecutive(op.getPtr(), lanes);
  Evaluated pointer = Evaluate(op.getPtr(), index, one_access ? Lanes() : lanes);
  Evaluated value = Evaluate(op.getValue(), index, lanes);
  if (!pointer.value || !value.value) return failure();
  Evaluated mask;
  bool one_mask = false;
  if (op.getMask()) {
    one_mask = lanes.scalar() || (one_access && IsUniform(op.getMask(), lanes));
    mask = Evaluate(op.getMask(), index, one_mask ? Lanes() : lanes);
    if (!mask.value) return failure();
    if (ConstantBool(mask.value) == true) mask.value = nullptr;
  }
  GoTo(depth());
  Value stored = ToMemory(value.value);
  if (!one_access) {
    ScatterAt(pointer.value, stored, mask.value);
  } else if (!mask.value) {
    StoreAt(pointer.value, stored);
  } else if (one_mask) {
    builder_.create<scf::IfOp>(loc_, mask.value, [&](OpBuilder& b, Location l) {
      b.create<LLVM::StoreOp>(l, stored, pointer.value, BytesOf(stored.getType()));
      b.create<scf::YieldOp>(l);
    });
  } else {
    MaskedStoreAt(pointer.value, stored, mask.value);
  }
  return success();
}

}  // namespace tessera::compiler
