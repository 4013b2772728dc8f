// Passes over layout-free tile IR. Each has a file of its own name, which opens with what it does.
#ifndef TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_
#define TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_

#include <memory>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> CreateAccumulateInDotPass();
std::unique_ptr<mlir::Pass> CreateExpandDescriptorsPass();
std::unique_ptr<mlir::Pass> CreateHoistUniformIncrementsPass();
std::unique_ptr<mlir::Pass> CreateWidenSmallFloatsPass();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_
