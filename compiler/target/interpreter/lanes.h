// Elementwise functions over arrays, found by operation name and element kind.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_LANES_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_LANES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "compiler/target/interpreter/formats.h"

namespace tessera::interpreter {

// Reads `lanes` elements of each operand and writes as many results. The result may be one of the operands.
using LaneFunction = void (*)(const void* const* operands, void* result, int64_t lanes);

// `name` is the operation's, with a predicate behind it for comparisons ("arith.addi", "arith.cmpi.slt"); `kind` is
// that of the operands: an integer kind, kF32 or kF64. Small floats are computed as kF32 by the caller. Comparisons
// yield kI1, everything else `kind`. nullptr: no such function.
LaneFunction FindLaneFunction(absl::string_view name, Kind kind);

// Elementwise functions of libdevice by their symbol ("__nv_tanhf"), computed with libm. `kind`: of all operands and
// of the result. nullptr: unknown.
struct ExternFunction {
  LaneFunction function = nullptr;
  int operands = 0;
  Kind operand = Kind::kF32, result = Kind::kF32;
};
ExternFunction FindExternFunction(absl::string_view symbol);

// Integer resize between integer kinds.
LaneFunction FindIntegerCast(Kind from, Kind to, bool is_signed);
// Integer to kF32 or kF64; with `odd`, to kF64 rounded to odd where it is inexact, so that a later rounding to a
// narrower format is right.
LaneFunction FindIntegerToFloat(Kind from, Kind to, bool is_signed, bool odd = false);
// kF32 or kF64 to an integer kind: truncates and saturates, NaN gives 0.
LaneFunction FindFloatToInteger(Kind from, Kind to, bool is_signed);

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_LANES_H_
