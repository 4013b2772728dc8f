// How the driver sets up MLIR: dialects of tile IR, and errors as text.
#ifndef TESSERA_COMPILER_DRIVER_MLIR_CONTEXT_H_
#define TESSERA_COMPILER_DRIVER_MLIR_CONTEXT_H_

#include <string>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

// Loads the dialects that tile IR consists of: tile, arith, math, scf, func.
void LoadTileDialects(mlir::MLIRContext& context);

// Collects what MLIR reports while it lives, instead of printing it.
class MlirErrors {
 public:
  explicit MlirErrors(mlir::MLIRContext& context);

  // The errors, one a line, each with its place.
  const std::string& Text() const { return text_; }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_MLIR_CONTEXT_H_
