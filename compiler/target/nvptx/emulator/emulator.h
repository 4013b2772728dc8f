// Runs simt modules on the host: all threads of a block in step, blocks one after another, every access checked.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_EMULATOR_H_
#define TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/target/interpreter/interpret_options.h"

namespace mlir {
class ModuleOp;
}

namespace tessera::emulator {

class Emulator {
 public:
  // Compiles the function called `kernel`, or the only one with "simt.kernel" when it is empty. The module may go
  // afterwards. UNIMPLEMENTED: an operation that the emulator does not know, with its place. NOT_FOUND: no such function.
  static absl::StatusOr<std::unique_ptr<Emulator>> Create(mlir::ModuleOp module, absl::string_view kernel = "");
  ~Emulator();

  // Slots that Run reads from `params`: the arguments of the function.
  size_t parameter_count() const;

  // Runs all blocks of the grid, in a random order where options.program_order_seed is not 0. `params` as in
  // base/kernel_abi.h. OUT_OF_RANGE: a global access outside the extents or not aligned. INTERNAL: the code breaks a
  // rule of shared memory or of uniform control flow; the message names places, threads and the buffer. ABORTED: a
  // device_assert failed. FAILED_PRECONDITION: an argument's divisibility does not hold. Thread-safe.
  absl::Status Run(const uint64_t* params, const uint32_t grid[3], const compiler::InterpretOptions& options) const;

 private:
  struct Impl;
  explicit Emulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::emulator

#endif  // TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_EMULATOR_H_
