// Executes tile IR on the host with the semantics that every other target is compared with.
//
// A function is compiled once into a compact internal program: dense value numbers, storage assigned, source places
// kept. Running it needs no MLIR. Never fast, always checked.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRETER_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRETER_H_

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

namespace tessera::interpreter {

class Interpreter {
 public:
  // Compiles the function called `kernel`, or the only one with "tile.kernel" when it is empty. The module may go
  // afterwards. UNIMPLEMENTED: an operation that the interpreter does not know, with its place. NOT_FOUND: no such
  // function.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Create(mlir::ModuleOp module, absl::string_view kernel = "");
  ~Interpreter();

  // Slots that Run reads from `params`.
  size_t parameter_count() const;

  // Runs all programs of the grid. `params` as in base/kernel_abi.h. OUT_OF_RANGE: an access outside the extents; the
  // message names kernel, line, program, lane, address and the nearest buffer. ABORTED: a device_assert failed.
  // FAILED_PRECONDITION: a promise (assume, hint, divisibility of an argument) does not hold. Thread-safe.
  absl::Status Run(const uint64_t* params, const uint32_t grid[3], const compiler::InterpretOptions& options) const;

  struct Impl;

 private:
  explicit Interpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRETER_H_
