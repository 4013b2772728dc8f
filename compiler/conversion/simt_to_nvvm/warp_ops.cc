// What lanes do together: shuffles, and the matrix units (PTX ISA, "Warp Level Matrix Instructions" and "Asynchronous
// Warpgroup Level Matrix Instructions").
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {

using llvm::Value;
using mlir::LogicalResult;
using mlir::success;

namespace {

std::string Numbered(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ",$" : "$") + std::to_string(first + i);
  return text + "}";
}

std::string Repeated(const char* constraint, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::string(i ? "," : "") + constraint;
  return text;
}

const char* RegisterOf(llvm::Type* type) { return type->isFloatTy() ? "f" : type->isDoubleTy() ? "d" : "r"; }
const char* OutputOf(llvm::Type* type) { return type->isFloatTy() ? "=f" : type->isDoubleTy() ? "=d" : "=r"; }

bool IsZero(mlir::Value value) { return mlir::matchPattern(value, mlir::m_AnyZeroFloat()) || mlir::matchPattern(value, mlir::m_Zero()); }

}  // namespace

LogicalResult SimtTranslator::Shuffle(simt::ShuffleOp op) {
  unsigned intrinsic = llvm::Intrinsic::nvvm_shfl_sync_bfly_i32;
  int clamp = 31;
  switch (op.getKind()) {
    case simt::ShuffleKind::XOR: break;
    case simt::ShuffleKind::INDEX: intrinsic = llvm::Intrinsic::nvvm_shfl_sync_idx_i32; break;
    case simt::ShuffleKind::UP: intrinsic = llvm::Intrinsic::nvvm_shfl_sync_up_i32; clamp = 0; break;
    case simt::ShuffleKind::DOWN: intrinsic = llvm::Intrinsic::nvvm_shfl_sync_down_i32; break;
  }
  Value* value = Get(op.getValue());
  llvm::Type* type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  Value* lane = Get(op.getLane());
  auto shuffle = [&](Value* word) { return Intrinsic(intrinsic, {b_.getInt32(-1), word, lane, b_.getInt32(clamp)}); };
  Value* raw = b_.CreateBitCast(value, b_.getIntNTy(bits));
  if (bits <= 32) {
    raw = b_.CreateTrunc(shuffle(b_.CreateZExt(raw, i32_)), b_.getIntNTy(bits));
  } else if (bits == 64) {
    Value* low = shuffle(b_.CreateTrunc(raw, i32_));
    Value* high = shuffle(b_.CreateTrunc(b_.CreateLShr(raw, 32), i32_));
    raw = b_.CreateOr(b_.CreateZExt(low, i64_), b_.CreateShl(b_.CreateZExt(high, i64_), 32));
  } else {
    return Unsupported(op, "a shuffle of this type");
  }
  Set(op, b_.CreateBitCast(raw, type));
  return success();
}

LogicalResult SimtTranslator::Ldmatrix(simt::LdmatrixOp op) {
  const int count = op.getResult().size();
  Address address = SharedAddress(op.getBuffer(), op.getOffset());
  const std::string text = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (op.getTranspose() ? ".trans" : "") + ".shared.b16 " +
                           Numbered(0, count) + ", " + address.Text(count) + ";";
  Value* call = Asm(StructOf(llvm::SmallVector<llvm::Type*>(count, i32_)), text, Repeated("=r", count) + ",r", {address.base}, kVolatile | kConvergent);
  for (int i = 0; i < count; ++i) Set(op.getResult()[i], Result(call, i, count));
  return success();
}

LogicalResult SimtTranslator::Stmatrix(simt::StmatrixOp op) {
  if (!arch_.HasStmatrix()) return Unsupported(op, "stmatrix before sm_90");
  const int count = op.getValues().size();
  Address address = SharedAddress(op.getBuffer(), op.getOffset());
  llvm::SmallVector<Value*> operands = {address.base};
  for (mlir::Value value : op.getValues()) operands.push_back(Get(value));
  const std::string text = "stmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (op.getTranspose() ? ".trans" : "") + ".shared.b16 " +
                           address.Text(0) + ", " + Numbered(1, count) + ";";
  Asm(nullptr, text, "r," + Repeated("r", count), operands, kMemory | kConvergent);
  return success();
}

LogicalResult SimtTranslator::Mma(simt::MmaOp op) {
  llvm::SmallVector<llvm::Type*> types;
  for (mlir::Type type : op.getResultTypes()) types.push_back(Type(type));
  const int results = types.size(), a = op.getA().size(), b = op.getB().size(), c = op.getC().size();
  const std::string accumulator = types[0]->isFloatTy() ? "f32" : types[0]->isDoubleTy() ? "f64" : op.getAType() == simt::MatrixType::F16 ? "f16" : "s32";
  std::string constraints = Repeated(OutputOf(types[0]), results);
  llvm::SmallVector<Value*> operands;
  for (mlir::ValueRange range : {op.getA(), op.getB(), op.getC()})
    for (mlir::Value value : range) {
      operands.push_back(Get(value));
      constraints += std::string(",") + RegisterOf(operands.back()->getType());
    }
  const std::string shape = "m" + std::to_string(op.getM()) + "n" + std::to_string(op.getN()) + "k" + std::to_string(op.getK());
  const std::string text = "mma.sync.aligned." + shape + ".row.col." + accumulator + "." + simt::stringifyMatrixType(op.getAType()).str() + "." +
                           simt::stringifyMatrixType(op.getBType()).str() + "." + accumulator + " " + Numbered(0, results) + ", " + Numbered(results, a) + ", " +
                           Numbered(results + a, b) + ", " + Numbered(results + a + b, c) + ";";
  llvm::CallInst* call = Asm(StructOf(types), text, constraints, operands, kPure);
  call->setConvergent();
  for (int i = 0; i < results; ++i) Set(op.getResult()[i], Result(call, i, results));
  return success();
}

// PTX ISA, "Matrix Descriptor Format": all but the address is constant.
Value* SimtTranslator::MatrixDescriptor(mlir::Value buffer, mlir::Value offset, simt::Swizzle swizzle, int leading_bytes, int stride_bytes) {
  uint64_t mode = 0;
  switch (swizzle) {
    case simt::Swizzle::NONE: mode = 0; break;
    case simt::Swizzle::BYTES_128: mode = 1; break;
    case simt::Swizzle::BYTES_64: mode = 2; break;
    case simt::Swizzle::BYTES_32: mode = 3; break;
  }
  const uint64_t fields = mode << 62 | (uint64_t(stride_bytes) >> 4 & 0x3fff) << 32 | (uint64_t(leading_bytes) >> 4 & 0x3fff) << 16;
  Value* address = b_.CreateAnd(b_.CreateLShr(SharedWindow(buffer, offset), 4), 0x3fff);
  return b_.CreateOr(b_.CreateZExt(address, i64_), b_.getInt64(fields));
}

// Accumulators keep their registers: the operands of `c` are tied to the results. Without `c`, or with zeros for it, the
// product overwrites them.
LogicalResult SimtTranslator::Wgmma(simt::WgmmaOp op) {
  if (!arch_.wgmma) return Unsupported(op, "wgmma on " + arch_.name);
  llvm::SmallVector<llvm::Type*> types;
  for (mlir::Type type : op.getResultTypes()) types.push_back(Type(type));
  const int count = types.size();
  const bool fresh = llvm::all_of(op.getC(), IsZero);
  const bool is_float = types[0]->isFloatTy();
  const bool half_result = !is_float && op.getAType() == simt::MatrixType::F16;
  std::string constraints = Repeated(fresh ? (is_float ? "=&f" : "=&r") : OutputOf(types[0]), count);
  llvm::SmallVector<Value*> operands;
  int next = count;
  std::string a_text;
  if (op.getABuffer()) {
    operands.push_back(MatrixDescriptor(op.getABuffer(), op.getAOffset(), op.getASwizzle(), op.getALeadingBytes(), op.getAStrideBytes()));
    constraints += ",l";
    a_text = "$" + std::to_string(next++);
  } else {
    const int registers = op.getARegisters().size();
    for (mlir::Value value : op.getARegisters()) operands.push_back(Get(value));
    constraints += "," + Repeated("r", registers);
    a_text = Numbered(next, registers);
    next += registers;
  }
  operands.push_back(MatrixDescriptor(op.getBBuffer(), op.getBOffset(), op.getBSwizzle(), op.getBLeadingBytes(), op.getBStrideBytes()));
  constraints += ",l";
  const std::string b_text = "$" + std::to_string(next++);
  if (!fresh)
    for (int i = 0; i < count; ++i) {
      constraints += "," + std::to_string(i);
      operands.push_back(Get(op.getC()[i]));
    }
  const bool sixteen = op.getAType() == simt::MatrixType::F16 || op.getAType() == simt::MatrixType::BF16;
  const bool integers = op.getAType() == simt::MatrixType::S8 || op.getAType() == simt::MatrixType::U8;
  std::string text = "{\n.reg .pred p;\nsetp.ne.b32 p, " + std::string(fresh ? "0" : "1") + ", 0;\nwgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(op.getN()) + "k" + std::to_string(op.getK()) + "." + (is_float ? "f32" : half_result ? "f16" : "s32") + "." +
                     simt::stringifyMatrixType(op.getAType()).str() + "." + simt::stringifyMatrixType(op.getBType()).str() + " " + Numbered(0, count) + ", " +
                     a_text + ", " + b_text + ", p";
  if (!integers) text += ", 1, 1";
  if (sixteen && op.getABuffer()) text += op.getATranspose() ? ", 1" : ", 0";
  if (sixteen) text += op.getBTranspose() ? ", 1" : ", 0";
  text += ";\n}";
  if (!sixteen && (op.getATranspose() || op.getBTranspose())) return Unsupported(op, "a transposed operand that is not of 16 bits");
  Value* call = Asm(StructOf(types), text, constraints, operands, kVolatile | kConvergent);
  for (int i = 0; i < count; ++i) Set(op.getResult()[i], Result(call, i, count));
  return success();
}

LogicalResult SimtTranslator::WgmmaWait(simt::WgmmaWaitOp op) {
  const std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
  const int count = op.getValues().size();
  if (count == 0) {
    Asm(nullptr, text, "", {}, kMemory | kConvergent);
    return success();
  }
  llvm::SmallVector<llvm::Type*> types;
  llvm::SmallVector<Value*> operands;
  std::string outputs, tied;
  for (int i = 0; i < count; ++i) {
    operands.push_back(Get(op.getValues()[i]));
    types.push_back(operands.back()->getType());
    outputs += std::string(i ? "," : "") + OutputOf(types.back());
    tied += "," + std::to_string(i);
  }
  Value* call = Asm(StructOf(types), text, outputs + tied, operands, kMemory | kConvergent);
  for (int i = 0; i < count; ++i) Set(op.getResults()[i], Result(call, i, count));
  return success();
}

}  // namespace tessera::compiler
