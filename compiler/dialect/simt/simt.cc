#include "compiler/dialect/simt/simt.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "compiler/dialect/simt/simt_dialect.cpp.inc"
#include "compiler/dialect/simt/simt_enums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/simt/simt_types.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/simt/simt_attrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/simt/simt_ops.cpp.inc"

namespace tessera::simt {

void SimtDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/simt/simt_ops.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/dialect/simt/simt_types.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/simt/simt_attrs.cpp.inc"
      >();
}

}  // namespace tessera::simt
