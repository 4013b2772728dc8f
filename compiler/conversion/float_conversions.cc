#include "compiler/conversion/float_conversions.h"

#include <algorithm>
#include <cmath>

#include "compiler/conversion/lane_builder.h"
#include "llvm/Support/ErrorHandling.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::arith::CmpFPredicate;
using mlir::arith::CmpIPredicate;

// An 8-bit float: how wide the mantissa is, which codes are special.
struct Fp8Format {
  int mantissa_bits;
  int bias;
  int largest;       // the code of the largest finite value, without its sign
  bool has_nan;
  bool unsigned_zero;  // 0x80 is not -0: it is NaN
  int nan;           // the code to write; where not `unsigned_zero`, codes above `largest` but `infinity` are NaN
  int infinity;      // 0: none
};

Fp8Format FormatOf(mlir::Type type) {
  if (type.isFloat8E4M3FN()) return {3, 7, 0x7e, true, false, 0x7f, 0};
  if (type.isFloat8E5M2()) return {2, 15, 0x7b, true, false, 0x7f, 0x7c};
  if (type.isFloat8E4M3FNUZ()) return {3, 8, 0x7f, true, true, 0x80, 0};
  if (type.isFloat8E5M2FNUZ()) return {2, 16, 0x7f, true, true, 0x80, 0};
  if (type.isFloat8E4M3B11FNUZ()) return {3, 15, 0x7f, false, false, 0x7f, 0};  // stands for fp8e4b15
  llvm_unreachable("not an 8-bit float type");
}

unsigned Width(mlir::Type element) { return element.getIntOrFloatBitWidth(); }
unsigned Width(Value value) { return Width(mlir::getElementTypeOrSelf(value)); }

Value Magnitude(LaneBuilder& b, Value bits) { return b.And(bits, b.Int32(0x7fffffff)); }

Value Fp8ToF32(LaneBuilder& b, Value source) {
  const Fp8Format format = FormatOf(mlir::getElementTypeOrSelf(source));
  Value code = b.Cast<mlir::arith::ExtUIOp>(b.Bitcast(source, b.Int(8)), b.Int(32));
  Value magnitude = b.And(code, b.Int32(0x7f));
  Value sign = b.Shl(b.And(code, b.Int32(0x80)), 24);
  // Subnormal codes get the exponent of the smallest normal, whose implicit one is then subtracted.
  Value subnormal = b.Compare(CmpIPredicate::ult, magnitude, b.Int32(1 << format.mantissa_bits));
  Value exponent = b.Select(subnormal, b.Int32((128 - format.bias) << 23), b.Int32((127 - format.bias) << 23));
  Value value = b.FromBits(b.AddI(b.Shl(magnitude, 23 - format.mantissa_bits), exponent));
  Value implicit_one = b.FromBits(b.Int32((128 - format.bias) << 23));
  value = b.Select(subnormal, b.Sub(value, implicit_one), value);
  Value bits = b.Bits(value);
  if (format.infinity != 0)
    bits = b.Select(b.Compare(CmpIPredicate::eq, magnitude, b.Int32(format.infinity)), b.Int32(0x7f800000), bits);
  bits = b.Or(bits, sign);
  if (!format.has_nan) return b.FromBits(bits);
  Value is_nan = format.unsigned_zero
                     ? b.Compare(CmpIPredicate::eq, code, b.Int32(format.nan))
                     : b.Compare(CmpIPredicate::ugt, magnitude, b.Int32(std::max(format.largest, format.infinity)));
  return b.FromBits(b.Select(is_nan, b.Int32(0x7fc00000), bits));
}

Value F32ToFp8(LaneBuilder& b, Value source, mlir::Type element, FloatRounding rounding) {
  const Fp8Format format = FormatOf(element);
  const int shift = 23 - format.mantissa_bits;
  Value bits = b.Bits(source);
  Value magnitude = Magnitude(b, bits);
  Value absolute = b.FromBits(magnitude);
  Value normal = magnitude;
  if (rounding == FloatRounding::kNearestEven) {
    Value odd = b.And(b.ShrU(magnitude, shift), b.Int32(1));
    normal = b.AddI(b.AddI(magnitude, b.Int32((1 << (shift - 1)) - 1)), odd);
  }
  normal = b.SubI(b.ShrU(normal, shift), b.Int32((127 - format.bias) << format.mantissa_bits));

  // Below the smallest normal value codes count steps. In `one_step_ulp`, an ulp is one step: adding it rounds.
  const int step_exponent = 1 - format.bias - format.mantissa_bits;
  Value one_step_ulp = b.FromBits(b.Int32((step_exponent + 23 + 127) << 23));
  Value rounded = b.Add(absolute, one_step_ulp);
  Value subnormal = b.SubI(b.Bits(rounded), b.Bits(one_step_ulp));
  if (rounding == FloatRounding::kTowardZero) {
    Value too_large = b.Compare(CmpFPredicate::OGT, b.Sub(rounded, one_step_ulp), absolute);
    subnormal = b.Select(too_large, b.SubI(subnormal, b.Int32(1)), subnormal);
  }
  Value is_subnormal = b.Compare(CmpIPredicate::ult, magnitude, b.Int32((128 - format.bias) << 23));
  Value code = b.Select(is_subnormal, subnormal, normal);
  code = b.Binary<mlir::arith::MinSIOp>(code, b.Int32(format.largest));
  Value sign = b.And(b.ShrU(bits, 24), b.Int32(0x80));
  Value signed_code = b.Or(code, sign);
  if (format.unsigned_zero)
    signed_code = b.Select(b.Compare(CmpIPredicate::eq, code, b.Int32(0)), b.Int32(0), signed_code);
  Value is_nan = b.Compare(CmpIPredicate::ugt, magnitude, b.Int32(0x7f800000));
  // Where a format has no NaN, its largest value stands for it.
  signed_code = b.Select(is_nan, b.Int32(format.nan), signed_code);
  return b.Bitcast(b.Cast<mlir::arith::TruncIOp>(signed_code, b.Int(8)), b.TypeOf(element));
}

Value Bf16ToF32(LaneBuilder& b, Value source) {
  return b.FromBits(b.Shl(b.Cast<mlir::arith::ExtUIOp>(b.Bitcast(source, b.Int(16)), b.Int(32)), 16));
}

Value F32ToBf16(LaneBuilder& b, Value source, FloatRounding rounding) {
  Value bits = b.Bits(source);
  Value kept = bits;
  if (rounding == FloatRounding::kNearestEven) {
    Value odd = b.And(b.ShrU(bits, 16), b.Int32(1));
    kept = b.AddI(b.AddI(bits, b.Int32(0x7fff)), odd);
  }
  // A NaN stays one if its payload is cut off, and is not carried into an infinity.
  Value is_nan = b.Compare(CmpFPredicate::UNO, source, source);
  kept = b.Select(is_nan, b.Or(bits, b.Int32(0x400000)), kept);
  Value narrow = b.Cast<mlir::arith::TruncIOp>(b.ShrU(kept, 16), b.Int(16));
  return b.Bitcast(narrow, b.TypeOf(b.builder().getBF16Type()));
}

// One step of the magnitude toward zero where `narrow`, widened again as `back`, is larger than `source`.
Value StepTowardZero(LaneBuilder& b, Value source, Value narrow, Value back) {
  const unsigned width = Width(narrow);
  const unsigned wide = Width(source);
  Value mask = b.IntOf(wide, wide == 64 ? INT64_MAX : INT32_MAX);
  // Magnitudes compare as their bits; NaN stays as it is.
  Value larger = b.Compare(CmpIPredicate::ugt, b.And(b.Bits(back), mask), b.And(b.Bits(source), mask));
  larger = b.And(larger, b.Compare(CmpFPredicate::ORD, source, source));
  Value bits = b.Bitcast(narrow, b.Int(width));
  return b.Bitcast(b.Select(larger, b.SubI(bits, b.IntOf(width, 1)), bits), narrow.getType());
}

Value F32ToF16(LaneBuilder& b, Value source, FloatRounding rounding) {
  Value narrow = b.Cast<mlir::arith::TruncFOp>(source, b.TypeOf(b.builder().getF16Type()));
  if (rounding == FloatRounding::kNearestEven) return narrow;
  return StepTowardZero(b, source, narrow, b.Cast<mlir::arith::ExtFOp>(narrow, b.F32()));
}

Value F64ToF32TowardZero(LaneBuilder& b, Value source) {
  Value narrow = b.Cast<mlir::arith::TruncFOp>(source, b.F32());
  return StepTowardZero(b, source, narrow, b.Cast<mlir::arith::ExtFOp>(narrow, b.F64()));
}

// Truncated, with the last bit set if anything was cut off: rounding that again to fewer bits rounds once.
Value F64ToF32Odd(LaneBuilder& b, Value source) {
  Value truncated = F64ToF32TowardZero(b, source);
  Value exact = b.Compare(CmpFPredicate::UEQ, b.Cast<mlir::arith::ExtFOp>(truncated, b.F64()), source);
  Value bits = b.Bits(truncated);
  return b.FromBits(b.Select(exact, bits, b.Or(bits, b.Int32(1))));
}

Value WidenToF32(LaneBuilder& b, Value source) {
  mlir::Type element = mlir::getElementTypeOrSelf(source);
  if (element.isF32()) return source;
  if (element.isBF16()) return Bf16ToF32(b, source);
  if (element.isF16()) return b.Cast<mlir::arith::ExtFOp>(source, b.F32());
  return Fp8ToF32(b, source);
}

}  // namespace

Value ConvertFloat(mlir::OpBuilder& builder, mlir::Location loc, Value source, mlir::Type element, FloatRounding rounding) {
  LaneBuilder b(builder, loc, source.getType());
  mlir::Type from = mlir::getElementTypeOrSelf(source);
  if (from == element) return source;
  if (from.isF64()) {
    if (rounding == FloatRounding::kTowardZero) {
      source = F64ToF32TowardZero(b, source);
    } else {
      source = element.isF32() ? b.Cast<mlir::arith::TruncFOp>(source, b.F32()) : F64ToF32Odd(b, source);
    }
  } else {
    source = WidenToF32(b, source);
  }
  if (element.isF32()) return source;
  if (element.isF64()) return b.Cast<mlir::arith::ExtFOp>(source, b.F64());
  if (element.isF16()) return F32ToF16(b, source, rounding);
  if (element.isBF16()) return F32ToBf16(b, source, rounding);
  return F32ToFp8(b, source, element, rounding);
}

// llvm.fptosi.sat would do, but x86-64 takes its vectors apart lane by lane.
Value ConvertFloatToInt(mlir::OpBuilder& builder, mlir::Location loc, Value source, mlir::Type element, bool is_unsigned) {
  LaneBuilder b(builder, loc, source.getType());
  if (Width(source) < 32) source = WidenToF32(b, source);
  const unsigned bits = Width(element);
  auto float_constant = [&](double value) { return Width(source) == 64 ? b.Double(value) : b.Float(value); };
  const double limit = std::ldexp(1.0, static_cast<int>(is_unsigned ? bits : bits - 1));  // the first value too large
  Value low = float_constant(is_unsigned ? 0 : -limit);
  Value high = float_constant(limit);
  Value too_large = b.Compare(CmpFPredicate::OGE, source, high);
  Value too_small = b.Compare(CmpFPredicate::OLT, source, low);
  Value inside = b.And(b.Compare(CmpFPredicate::OLT, source, high), b.Compare(CmpFPredicate::OGE, source, low));
  Value safe = b.Select(inside, source, float_constant(0));
  Value result = is_unsigned ? b.Cast<mlir::arith::FPToUIOp>(safe, b.Int(bits)) : b.Cast<mlir::arith::FPToSIOp>(safe, b.Int(bits));
  const mlir::APInt largest = is_unsigned ? mlir::APInt::getMaxValue(bits) : mlir::APInt::getSignedMaxValue(bits);
  result = b.Select(too_large, b.IntOf(bits, static_cast<int64_t>(largest.getZExtValue())), result);
  if (is_unsigned) return result;  // below 0 gives 0, which it already is
  const mlir::APInt smallest = mlir::APInt::getSignedMinValue(bits);
  return b.Select(too_small, b.IntOf(bits, smallest.getSExtValue()), result);
}

Value ConvertIntToFloat(mlir::OpBuilder& builder, mlir::Location loc, Value source, mlir::Type element, bool is_unsigned) {
  LaneBuilder b(builder, loc, source.getType());
  mlir::Type wide = element.isF64() ? b.F64() : b.F32();
  Value value = is_unsigned ? b.Cast<mlir::arith::UIToFPOp>(source, wide) : b.Cast<mlir::arith::SIToFPOp>(source, wide);
  return ConvertFloat(builder, loc, value, element);
}

}  // namespace tessera::compiler
