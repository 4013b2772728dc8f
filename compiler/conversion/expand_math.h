// The math dialect on fp32 and fp64 -> arithmetic, vectors and LLVM intrinsics.
#ifndef TESSERA_COMPILER_CONVERSION_EXPAND_MATH_H_
#define TESSERA_COMPILER_CONVERSION_EXPAND_MATH_H_

#include <memory>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

// `expand-math`, a pass over modules: after it no operation of the math dialect is left.
//
// Assumes scalars and 1-D vectors of f32 or f64 (16-bit and 8-bit floats were widened before; integers of any width
// for absi, ctlz, cttz, ctpop). It runs before scf becomes branches: sin, cos and tan of huge arguments take a
// slower path behind an scf.if.
//
// f32: polynomials on all lanes at once, within 2 to 4 ulp (expand_math_test.cc states each bound). Right for NaN,
// infinities and overflow; exp and exp2 flush subnormal results to zero.
// f64, and the rarer functions of f32 (atan, sinh, ...): calls to libm, lane by lane.
std::unique_ptr<mlir::Pass> CreateExpandMathPass();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_EXPAND_MATH_H_
