// How a tile.dot is computed on the CPU: the sizes of its packed operands and of its register-blocked micro-kernel.
//
// A is packed as [batch][K'][M] or [batch][M][K'] (whichever its loads fill in order), B as panels
// [batch][N / nr][K'][nr]. The micro-kernel keeps mr x nr of C in registers over all of K'. Split precisions lengthen
// K: K' = K * terms, one term for each pair of parts that is multiplied.
#ifndef TESSERA_COMPILER_ANALYSIS_DOT_TILING_H_
#define TESSERA_COMPILER_ANALYSIS_DOT_TILING_H_

#include <cstdint>

#include "compiler/dialect/tile/tile.h"

namespace tessera::compiler {

struct DotTiling {
  int64_t batch, m, n, k;
  int64_t terms;       // K' = k * terms
  int64_t mr, nr;      // rows and columns of the micro-kernel
  int64_t lanes;       // of its vectors; nr is a multiple
  mlir::Type compute;  // f32, f64 or i32: type of packed operands and of sums

  int64_t packed_a_elements() const { return batch * m * k * terms; }
  int64_t packed_b_elements() const { return batch * n * k * terms; }
};

// `vector_bits`: size of the target's vector registers.
DotTiling TileDot(tile::DotOp dot, int vector_bits);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_DOT_TILING_H_
