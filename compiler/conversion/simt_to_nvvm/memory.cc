// Global and shared memory. Plain accesses are LLVM's loads and stores, which it can reason about; those with a
// predicate or a hint are predicated PTX instructions, without branches.
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {

using llvm::Value;
using mlir::LogicalResult;
using mlir::success;

namespace {

constexpr unsigned kGlobal = 1, kShared = 3;

unsigned StoredBits(mlir::Type element) { return std::max(element.getIntOrFloatBitWidth(), 8u); }  // a bool takes a byte

int64_t CountOf(mlir::Type type) {
  auto vector = mlir::dyn_cast<mlir::VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

std::string LoadModifiers(tile::CacheModifier cache, tile::Eviction evict) {
  switch (cache) {
    case tile::CacheModifier::CA: return ".ca";
    case tile::CacheModifier::CG: return ".cg";
    case tile::CacheModifier::CS: return ".cs";
    case tile::CacheModifier::CV: return ".cv";
    default: break;  // those of stores say nothing here
  }
  // Excluded by a cache modifier.
  if (evict == tile::Eviction::FIRST) return ".L1::evict_first";
  return evict == tile::Eviction::LAST ? ".L1::evict_last" : "";
}

std::string StoreModifiers(tile::CacheModifier cache, tile::Eviction evict) {
  switch (cache) {
    case tile::CacheModifier::WB: return ".wb";
    case tile::CacheModifier::CG: return ".cg";
    case tile::CacheModifier::CS: return ".cs";
    case tile::CacheModifier::WT: return ".wt";
    default: break;
  }
  if (evict == tile::Eviction::FIRST) return ".L1::evict_first";
  return evict == tile::Eviction::LAST ? ".L1::evict_last" : "";
}

std::string VectorSuffix(int count) { return count == 1 ? "" : ".v" + std::to_string(count); }

std::string Braces(int first, int count) {
  if (count == 1) return "$" + std::to_string(first);
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

}  // namespace

std::string SimtTranslator::Address::Text(int operand) const {
  return "[$" + std::to_string(operand) + (offset ? "+" + std::to_string(offset) : "") + "]";
}

SimtTranslator::Words SimtTranslator::WordsOf(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  const unsigned bits = StoredBits(element);
  const int bytes = bits / 8 * CountOf(type);
  if (bits == 64) return element.isF64() ? Words{double_, bytes / 8, "b64", "d", bytes} : Words{i64_, bytes / 8, "b64", "l", bytes};
  if (bits == 32) return element.isF32() ? Words{float_, bytes / 4, "b32", "f", bytes} : Words{i32_, bytes / 4, "b32", "r", bytes};
  if (bytes >= 4) return {i32_, bytes / 4, "b32", "r", bytes};
  return bytes == 2 ? Words{i16_, 1, "b16", "h", bytes} : Words{i8_, 1, "b8", "h", bytes};
}

Lanes SimtTranslator::ToWords(llvm::ArrayRef<Value*> lanes, mlir::Type type, const Words& words) {
  const unsigned bits = StoredBits(mlir::getElementTypeOrSelf(type));
  const unsigned word_bits = words.type->getPrimitiveSizeInBits();
  Lanes stored;
  for (Value* lane : lanes) stored.push_back(lane->getType() == i1_ ? b_.CreateZExt(lane, i8_) : lane);
  if (bits == word_bits) {
    for (Value*& value : stored) value = b_.CreateBitCast(value, words.type);
    return stored;
  }
  Lanes result;
  const unsigned each = word_bits / bits;
  for (int word = 0; word < words.count; ++word) {
    if (word_bits == 32) {
      Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(stored[0]->getType(), each));
      for (unsigned i = 0; i < each; ++i) vector = b_.CreateInsertElement(vector, stored[word * each + i], i);
      result.push_back(b_.CreateBitCast(vector, i32_));
    } else {
      Value* low = b_.CreateZExt(stored[0], i16_);
      result.push_back(b_.CreateOr(low, b_.CreateShl(b_.CreateZExt(stored[1], i16_), 8)));
    }
  }
  return result;
}

Lanes SimtTranslator::FromWords(llvm::ArrayRef<Value*> words, mlir::Type type, const Words& layout) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  const unsigned bits = StoredBits(element);
  const unsigned word_bits = layout.type->getPrimitiveSizeInBits();
  const bool is_bool = element.isInteger(1);
  llvm::Type* stored = is_bool ? i8_ : Type(element);
  Lanes result;
  for (Value* word : words) {
    if (bits == word_bits) {
      result.push_back(b_.CreateBitCast(word, stored));
    } else if (word_bits == 32) {
      const unsigned each = 32 / bits;
      Value* vector = b_.CreateBitCast(word, llvm::FixedVectorType::get(stored, each));
      for (unsigned i = 0; i < each; ++i) result.push_back(b_.CreateExtractElement(vector, i));
    } else {
      result.push_back(b_.CreateTrunc(word, i8_));
      result.push_back(b_.CreateTrunc(b_.CreateLShr(word, 8), i8_));
    }
  }
  if (is_bool)
    for (Value*& value : result) value = b_.CreateIsNotNull(value);
  return result;
}

//===-- addresses -------------------------------------------------------------------------------===//

// A constant at the end of the sum goes into the instruction.
SimtTranslator::Address SimtTranslator::GlobalAddress(mlir::Value address) {
  mlir::APInt constant;
  if (auto add = address.getDefiningOp<mlir::arith::AddIOp>())
    if (mlir::matchPattern(add.getRhs(), mlir::m_ConstantInt(&constant)) && constant.isSignedIntN(31))
      return {Get(add.getLhs()), constant.getSExtValue()};
  return {Get(address), 0};
}

SimtTranslator::Address SimtTranslator::SharedAddress(mlir::Value buffer, mlir::Value offset) {
  auto alloc = buffer.getDefiningOp<simt::AllocSharedOp>();
  int64_t place = alloc.getOffset().value_or(0);
  Value* start = b_.CreatePtrToInt(shared_, i32_);
  mlir::APInt constant;
  if (mlir::matchPattern(offset, mlir::m_ConstantInt(&constant))) return {start, place + constant.getSExtValue()};
  if (auto add = offset.getDefiningOp<mlir::arith::AddIOp>())
    if (mlir::matchPattern(add.getRhs(), mlir::m_ConstantInt(&constant)))
      return {b_.CreateAdd(start, Get(add.getLhs())), place + constant.getSExtValue()};
  return {b_.CreateAdd(start, Get(offset)), place};
}

Value* SimtTranslator::Pointer(const Address& address, unsigned space) {
  Value* sum = address.offset ? b_.CreateAdd(address.base, llvm::ConstantInt::getSigned(address.base->getType(), address.offset)) : address.base;
  return b_.CreateIntToPtr(sum, llvm::PointerType::get(context_, space));
}

Value* SimtTranslator::SharedWindow(mlir::Value buffer, mlir::Value offset) {
  Address address = SharedAddress(buffer, offset);
  return address.offset ? b_.CreateAdd(address.base, b_.getInt32(address.offset)) : address.base;
}

//===-- predicated accesses -----------------------------------------------------------------------===//

Lanes SimtTranslator::PredicatedLoad(const std::string& instruction, const Address& address, const Words& words, Value* predicate,
                                     llvm::ArrayRef<Value*> otherwise) {
  const int count = words.count;
  llvm::Type* type = words.type == i8_ ? i16_ : words.type;  // a byte travels in a 16-bit register
  llvm::SmallVector<llvm::Type*> results(count, type);
  std::string constraints;
  for (int i = 0; i < count; ++i) constraints += std::string(i ? ",=" : "=") + words.constraint;
  constraints += address.base->getType() == i64_ ? ",l" : ",r";
  llvm::SmallVector<Value*> operands = {address.base};
  std::string text;
  if (predicate) {
    text = "@$" + std::to_string(count + 1) + " ";
    constraints += ",b";
    operands.push_back(predicate);
    for (int i = 0; i < count; ++i) {
      constraints += "," + std::to_string(i);
      Value* value = otherwise.empty() ? llvm::Constant::getNullValue(type) : otherwise[i];
      operands.push_back(value->getType() == type ? value : b_.CreateZExt(value, type));
    }
  }
  text += instruction + VectorSuffix(count) + "." + words.ptx + " " + Braces(0, count) + ", " + address.Text(count) + ";";
  Value* call = Asm(StructOf(results), text, constraints, operands, kVolatile);
  Lanes loaded;
  for (int i = 0; i < count; ++i) loaded.push_back(b_.CreateTrunc(Result(call, i, count), words.type));
  return loaded;
}

void SimtTranslator::PredicatedStore(const std::string& instruction, const Address& address, const Words& words, Value* predicate,
                                     llvm::ArrayRef<Value*> values) {
  std::string constraints = address.base->getType() == i64_ ? "l" : "r";
  llvm::SmallVector<Value*> operands = {address.base};
  for (Value* value : values) {
    constraints += std::string(",") + words.constraint;
    operands.push_back(value->getType() == i8_ ? b_.CreateZExt(value, i16_) : value);
  }
  std::string text;
  if (predicate) {
    text = "@$" + std::to_string(operands.size()) + " ";
    constraints += ",b";
    operands.push_back(predicate);
  }
  text += instruction + VectorSuffix(words.count) + "." + words.ptx + " " + address.Text(0) + ", " + Braces(1, words.count) + ";";
  Asm(nullptr, text, constraints, operands, kMemory);
}

//===-- the operations ----------------------------------------------------------------------------===//

LogicalResult SimtTranslator::Load(simt::LoadOp op) {
  mlir::Type type = op.getType();
  const Words words = WordsOf(type);
  if (words.bytes > 16) return Unsupported(op, "an access of more than 16 bytes");
  Address address = GlobalAddress(op.getAddress());
  Value* predicate = GetOrTrue(op.getPredicate());
  const std::string modifiers = LoadModifiers(op.getCache(), op.getEvict());
  Lanes loaded;
  if (!predicate && modifiers.empty() && !op.getIsVolatile()) {
    llvm::Type* whole = words.count == 1 ? words.type : llvm::FixedVectorType::get(words.type, words.count);
    Value* all = b_.CreateAlignedLoad(whole, Pointer(address, kGlobal), llvm::Align(words.bytes));
    for (int i = 0; i < words.count; ++i) loaded.push_back(words.count == 1 ? all : b_.CreateExtractElement(all, i));
  } else {
    Lanes otherwise;
    if (op.getOther()) otherwise = ToWords(GetLanes(op.getOther()), type, words);
    const std::string instruction = op.getIsVolatile() ? "ld.volatile.global" : "ld.global" + modifiers;
    loaded = PredicatedLoad(instruction, address, words, predicate, otherwise);
  }
  SetLanes(op, FromWords(loaded, type, words));
  return success();
}

LogicalResult SimtTranslator::Store(simt::StoreOp op) {
  mlir::Type type = op.getValue().getType();
  const Words words = WordsOf(type);
  if (words.bytes > 16) return Unsupported(op, "an access of more than 16 bytes");
  Address address = GlobalAddress(op.getAddress());
  Value* predicate = GetOrTrue(op.getPredicate());
  Lanes values = ToWords(GetLanes(op.getValue()), type, words);
  const std::string modifiers = StoreModifiers(op.getCache(), op.getEvict());
  if (predicate || !modifiers.empty()) {
    PredicatedStore("st.global" + modifiers, address, words, predicate, values);
    return success();
  }
  Value* all = values[0];
  if (words.count > 1) {
    all = llvm::PoisonValue::get(llvm::FixedVectorType::get(words.type, words.count));
    for (int i = 0; i < words.count; ++i) all = b_.CreateInsertElement(all, values[i], i);
  }
  b_.CreateAlignedStore(all, Pointer(address, kGlobal), llvm::Align(words.bytes));
  return success();
}

LogicalResult SimtTranslator::LoadShared(simt::LoadSharedOp op) {
  const Words words = WordsOf(op.getType());
  if (words.bytes > 16) return Unsupported(op, "an access of more than 16 bytes");
  Address address = SharedAddress(op.getBuffer(), op.getOffset());
  Lanes loaded;
  if (Value* predicate = GetOrTrue(op.getPredicate())) {
    loaded = PredicatedLoad("ld.shared", address, words, predicate, {});
  } else {
    llvm::Type* whole = words.count == 1 ? words.type : llvm::FixedVectorType::get(words.type, words.count);
    Value* all = b_.CreateAlignedLoad(whole, Pointer(address, kShared), llvm::Align(words.bytes));
    for (int i = 0; i < words.count; ++i) loaded.push_back(words.count == 1 ? all : b_.CreateExtractElement(all, i));
  }
  SetLanes(op, FromWords(loaded, op.getType(), words));
  return success();
}

LogicalResult SimtTranslator::StoreShared(simt::StoreSharedOp op) {
  mlir::Type type = op.getValue().getType();
  const Words words = WordsOf(type);
  if (words.bytes > 16) return Unsupported(op, "an access of more than 16 bytes");
  Address address = SharedAddress(op.getBuffer(), op.getOffset());
  Lanes values = ToWords(GetLanes(op.getValue()), type, words);
  if (Value* predicate = GetOrTrue(op.getPredicate())) {
    PredicatedStore("st.shared", address, words, predicate, values);
    return success();
  }
  Value* all = values[0];
  if (words.count > 1) {
    all = llvm::PoisonValue::get(llvm::FixedVectorType::get(words.type, words.count));
    for (int i = 0; i < words.count; ++i) all = b_.CreateInsertElement(all, values[i], i);
  }
  b_.CreateAlignedStore(all, Pointer(address, kShared), llvm::Align(words.bytes));
  return success();
}

// Past L1 where the hardware allows it (16 bytes): what is copied is used from shared memory alone.
LogicalResult SimtTranslator::CopyAsync(simt::CopyAsyncOp op) {
  const int bytes = op.getBytes();
  if (bytes != 4 && bytes != 8 && bytes != 16) return Unsupported(op, "an asynchronous copy that is not of 4, 8 or 16 bytes");
  Address to = SharedAddress(op.getBuffer(), op.getOffset());
  Address from = GlobalAddress(op.getAddress());
  const bool bypass = bytes == 16 && op.getCache() != tile::CacheModifier::CA;
  std::string text = std::string("cp.async.") + (bypass ? "cg" : "ca") + ".shared.global " + to.Text(0) + ", " + from.Text(1) + ", " + std::to_string(bytes);
  Value* predicate = GetOrTrue(op.getPredicate());
  if (!predicate) {
    Asm(nullptr, text + ";", "r,l", {to.base, from.base}, kMemory);
    return success();
  }
  Value* read = b_.CreateSelect(predicate, b_.getInt32(bytes), b_.getInt32(0));  // the rest is zeros
  Asm(nullptr, text + ", $2;", "r,l,r", {to.base, from.base, read}, kMemory);
  return success();
}

}  // namespace tessera::compiler
