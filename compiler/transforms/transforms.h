// Passes over layout-free tile IR. Each has a file of its own name, which opens with what it does.
#ifndef TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_
#define TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_

#include <cstdint>
#include <memory>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> CreateAccumulateInDotPass();
std::unique_ptr<mlir::Pass> CreateContractMultiplyAddPass();
std::unique_ptr<mlir::Pass> CreateExpandDescriptorsPass();
std::unique_ptr<mlir::Pass> CreateHoistUniformIncrementsPass();
// `most_elements`: of the blocks whose sums are ordered; of those of 8- and 16-bit floats, `most_small_elements`. Reads
// "tile.num_warps" and "tile.no_fp_fusion" of the function.
struct OrderSumsOptions {
  int64_t most_elements = 1048576, most_small_elements = 1048576;
};
std::unique_ptr<mlir::Pass> CreateOrderSumsPass(const OrderSumsOptions& options = {});
std::unique_ptr<mlir::Pass> CreateWidenSmallFloatsPass();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TRANSFORMS_TRANSFORMS_H_
