// The tile dialect: blocks of static shape, before and after layouts are attached.
//
// tile_ops.td documents each operation. Kernels are func.func with these attributes:
//   on the function   "tile.kernel" (unit)
//   on an argument    "tile.name" (string), "tile.divisibility" (i64: value, or bytes for pointers)
#ifndef TESSERA_COMPILER_DIALECT_TILE_TILE_H_
#define TESSERA_COMPILER_DIALECT_TILE_TILE_H_

#include <optional>

#include "compiler/dialect/tile/linear_layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/dialect/tile/tile_dialect.h.inc"
#include "compiler/dialect/tile/tile_enums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/tile/tile_types.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/tile/tile_attrs.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/tile/tile_ops.h.inc"

namespace tessera::tile {

// The layout of a tensor type, where it has one.
std::optional<LinearLayout> LayoutOf(mlir::Type type);
// The same tensor type with another layout.
mlir::RankedTensorType WithLayout(mlir::Type type, const LinearLayout& layout);
mlir::RankedTensorType WithoutLayout(mlir::Type type);

}  // namespace tessera::tile

#endif  // TESSERA_COMPILER_DIALECT_TILE_TILE_H_
