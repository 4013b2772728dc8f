// Atomic operations: instructions where the GPU has them, else a few of them, else loops of compare-and-swap.
#include "compiler/conversion/simt_to_nvvm/translator.h"

namespace tessera::compiler {

using llvm::Value;
using mlir::LogicalResult;
using mlir::success;
using tile::RmwKind;

namespace {

std::string OrderOf(tile::MemSem sem, tile::MemScope scope) { return (tile::stringifyMemSem(sem) + "." + tile::stringifyMemScope(scope)).str(); }

// "add.u32" for integers of `bits`; null where `kind` is one of floats.
std::string IntegerOperation(RmwKind kind, unsigned bits) {
  const std::string width = std::to_string(bits);
  switch (kind) {
    case RmwKind::AND: return "and.b" + width;
    case RmwKind::OR: return "or.b" + width;
    case RmwKind::XOR: return "xor.b" + width;
    case RmwKind::ADD: return "add.u" + width;
    case RmwKind::MAX: return "max.s" + width;
    case RmwKind::MIN: return "min.s" + width;
    case RmwKind::UMAX: return "max.u" + width;
    case RmwKind::UMIN: return "min.u" + width;
    case RmwKind::XCHG: return "exch.b" + width;
    default: return "";
  }
}

const char* RegisterOf(unsigned bits) { return bits == 64 ? "l" : bits == 32 ? "r" : "h"; }

}  // namespace

Value* SimtTranslator::Atom(const std::string& space, const std::string& order, const std::string& operation, const char* constraint,
                            const Address& address, llvm::ArrayRef<Value*> values, Value* predicate) {
  llvm::Type* type = values[0]->getType();
  std::string constraints = std::string("=") + constraint + (address.base->getType() == i64_ ? ",l" : ",r");
  llvm::SmallVector<Value*> operands = {address.base};
  std::string sources;
  for (Value* value : values) {
    constraints += std::string(",") + constraint;
    operands.push_back(value);
    sources += ", $" + std::to_string(operands.size());
  }
  std::string text;
  if (predicate) {
    operands.push_back(predicate);
    text = "@$" + std::to_string(operands.size()) + " ";
    constraints += ",b,0";
    operands.push_back(llvm::Constant::getNullValue(type));
  }
  text += "atom." + order + "." + space + "." + operation + " $0, " + address.Text(1) + sources + ";";
  return Asm(type, text, constraints, operands, kMemory);
}

// The memory word is compared by its bits.
Value* SimtTranslator::CompareAndSwapLoop(const std::string& order, const Address& address, Value* value, mlir::Type type, Value* predicate,
                                          llvm::function_ref<Value*(Value* old)> update) {
  const unsigned bits = type.getIntOrFloatBitWidth();
  llvm::Type* integer = b_.getIntNTy(bits);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* after_if = predicate ? BeginIf(predicate) : nullptr;
  Value* first = Asm(integer, "ld.volatile.global.b" + std::to_string(bits) + " $0, " + address.Text(1) + ";", std::string("=") + RegisterOf(bits) + ",l",
                     {address.base}, kVolatile);
  llvm::BasicBlock* start = b_.GetInsertBlock();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(context_, "retry", function_);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* expected = b_.CreatePHI(integer, 2);
  expected->addIncoming(first, start);
  Value* replacement = b_.CreateBitCast(update(b_.CreateBitCast(expected, Type(type))), integer);
  Value* found = Atom("global", order, "cas.b" + std::to_string(bits), RegisterOf(bits), address, {expected, replacement}, nullptr);
  expected->addIncoming(found, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpEQ(found, expected), done, loop);
  b_.SetInsertPoint(done);
  Value* old = b_.CreateBitCast(found, Type(type));
  if (!predicate) return old;
  llvm::BasicBlock* end = b_.GetInsertBlock();
  EndIf(after_if);
  llvm::PHINode* merged = b_.CreatePHI(old->getType(), 2);
  merged->addIncoming(old, end);
  merged->addIncoming(llvm::Constant::getNullValue(old->getType()), before);
  return merged;
}

Value* SimtTranslator::AtomicScalar(RmwKind kind, const std::string& order, const Address& address, Value* value, mlir::Type type, Value* predicate) {
  const unsigned bits = type.getIntOrFloatBitWidth();
  llvm::Type* integer = b_.getIntNTy(bits);
  if (kind == RmwKind::FADD) {
    if (type.isF32()) return Atom("global", order, "add.f32", "f", address, {value}, predicate);
    if (type.isF64()) return Atom("global", order, "add.f64", "d", address, {value}, predicate);
    if (type.isF16()) return b_.CreateBitCast(Atom("global", order, "add.noftz.f16", "h", address, {b_.CreateBitCast(value, i16_)}, predicate), half_);
    if (type.isBF16() && arch_.HasBf16Atomics()) return Atom("global", order, "add.noftz.bf16", "h", address, {value}, predicate);
    if (!type.isBF16()) return nullptr;
    return CompareAndSwapLoop(order, address, value, type, predicate,
                              [&](Value* old) { return Narrow(b_.CreateFAdd(Widen(old, type), Widen(value, type)), type); });
  }
  if (kind == RmwKind::FMAX || kind == RmwKind::FMIN) {
    if (type.isF16() || type.isBF16())
      return CompareAndSwapLoop(order, address, value, type, predicate, [&](Value* old) {
        const auto extreme = kind == RmwKind::FMAX ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum;
        return Narrow(b_.CreateBinaryIntrinsic(extreme, Widen(old, type), Widen(value, type)), type);
      });
    if (bits < 32) return nullptr;
    // Floats of one sign are ordered as their bits, negative ones in reverse. NaN changes nothing.
    const bool max = kind == RmwKind::FMAX;
    const std::string width = std::to_string(bits);
    Value* raw = b_.CreateBitCast(value, integer);
    const llvm::APInt neutral = max ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits);
    Value* is_nan = b_.CreateFCmpUNO(value, value);
    Value* negative = b_.CreateAnd(b_.CreateICmpSLT(raw, llvm::ConstantInt::get(integer, 0)), b_.CreateNot(is_nan));
    raw = b_.CreateSelect(is_nan, llvm::ConstantInt::get(integer, neutral), raw);
    Value* when_positive = b_.CreateNot(negative);
    Value* when_negative = negative;
    if (predicate) {
      when_positive = b_.CreateAnd(when_positive, predicate);
      when_negative = b_.CreateAnd(when_negative, predicate);
    }
    const char* reg = RegisterOf(bits);
    Value* signed_old = Atom("global", order, (max ? "max.s" : "min.s") + width, reg, address, {raw}, when_positive);
    Value* unsigned_old = Atom("global", order, (max ? "min.u" : "max.u") + width, reg, address, {raw}, when_negative);
    return b_.CreateBitCast(b_.CreateSelect(negative, unsigned_old, signed_old), Type(type));
  }
  const std::string operation = IntegerOperation(kind, bits);
  if (operation.empty()) return nullptr;
  if (bits == 32 || bits == 64)
    return b_.CreateBitCast(Atom("global", order, operation, RegisterOf(bits), address, {b_.CreateBitCast(value, integer)}, predicate), Type(type));
  if (bits == 16 && kind == RmwKind::XCHG) return CompareAndSwapLoop(order, address, value, type, predicate, [&](Value*) { return value; });
  return nullptr;
}

LogicalResult SimtTranslator::AtomicRmw(simt::AtomicRmwOp op) {
  const std::string order = OrderOf(op.getSem(), op.getScope());
  mlir::Type type = op.getValue().getType(), element = mlir::getElementTypeOrSelf(type);
  Address address = GlobalAddress(op.getAddress());
  Value* predicate = GetOrTrue(op.getPredicate());
  auto refuse = [&] { return Unsupported(op, "atomic " + tile::stringifyRmwKind(op.getKind()) + " on this type"); };
  if (!mlir::isa<mlir::VectorType>(type)) {
    Value* old = AtomicScalar(op.getKind(), order, address, Get(op.getValue()), element, predicate);
    if (!old) return refuse();
    Set(op, old);
    return success();
  }
  Lanes values = GetLanes(op.getValue());
  const bool is_add = op.getKind() == RmwKind::FADD;
  // Two halves at a time, or several floats.
  const bool pairs = is_add && (element.isF16() || (element.isBF16() && arch_.HasBf16Atomics())) && values.size() % 2 == 0;
  if (is_add && element.isF32() && arch_.HasVectorAtomics() && (values.size() == 2 || values.size() == 4)) {
    const int count = values.size();
    std::string results, sources, constraints, tied;
    llvm::SmallVector<Value*> operands = {address.base};
    for (int i = 0; i < count; ++i) {
      results += (i ? ", $" : "$") + std::to_string(i);
      sources += (i ? ", $" : "$") + std::to_string(count + 1 + i);
      constraints += "=f,";
      tied += "," + std::to_string(i);
    }
    constraints += "l";
    for (Value* value : values) {
      constraints += ",f";
      operands.push_back(value);
    }
    std::string text;
    if (predicate) {
      text = "@$" + std::to_string(2 * count + 1) + " ";
      constraints += ",b" + tied;
      operands.push_back(predicate);
      operands.append(count, llvm::Constant::getNullValue(float_));
    }
    text += "atom." + order + ".global.add.v" + std::to_string(count) + ".f32 {" + results + "}, " + address.Text(count) + ", {" + sources + "};";
    Value* call = Asm(StructOf(llvm::SmallVector<llvm::Type*>(count, float_)), text, constraints, operands, kMemory);
    Lanes old;
    for (int i = 0; i < count; ++i) old.push_back(Result(call, i, count));
    SetLanes(op, old);
    return success();
  }
  Lanes result;
  const int bytes = std::max(element.getIntOrFloatBitWidth() / 8, 1u);
  for (size_t i = 0; i < values.size(); i += pairs ? 2 : 1) {
    Address place{address.base, address.offset + int64_t(i) * bytes};
    if (pairs) {
      mlir::Type pair_type = mlir::VectorType::get({2}, element);
      const Words words = WordsOf(pair_type);
      Lanes packed = ToWords({values[i], values[i + 1]}, pair_type, words);
      Value* old = Atom("global", order, element.isF16() ? "add.noftz.f16x2" : "add.noftz.bf16x2", "r", place, packed, predicate);
      for (Value* one : FromWords({old}, pair_type, words)) result.push_back(one);
      continue;
    }
    Value* old = AtomicScalar(op.getKind(), order, place, values[i], element, predicate);
    if (!old) return refuse();
    result.push_back(old);
  }
  SetLanes(op, result);
  return success();
}

LogicalResult SimtTranslator::AtomicCas(simt::AtomicCasOp op) {
  mlir::Type type = op.getValue().getType();
  const unsigned bits = type.getIntOrFloatBitWidth();
  if (bits < 16) return Unsupported(op, "atomic compare-and-swap of 8 bits");
  llvm::Type* integer = b_.getIntNTy(bits);
  Value* old = Atom("global", OrderOf(op.getSem(), op.getScope()), "cas.b" + std::to_string(bits), RegisterOf(bits), GlobalAddress(op.getAddress()),
                    {b_.CreateBitCast(Get(op.getCompare()), integer), b_.CreateBitCast(Get(op.getValue()), integer)}, GetOrTrue(op.getPredicate()));
  Set(op, b_.CreateBitCast(old, Type(type)));
  return success();
}

LogicalResult SimtTranslator::AtomicShared(simt::AtomicSharedOp op) {
  const std::string operation = IntegerOperation(op.getKind(), 32);
  if (operation.empty()) return Unsupported(op, "this atomic operation in shared memory");
  Atom("shared", "relaxed.cta", operation, "r", SharedAddress(op.getBuffer(), op.getOffset()), {Get(op.getValue())}, GetOrTrue(op.getPredicate()));
  return success();
}

}  // namespace tessera::compiler
