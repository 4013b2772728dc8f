// Tile IR -> an artifact for an NVIDIA GPU, or for the emulator of one.
#ifndef TESSERA_COMPILER_DRIVER_GPU_COMPILE_H_
#define TESSERA_COMPILER_DRIVER_GPU_COMPILE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

// "sm_90a", "emulated:sm_90a".
bool IsGpuTarget(absl::string_view target);

// INVALID_ARGUMENT, UNIMPLEMENTED: the job's target or launch options are not possible on GPUs. Cheap: call it before
// the frontend.
absl::Status CheckGpuJob(const storage::CompileJob& job);

void RegisterGpuDialects(mlir::DialectRegistry* registry);

// Compiles the kernel of `module`, which is consumed. Fills the artifact's code (a cubin, or simt IR for an emulated
// GPU), its metadata and the stages that the job asks for: tile_gpu (also by the name layout),
// simt, llvm, ptx, sass where there is a disassembler. `override_stages` replaces simt
// and ptx. Errors: as CompileSimt, and UNIMPLEMENTED for operations without code on GPUs.
absl::Status CompileForGpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact,
                           std::vector<std::pair<std::string, double>>* stage_seconds);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_GPU_COMPILE_H_
