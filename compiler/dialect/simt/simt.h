// The simt dialect: what one thread of a block does. simt_ops.td documents each operation and the rules of the whole.
#ifndef TESSERA_COMPILER_DIALECT_SIMT_SIMT_H_
#define TESSERA_COMPILER_DIALECT_SIMT_SIMT_H_

#include "compiler/dialect/tile/tile.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/dialect/simt/simt_dialect.h.inc"
#include "compiler/dialect/simt/simt_enums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/simt/simt_types.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/simt/simt_attrs.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/simt/simt_ops.h.inc"

#endif  // TESSERA_COMPILER_DIALECT_SIMT_SIMT_H_
