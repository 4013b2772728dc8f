// Passes of the nvptx pipeline over tile IR with layouts and over simt IR. Each has a file of its own name, which opens
// with what it does.
#ifndef TESSERA_COMPILER_TRANSFORMS_GPU_TRANSFORMS_H_
#define TESSERA_COMPILER_TRANSFORMS_GPU_TRANSFORMS_H_

#include <memory>

#include "compiler/analysis/layouts/gpu_options.h"
#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> CreateAllocateSharedPass();
std::unique_ptr<mlir::Pass> CreateAssignLayoutsPass(const GpuOptions& options = {});
std::unique_ptr<mlir::Pass> CreateExpandDotsPass(const GpuOptions& options = {});
// Two more i64 parameters a pointer parameter: first address of the buffer, and the one behind its last.
std::unique_ptr<mlir::Pass> CreateGuardAccessesPass();
std::unique_ptr<mlir::Pass> CreateInsertBarriersPass();
std::unique_ptr<mlir::Pass> CreateStageDotOperandsPass(const GpuOptions& options = {});
std::unique_ptr<mlir::Pass> CreateStoreInSlicesPass(const GpuOptions& options = {});

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TRANSFORMS_GPU_TRANSFORMS_H_
