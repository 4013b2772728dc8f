// Conversions between float types and to integers, spelled out in integer arithmetic so that no target needs a
// library for them. Each function takes a scalar or a vector of static shape and gives a value of the same shape.
//
// Element types: f64, f32, f16, bf16, and 8-bit floats by their MLIR types:
//   f8E4M3FN = fp8e4nv, f8E5M2 = fp8e5, f8E4M3FNUZ = fp8e4b8, f8E5M2FNUZ = fp8e5b16, and f8E4M3B11FNUZ, which stands
//   for the kernel language's fp8e4b15 (bias 15, no NaN, no infinity).
#ifndef TESSERA_COMPILER_CONVERSION_FLOAT_CONVERSIONS_H_
#define TESSERA_COMPILER_CONVERSION_FLOAT_CONVERSIONS_H_

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace tessera::compiler {

enum class FloatRounding { kNearestEven, kTowardZero };

// `source` as `element`, in either direction. Widening is exact. Narrowing to 8 bits saturates to the largest finite
// value (infinities too) and keeps NaN; narrowing to f16, bf16 and f32 overflows to infinity (kNearestEven) or to the
// largest finite value (kTowardZero). From f64 to 16 or 8 bits rounds once.
// 16-bit and wider values have their own type in the IR; f16 needs hardware conversions (F16C on x86-64).
mlir::Value ConvertFloat(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value source, mlir::Type element,
                         FloatRounding rounding = FloatRounding::kNearestEven);

// Truncates toward zero, saturates at the range of `element` (an integer type), NaN gives 0.
mlir::Value ConvertFloatToInt(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value source, mlir::Type element,
                              bool is_unsigned);

// Rounds to nearest even; types below 32 bits go through f32, as on the GPU. i1 gives 0 or 1 where `is_unsigned`.
mlir::Value ConvertIntToFloat(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value source, mlir::Type element,
                              bool is_unsigned);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_FLOAT_CONVERSIONS_H_
