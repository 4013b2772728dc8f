// Layout-free tile IR -> loops, vectors of register size and scalars, in a function with the ABI of
// base/kernel_abi.h.
#ifndef TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_TILE_TO_LOOPS_H_
#define TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_TILE_TO_LOOPS_H_

#include <memory>
#include <string>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

struct CodegenTarget {
  int vector_bits = 128;
  // Masked loads and stores of every element size in one instruction (AVX-512 BW and VL).
  bool native_masks = false;
  // Masked loads and stores of 32- and 64-bit elements (AVX).
  bool wide_masks = false;
  bool fma = false;
};

struct TileToLoopsResult {
  std::string entry_symbol;
  int64_t scratch_bytes = 0;
  std::string plan_text;  // where asked for
};

// `tile-to-loops`, a pass over modules: replaces the function that carries "tile.kernel" by its entry function. Uses
// arith, math, scf, vector and LLVM operations. An operation that the target does not have is an error that starts with
// "not supported on the cpu: ".
//
// `result` (may be null) is filled; it must outlive the pass.
std::unique_ptr<mlir::Pass> CreateTileToLoopsPass(const CodegenTarget& target, bool want_plan = false,
                                                  TileToLoopsResult* result = nullptr);
// With options of its own: `vector-bits`, `native-masks`, `fma`.
std::unique_ptr<mlir::Pass> CreateTileToLoopsPass();

// What makes kernels with failing tile.assert return: a pass over LLVM-ready functions that turns the marks left by
// tile-to-loops (cf.assert) into returns. It runs once scf is gone.
std::unique_ptr<mlir::Pass> CreateReturnOnFailurePass();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_TILE_TO_LOOPS_H_
