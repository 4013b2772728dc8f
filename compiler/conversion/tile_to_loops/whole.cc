// Operations with a code shape of their own: scans, sorting, histograms, scalar regions, atomics, prints, checks.
#include "base/kernel_abi.h"
#include "compiler/conversion/float_conversions.h"
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

// Shape of a value; scalars have none.
llvm::SmallVector<int64_t, 3> ShapeOf(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type ? llvm::SmallVector<int64_t, 3>(type.getShape()) : llvm::SmallVector<int64_t, 3>();
}

std::string ShortName(Type type, bool is_unsigned) {
  if (isa<tile::PtrType>(type)) return "u64";
  if (auto integer = dyn_cast<IntegerType>(type))
    return (is_unsigned && integer.getWidth() > 1 ? "u" : "i") + std::to_string(integer.getWidth());
  if (type.isF64()) return "fp64";
  if (type.isF32()) return "fp32";
  if (type.isF16()) return "fp16";
  if (type.isBF16()) return "bf16";
  if (type.isFloat8E4M3FN()) return "fp8e4nv";
  if (type.isFloat8E5M2()) return "fp8e5";
  if (type.isFloat8E4M3FNUZ()) return "fp8e4b8";
  if (type.isFloat8E5M2FNUZ()) return "fp8e5b16";
  return "fp8e4b15";
}

}  // namespace

LogicalResult KernelEmitter::EmitWhole(Operation* op) {
  if (auto dot = dyn_cast<tile::DotOp>(op)) return EmitDot(dot);
  if (auto scan = dyn_cast<tile::ScanOp>(op)) return EmitScan(scan);
  if (auto sort = dyn_cast<tile::SortOp>(op)) return EmitSort(sort);
  if (auto histogram = dyn_cast<tile::HistogramOp>(op)) return EmitHistogram(histogram);
  if (auto map = dyn_cast<tile::MapOp>(op)) return EmitMap(map);
  if (isa<tile::AtomicRmwOp, tile::AtomicCasOp>(op)) return EmitAtomic(op);
  if (auto print = dyn_cast<tile::PrintOp>(op)) return EmitPrint(print);
  if (auto check = dyn_cast<tile::AssertOp>(op)) return EmitAssert(check);
  return Unsupported(op, op->getName().getStringRef());
}

LogicalResult KernelEmitter::EmitScan(tile::ScanOp op) {
  llvm::SmallVector<int64_t, 3> shape = ShapeOf(op.getSources()[0]);
  int axis = op.getAxis();
  int64_t extent = shape[axis];
  // Lanes along another dimension, where there is one.
  Lanes lanes;
  if (IsVectorisable(op.getCombine()))
    for (int d = int(shape.size()) - 1; d >= 0; --d)
      if (d != axis && shape[d] > 1) {
        lanes = Lanes::Along(d, std::min<int64_t>(shape[d], target_.vector_bits / 32));
        break;
      }
  StartNest();
  Indices index = OpenNestOver(shape, lanes, axis);
  int outer = depth();
  auto at = [&](Index step) {
    if (!op.getReverse()) return step;
    if (!step.base) return Index{nullptr, extent - 1 - step.offset, 0};
    GoTo(step.level);
    return Index{builder_.create<arith::SubIOp>(loc_, ConstI64(extent - 1), IndexValue(step)), 0, step.level};
  };
  auto read = [&](llvm::SmallVectorImpl<Value>* values) -> LogicalResult {
    for (Value source : op.getSources()) {
      Evaluated e = Evaluate(source, index, lanes);
      if (!e.value) return failure();
      values->push_back(e.value);
    }
    return success();
  };
  auto write = [&](ArrayRef<Value> values) {
    for (auto [result, value] : llvm::zip(op.getResult(), values))
      if (const Buffer* buffer = plan_.BufferOf(result)) WriteBuffer(buffer, index, lanes, value);
  };
  llvm::SmallVector<Value> prefix;
  index[axis] = at(Index());
  if (failed(read(&prefix))) return failure();
  write(prefix);
  if (extent > 1) {
    GoTo(depth());
    Index step;
    scf::ForOp loop = OpenLoopWith(1, extent, 1, prefix, &step);
    index[axis] = at(step);
    llvm::SmallVector<Value> values, combined;
    if (failed(read(&values))) return failure();
    GoTo(depth());
    llvm::SmallVector<Value> before(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    if (failed(Combine(op.getCombine(), before, values, lanes.count(), &combined))) return failure();
    write(combined);
    GoTo(depth());
    builder_.create<scf::YieldOp>(loc_, combined);
    CloseTo(outer);
  }
  CloseTo(0);
  return success();
}

// A bitonic network in place, row by row.
LogicalResult KernelEmitter::EmitSort(tile::SortOp op) {
  const Buffer* buffer = plan_.BufferOf(op.getResult());
  if (!buffer) return success();
  if (failed(EmitInto(buffer, op.getSource()))) return failure();
  llvm::SmallVector<int64_t, 3> shape = ShapeOf(op.getSource());
  int64_t n = shape.back(), rows = 1;
  for (int64_t extent : shape) rows *= extent;
  rows /= n;
  if (n == 1) return success();
  Type type = Emitted(buffer->element), memory = MemoryType(type);
  Type element = buffer->element;

  StartNest();
  Index row = OpenLoop(0, rows, 1);
  Index stage;
  OpenLoopWith(0, llvm::Log2_64(n), 1, {}, &stage);
  Value block = builder_.create<arith::ShLIOp>(loc_, ConstI64(2), stage.base);
  Value rounds = builder_.create<arith::AddIOp>(loc_, stage.base, ConstI64(1));
  auto inner = builder_.create<scf::ForOp>(loc_, ConstI64(0), rounds, ConstI64(1));
  levels_.back().before = inner;
  levels_.push_back(Level{inner.getBody(), nullptr, {}});
  GoTo(depth());
  Value distance = builder_.create<arith::AddIOp>(loc_, inner.getInductionVar(), ConstI64(1));
  distance = builder_.create<arith::ShRUIOp>(loc_, block, distance);
  Value low_bits = builder_.create<arith::SubIOp>(loc_, distance, ConstI64(1));
  Index pair;
  OpenLoopWith(0, n / 2, 1, {}, &pair);
  Value kept = builder_.create<arith::AndIOp>(loc_, pair.base, low_bits);
  Value first = builder_.create<arith::SubIOp>(loc_, pair.base, kept);
  first = builder_.create<arith::AddIOp>(loc_, builder_.create<arith::AddIOp>(loc_, first, first), kept);
  Value in_block = builder_.create<arith::AndIOp>(loc_, first, block);
  Value descending = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ne, in_block, ConstI64(0));
  if (op.getDescending())
    descending = builder_.create<arith::XOrIOp>(loc_, descending, Const(builder_.getI1Type(), 1));
  Value base = builder_.create<arith::MulIOp>(loc_, IndexValue(row), ConstI64(n));
  Value left = BufferAddress(buffer, builder_.create<arith::AddIOp>(loc_, base, first));
  Value second = builder_.create<arith::AddIOp>(loc_, first, distance);
  Value right = BufferAddress(buffer, builder_.create<arith::AddIOp>(loc_, base, second));
  Value a = LoadAt(left, memory), b = LoadAt(right, memory);
  auto comparable = [&](Value v) -> Value {
    v = FromMemory(v, type);
    if (!isa<FloatType>(element) || element.getIntOrFloatBitWidth() >= 32) return v;
    if (element.getIntOrFloatBitWidth() == 8) v = builder_.create<arith::BitcastOp>(loc_, element, v);
    return ConvertFloat(builder_, loc_, v, builder_.getF32Type());
  };
  Value out_of_order;
  auto compare = [&](Value x, Value y) -> Value {
    if (isa<FloatType>(element))
      return builder_.create<arith::CmpFOp>(loc_, arith::CmpFPredicate::OGT, comparable(x), comparable(y));
    auto greater = op.getIsUnsigned() || element.isInteger(1) ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
    return builder_.create<arith::CmpIOp>(loc_, greater, comparable(x), comparable(y));
  };
  Value up = compare(a, b), down = compare(b, a);
  out_of_order = builder_.create<arith::SelectOp>(loc_, descending, down, up);
  StoreAt(left, builder_.create<arith::SelectOp>(loc_, out_of_order, b, a));
  StoreAt(right, builder_.create<arith::SelectOp>(loc_, out_of_order, a, b));
  CloseTo(0);
  return success();
}

LogicalResult KernelEmitter::EmitHistogram(tile::HistogramOp op) {
  const Buffer* buffer = plan_.BufferOf(op.getResult());
  if (!buffer) return success();
  int64_t bins = buffer->shape[0];
  Type type = Emitted(buffer->element);
  StartNest();
  builder_.create<LLVM::MemsetOp>(loc_, BufferAddress(buffer, ConstI64(0)), Const(builder_.getI8Type(), 0), ConstI64(buffer->bytes), false);
  Indices index = OpenNestOver(ShapeOf(op.getSource()), Lanes());
  Evaluated value = Evaluate(op.getSource(), index, Lanes());
  Evaluated mask;
  if (op.getMask()) mask = Evaluate(op.getMask(), index, Lanes());
  if (!value.value || (op.getMask() && !mask.value)) return failure();
  GoTo(depth());
  Value bin = value.value;
  if (bin.getType() != i64_) bin = builder_.create<arith::ExtSIOp>(loc_, i64_, bin);
  Value counts = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ult, bin, ConstI64(bins));
  if (mask.value) counts = builder_.create<arith::AndIOp>(loc_, counts, mask.value);
  auto branch = builder_.create<scf::IfOp>(loc_, TypeRange(), counts, false);
  builder_.setInsertionPointToStart(branch.thenBlock());
  Value slot = BufferAddress(buffer, bin);
  StoreAt(slot, builder_.create<arith::AddIOp>(loc_, LoadAt(slot, type), Const(type, 1)));
  CloseTo(0);
  return success();
}

LogicalResult KernelEmitter::EmitMap(tile::MapOp op) {
  StartNest();
  Indices index = OpenNestOver(ShapeOf(op.getSources()[0]), Lanes());
  Block& body = op.getBody().front();
  for (auto [source, argument] : llvm::zip(op.getSources(), body.getArguments())) {
    Evaluated e = Evaluate(source, index, Lanes());
    if (!e.value) return failure();
    scalars_[argument] = e.value;
  }
  std::vector<Level> outside = levels_;
  MoveInto(levels_.back().block);
  if (failed(EmitSteps(&body))) return failure();
  levels_ = outside;
  for (auto [result, value] : llvm::zip(op.getResults(), body.getTerminator()->getOperands()))
    if (const Buffer* buffer = plan_.BufferOf(result)) WriteBuffer(buffer, index, Lanes(), scalars_.lookup(value));
  CloseTo(0);
  return success();
}

//===-- atomics -----------------------------------------------------------------------------------------===//

namespace {

LLVM::AtomicOrdering OrderingOf(tile::MemSem sem) {
  switch (sem) {
    case tile::MemSem::RELAXED: return LLVM::AtomicOrdering::monotonic;
    case tile::MemSem::ACQUIRE: return LLVM::AtomicOrdering::acquire;
    case tile::MemSem::RELEASE: return LLVM::AtomicOrdering::release;
    case tile::MemSem::ACQ_REL: return LLVM::AtomicOrdering::acq_rel;
  }
  return LLVM::AtomicOrdering::acq_rel;
}

// What a failed exchange may ask for.
LLVM::AtomicOrdering FailureOrdering(LLVM::AtomicOrdering ordering) {
  if (ordering == LLVM::AtomicOrdering::acq_rel) return LLVM::AtomicOrdering::acquire;
  if (ordering == LLVM::AtomicOrdering::release) return LLVM::AtomicOrdering::monotonic;
  return ordering;
}

LLVM::AtomicBinOp BinOpOf(tile::RmwKind kind) {
  switch (kind) {
    case tile::RmwKind::AND: return LLVM::AtomicBinOp::_and;
    case tile::RmwKind::OR: return LLVM::AtomicBinOp::_or;
    case tile::RmwKind::XOR: return LLVM::AtomicBinOp::_xor;
    case tile::RmwKind::ADD: return LLVM::AtomicBinOp::add;
    case tile::RmwKind::FADD: return LLVM::AtomicBinOp::fadd;
    case tile::RmwKind::MAX: return LLVM::AtomicBinOp::max;
    case tile::RmwKind::MIN: return LLVM::AtomicBinOp::min;
    case tile::RmwKind::UMAX: return LLVM::AtomicBinOp::umax;
    case tile::RmwKind::UMIN: return LLVM::AtomicBinOp::umin;
    case tile::RmwKind::FMAX: return LLVM::AtomicBinOp::fmax;
    case tile::RmwKind::FMIN: return LLVM::AtomicBinOp::fmin;
    case tile::RmwKind::XCHG: return LLVM::AtomicBinOp::xchg;
  }
  return LLVM::AtomicBinOp::add;
}

}  // namespace

// Performs the atomic operation at the current place and gives the old value.
Value KernelEmitter::AtomicAt(Operation* op, Value address, Value value, Value compare) {
  Type type = value.getType();
  unsigned bits = isa<LLVM::LLVMPointerType>(type) ? 64 : type.getIntOrFloatBitWidth();
  Type integer = builder_.getIntegerType(bits);
  auto as_bits = [&](Value v) -> Value {
    if (isa<LLVM::LLVMPointerType>(type)) return AsAddress(v);
    return v.getType() == integer ? v : builder_.create<arith::BitcastOp>(loc_, integer, v);
  };
  auto from_bits = [&](Value v) -> Value {
    if (isa<LLVM::LLVMPointerType>(type)) return AsPointer(v);
    return v.getType() == type ? v : builder_.create<arith::BitcastOp>(loc_, type, v);
  };
  auto exchange = [&](Value expected, Value desired, LLVM::AtomicOrdering ordering) -> Value {
    return builder_.create<LLVM::AtomicCmpXchgOp>(loc_, address, expected, desired, ordering, FailureOrdering(ordering));
  };
  auto extract = [&](Value pair, int64_t field) -> Value { return builder_.create<LLVM::ExtractValueOp>(loc_, pair, field); };

  if (auto cas = dyn_cast<tile::AtomicCasOp>(op))
    return from_bits(extract(exchange(as_bits(compare), as_bits(value), OrderingOf(cas.getSem())), 0));
  auto rmw = cast<tile::AtomicRmwOp>(op);
  LLVM::AtomicOrdering ordering = OrderingOf(rmw.getSem());
  if (isa<FloatType>(type) && bits == 16 && rmw.getKind() == tile::RmwKind::FADD) {
    // No target adds 16-bit floats in memory: read, add in fp32, exchange until nothing came between.
    Value first = builder_.create<LLVM::LoadOp>(loc_, integer, address, 2);
    Value wide = ConvertFloat(builder_, loc_, value, builder_.getF32Type());
    auto loop = builder_.create<scf::WhileOp>(loc_, TypeRange{integer}, ValueRange{first});
    Block* before = &loop.getBefore().emplaceBlock();
    Value expected = before->addArgument(integer, loc_);
    Block* after = &loop.getAfter().emplaceBlock();
    after->addArgument(integer, loc_);
    builder_.setInsertionPointToEnd(before);
    Value sum = ConvertFloat(builder_, loc_, from_bits(expected), builder_.getF32Type());
    sum = ConvertFloat(builder_, loc_, builder_.create<arith::AddFOp>(loc_, sum, wide), type);
    Value pair = exchange(expected, as_bits(sum), ordering);
    Value again = builder_.create<arith::XOrIOp>(loc_, extract(pair, 1), Const(builder_.getI1Type(), 1));
    builder_.create<scf::ConditionOp>(loc_, again, ValueRange{extract(pair, 0)});
    builder_.setInsertionPointToEnd(after);
    builder_.create<scf::YieldOp>(loc_, after->getArguments());
    builder_.setInsertionPointAfter(loop);
    return from_bits(loop.getResult(0));
  }
  if (rmw.getKind() == tile::RmwKind::XCHG)
    return from_bits(builder_.create<LLVM::AtomicRMWOp>(loc_, LLVM::AtomicBinOp::xchg, address, as_bits(value), ordering));
  return builder_.create<LLVM::AtomicRMWOp>(loc_, BinOpOf(rmw.getKind()), address, value, ordering);
}

LogicalResult KernelEmitter::EmitAtomic(Operation* op) {
  Value pointer, value, mask, compare;
  if (auto rmw = dyn_cast<tile::AtomicRmwOp>(op)) {
    pointer = rmw.getPtr(), value = rmw.getValue(), mask = rmw.getMask();
  } else {
    auto cas = cast<tile::AtomicCasOp>(op);
    pointer = cas.getPtr(), value = cas.getValue(), compare = cas.getCompare();
  }
  Value result = op->getResult(0);
  Type element = getElementTypeOrSelf(result.getType());
  if (!isa<tile::PtrType>(element) && element.getIntOrFloatBitWidth() < 16) return Unsupported(op, "an atomic operation on 8 bits");
  StartNest();
  Indices index = OpenNestOver(ShapeOf(pointer), Lanes());
  auto evaluate = [&](Value v) { return v ? Evaluate(v, index, Lanes()).value : Value(); };
  Value p = evaluate(pointer), v = evaluate(value), m = evaluate(mask), c = evaluate(compare);
  if (failed_ || !p || !v) return failure();
  GoTo(depth());
  Value old;
  if (!m || ConstantBool(m) == true) {
    old = AtomicAt(op, p, v, c);
  } else {
    auto branch = builder_.create<scf::IfOp>(loc_, TypeRange{v.getType()}, m, true);
    builder_.setInsertionPointToEnd(branch.thenBlock());
    Value done = AtomicAt(op, p, v, c);
    builder_.create<scf::YieldOp>(loc_, done);
    builder_.setInsertionPointToEnd(branch.elseBlock());
    Value zero = Zero(v.getType());
    builder_.create<scf::YieldOp>(loc_, zero);
    old = branch.getResult(0);
  }
  if (!isa<RankedTensorType>(result.getType())) {
    scalars_[result] = old;
  } else if (const Buffer* buffer = plan_.BufferOf(result)) {
    WriteBuffer(buffer, index, Lanes(), old);
  }
  CloseTo(0);
  return success();
}

//===-- talking to the host --------------------------------------------------------------------------------===//

Value KernelEmitter::GlobalText(llvm::StringRef text) {
  std::string bytes = text.str();
  bytes.push_back('\0');
  std::string name = "tessera_text_" + std::to_string(texts_++);
  OpBuilder at_top(kernel_);
  at_top.create<LLVM::GlobalOp>(loc_, LLVM::LLVMArrayType::get(builder_.getI8Type(), bytes.size()), true,
                                LLVM::Linkage::Internal, name, builder_.getStringAttr(bytes));
  return builder_.create<LLVM::AddressOfOp>(loc_, ptr_, name);
}

LogicalResult KernelEmitter::EmitPrint(tile::PrintOp op) {
  StartNest();
  // The program's index lies in one slot on the stack of the entry function.
  Value ids;
  {
    OpBuilder::InsertionGuard guard(builder_);
    auto entry = builder_.getInsertionBlock()->getParentOp();
    while (!isa<func::FuncOp>(entry)) entry = entry->getParentOp();
    builder_.setInsertionPointToStart(&cast<func::FuncOp>(entry).getBody().front());
    ids = builder_.create<LLVM::AllocaOp>(loc_, ptr_, builder_.getI32Type(), ConstI64(3));
  }
  for (int d = 0; d < 3; ++d)
    StoreAt(builder_.create<LLVM::GEPOp>(loc_, ptr_, builder_.getI32Type(), ids, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(d)}), program_id_[d]);
  Value print = LoadAt(builder_.create<LLVM::GEPOp>(loc_, ptr_, builder_.getI8Type(), context_,
                                                    ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(offsetof(KernelContext, print)))}),
                       ptr_);
  Value prefix = GlobalText(op.getPrefix());
  Type i64 = i64_;
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder_.getContext()), {ptr_, ptr_, ptr_, ptr_, i64, i64, i64});
  auto call = [&](Value kind, Value bits, Value lane, Value lanes) {
    builder_.create<LLVM::CallOp>(loc_, type, ValueRange{print, context_, ids, prefix, kind, bits, lane, lanes});
  };
  if (op.getOperands().empty()) call(GlobalText(""), ConstI64(0), ConstI64(0), ConstI64(0));
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    bool is_unsigned = i < op.getIsUnsigned().size() && op.getIsUnsigned()[i];
    Type element = getElementTypeOrSelf(operand.getType());
    std::string kind_text(ShortName(element, is_unsigned));
    if (op.getHex() && element.isInteger()) kind_text = "x" + std::to_string(std::max(8u, element.getIntOrFloatBitWidth()));
    llvm::SmallVector<int64_t, 3> shape = ShapeOf(operand);
    for (size_t d = 0; shape.size() > 1 && d < shape.size(); ++d) kind_text += (d == 0 ? "[" : ",") + std::to_string(shape[d]);
    Value kind = GlobalText(kind_text + (shape.size() > 1 ? "]" : ""));
    Indices index;
    for (int64_t extent : shape) index.push_back(OpenLoop(0, extent, 1));
    Evaluated e = Evaluate(operand, index, Lanes());
    if (!e.value) return failure();
    GoTo(depth());
    Value bits = e.value;
    if (isa<LLVM::LLVMPointerType>(bits.getType())) bits = AsAddress(bits);
    if (isa<FloatType>(bits.getType()))
      bits = builder_.create<arith::BitcastOp>(loc_, builder_.getIntegerType(bits.getType().getIntOrFloatBitWidth()), bits);
    if (bits.getType() != i64_) bits = builder_.create<arith::ExtUIOp>(loc_, i64_, bits);
    Index lane;
    int64_t total = 1;
    for (int d = int(shape.size()) - 1; d >= 0; --d) {
      lane = Sum(lane, Scaled(index[d], total));
      total *= shape[d];
    }
    GoTo(depth());
    call(kind, bits, IndexValue(lane), ConstI64(total));
    CloseTo(0);
  }
  return success();
}

LogicalResult KernelEmitter::EmitAssert(tile::AssertOp op) {
  llvm::SmallVector<int64_t, 3> shape = ShapeOf(op.getCondition());
  StartNest();
  Lanes lanes = shape.empty() ? Lanes() : ChooseLanesFor({op.getCondition()}, shape, -1);
  Indices index = OpenNestOver(shape, lanes);
  Evaluated holds = Evaluate(op.getCondition(), index, lanes);
  if (!holds.value) return failure();
  Value ok = holds.value;
  if (op.getMask()) {
    Evaluated mask = Evaluate(op.getMask(), index, lanes);
    if (!mask.value) return failure();
    GoTo(depth());
    Value off = builder_.create<arith::XOrIOp>(loc_, mask.value, Const(mask.value.getType(), 1));
    ok = builder_.create<arith::OrIOp>(loc_, ok, off);
  }
  GoTo(depth());
  if (!lanes.scalar()) ok = builder_.create<vector::ReductionOp>(loc_, vector::CombiningKind::AND, ok);
  builder_.create<cf::AssertOp>(loc_, ok, op.getMessage());
  CloseTo(0);
  return success();
}

}  // namespace tessera::compiler
