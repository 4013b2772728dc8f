// A kernel compiled for an emulated GPU (targets "emulated:sm_90a" and so on), ready to run on the host. No MLIR in this
// header.
#ifndef TESSERA_COMPILER_DRIVER_EMULATED_KERNEL_H_
#define TESSERA_COMPILER_DRIVER_EMULATED_KERNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/target/interpreter/interpret_options.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

// The code of the artifact is the simt IR that the same job makes for the GPU.
class EmulatedKernel {
 public:
  static absl::StatusOr<std::unique_ptr<EmulatedKernel>> Load(const storage::Artifact& artifact);
  ~EmulatedKernel();

  // As Emulator::Run (compiler/target/nvptx/emulator). Thread-safe.
  absl::Status Run(const uint64_t* params, const uint32_t grid[3], const InterpretOptions& options) const;

 private:
  struct Impl;
  explicit EmulatedKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_EMULATED_KERNEL_H_
