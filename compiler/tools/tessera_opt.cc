// Runs passes on textual IR: `tessera-opt --canonicalize kernel.mlir`. Lists them with --help.
#include "compiler/pipeline/passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  tessera::compiler::RegisterDialects(&registry);
  tessera::compiler::RegisterPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tessera pass driver\n", registry));
}
