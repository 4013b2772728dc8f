// Simt IR to the emulator's program.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_BUILD_SIMT_H_
#define TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_BUILD_SIMT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/target/interpreter/program.h"
#include "compiler/target/nvptx/emulator/shared_memory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::emulator {

struct SimtProgram {
  interpreter::Program program;
  int threads = 32;
  int64_t shared_bytes = 0;
  std::vector<SharedBuffer> buffers;
};

// Buffers without an offset get places of their own, behind one another. UNIMPLEMENTED: an operation that the emulator
// does not know, or that may not stand in divergent code, with its place.
absl::StatusOr<SimtProgram> BuildSimt(mlir::func::FuncOp kernel);

}  // namespace tessera::emulator

#endif  // TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_BUILD_SIMT_H_
