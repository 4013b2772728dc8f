// Conversions between numbers. Instructions where the GPU has exact ones, else the integer code of float_conversions.h.
#include "compiler/conversion/float_conversions.h"
#include "compiler/conversion/simt_to_nvvm/translator.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace tessera::compiler {

namespace arith = mlir::arith;
using llvm::Value;

namespace {

bool IsFp8(mlir::Type type) { return mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() == 8; }
// The two that have instructions (sm_89).
const char* Fp8Name(mlir::Type type) { return type.isFloat8E4M3FN() ? "e4m3x2" : type.isFloat8E5M2() ? "e5m2x2" : nullptr; }

}  // namespace

bool SimtTranslator::IsNative(mlir::Type from, mlir::Type to, bool toward_zero) const {
  if (IsFp8(from)) return Fp8Name(from) && arch_.HasFp8Conversions() && !IsFp8(to);
  if (IsFp8(to)) return Fp8Name(to) && arch_.HasFp8Conversions() && !toward_zero && !from.isF64();
  if (from.isF64()) return !to.isBF16() && (!toward_zero || to.isF32());
  return true;
}

void SimtTranslator::ExpandConversions(mlir::func::FuncOp kernel) {
  llvm::SmallVector<mlir::Operation*> found;
  kernel.walk([&](mlir::Operation* op) {
    if (!mlir::isa<tile::FpToFpOp, arith::ExtFOp, arith::TruncFOp>(op)) return;
    auto convert = mlir::dyn_cast<tile::FpToFpOp>(op);
    const bool toward_zero = convert && convert.getRounding() == tile::Rounding::RTZ;
    if (!IsNative(mlir::getElementTypeOrSelf(op->getOperand(0)), mlir::getElementTypeOrSelf(op->getResult(0)), toward_zero)) found.push_back(op);
  });
  for (mlir::Operation* op : found) {
    auto convert = mlir::dyn_cast<tile::FpToFpOp>(op);
    const bool toward_zero = convert && convert.getRounding() == tile::Rounding::RTZ;
    mlir::OpBuilder builder(op);
    op->getResult(0).replaceAllUsesWith(compiler::ConvertFloat(builder, op->getLoc(), op->getOperand(0), mlir::getElementTypeOrSelf(op->getResult(0)),
                                                               toward_zero ? FloatRounding::kTowardZero : FloatRounding::kNearestEven));
    op->erase();
  }
}

Value* SimtTranslator::Widen(Value* value, mlir::Type type) {
  if (type.isBF16()) return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(value, i32_), 16), float_);
  if (type.isF16()) return b_.CreateFPExt(value, float_);
  if (const char* name = Fp8Name(type)) {
    // The low code of a pair becomes the low half.
    Value* pair = Asm(i32_, std::string("cvt.rn.f16x2.") + name + " $0, $1;", "=r,h", {b_.CreateZExt(value, i16_)}, kPure);
    return b_.CreateFPExt(b_.CreateBitCast(b_.CreateTrunc(pair, i16_), half_), float_);
  }
  return value;
}

Value* SimtTranslator::Narrow(Value* value, mlir::Type type) {
  if (type.isBF16()) return Asm(i16_, "cvt.rn.bf16.f32 $0, $1;", "=h,f", {value}, kPure);
  if (type.isF16()) return b_.CreateFPTrunc(value, half_);
  if (const char* name = Fp8Name(type)) {
    Value* zero = llvm::ConstantFP::get(float_, 0);
    return b_.CreateTrunc(Asm(i16_, std::string("cvt.rn.satfinite.") + name + ".f32 $0, $1, $2;", "=h,f,f", {zero, value}, kPure), i8_);
  }
  return value;
}

Value* SimtTranslator::ConvertFloat(Value* value, mlir::Type from, mlir::Type to, bool toward_zero) {
  if (from == to) return value;
  if (from.isF64()) {
    if (toward_zero) return Asm(float_, "cvt.rz.f32.f64 $0, $1;", "=f,d", {value}, kPure);
    return b_.CreateFPTrunc(value, Type(to));
  }
  Value* single = Widen(value, from);
  if (to.isF32()) return single;
  if (to.isF64()) return b_.CreateFPExt(single, double_);
  if (toward_zero && to.isBF16()) return Asm(i16_, "cvt.rz.bf16.f32 $0, $1;", "=h,f", {single}, kPure);
  if (toward_zero && to.isF16())
    return b_.CreateBitCast(Asm(i16_, "cvt.rz.f16.f32 $0, $1;", "=h,f", {single}, kPure), half_);
  return Narrow(single, to);
}

// The instructions truncate and saturate; NaN gives 0 only from fp32 to 32 bits.
Value* SimtTranslator::FloatToInt(Value* value, mlir::Type from, llvm::IntegerType* to, bool is_unsigned) {
  value = Widen(value, from);
  const bool from_double = value->getType() == double_;
  const unsigned bits = to->getBitWidth();
  const bool wide = bits > 32;
  llvm::Type* whole = wide ? i64_ : i32_;
  const std::string text = std::string("cvt.rzi.") + (is_unsigned ? "u" : "s") + (wide ? "64" : "32") + (from_double ? ".f64" : ".f32") + " $0, $1;";
  Value* result = Asm(whole, text, std::string(wide ? "=l" : "=r") + (from_double ? ",d" : ",f"), {value}, kPure);
  if (wide || from_double) result = b_.CreateSelect(b_.CreateFCmpUNO(value, value), llvm::ConstantInt::get(whole, 0), result);
  if (bits >= 32) return result;
  if (is_unsigned) {
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, result, b_.getInt32(llvm::APInt::getMaxValue(bits).getZExtValue()));
  } else {
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, result, b_.getInt32(llvm::APInt::getSignedMaxValue(bits).getSExtValue()));
    result = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, b_.getInt32(llvm::APInt::getSignedMinValue(bits).getSExtValue()));
  }
  return b_.CreateTrunc(result, to);
}

Value* SimtTranslator::IntToFloat(Value* value, mlir::Type to, bool is_unsigned) {
  llvm::Type* wide = to.isF64() ? double_ : float_;
  Value* result = is_unsigned ? b_.CreateUIToFP(value, wide) : b_.CreateSIToFP(value, wide);
  return Narrow(result, to);
}

}  // namespace tessera::compiler
