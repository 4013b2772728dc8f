#include "compiler/driver/mlir_context.h"

#include "compiler/dialect/tile/tile.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler {

void LoadTileDialects(mlir::MLIRContext& context) {
  context.loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                      mlir::func::FuncDialect>();
}

MlirErrors::MlirErrors(mlir::MLIRContext& context)
    : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error) return mlir::success();
        llvm::raw_string_ostream stream(text_);
        if (!text_.empty()) stream << "\n";
        if (!llvm::isa<mlir::UnknownLoc>(diagnostic.getLocation())) stream << diagnostic.getLocation() << ": ";
        stream << diagnostic.str();
        return mlir::success();
      }) {}

}  // namespace tessera::compiler
