#include "compiler/analysis/dot_tiling.h"

#include <algorithm>

namespace tessera::compiler {

using namespace mlir;

namespace {

int64_t TermsOf(tile::DotOp dot, Type operand) {
  if (!operand.isF32()) return 1;
  switch (dot.getPrecision()) {
    case tile::Precision::TF32X3:
    case tile::Precision::BF16X3:
      return 3;
    case tile::Precision::BF16X6:
      return 6;
    case tile::Precision::IEEE:
    case tile::Precision::TF32:
      return 1;
  }
  return 1;
}

}  // namespace

DotTiling TileDot(tile::DotOp dot, int vector_bits) {
  auto a = cast<RankedTensorType>(dot.getA().getType());
  auto c = cast<RankedTensorType>(dot.getType());
  int64_t rank = c.getRank();
  DotTiling t;
  t.batch = rank == 3 ? c.getDimSize(0) : 1;
  t.m = c.getDimSize(rank - 2);
  t.n = c.getDimSize(rank - 1);
  t.k = a.getDimSize(rank - 1);
  t.terms = TermsOf(dot, a.getElementType());
  t.compute = c.getElementType();
  if (isa<FloatType>(t.compute) && t.compute.getIntOrFloatBitWidth() < 32) t.compute = Float32Type::get(dot.getContext());
  int64_t full = vector_bits / t.compute.getIntOrFloatBitWidth();
  t.lanes = std::min(full, t.n);
  // 32 registers: 8 rows of 2 vectors, 16 of them sums. 16 registers: 4 rows of 2 vectors. A narrow product takes
  // more rows instead of the second vector.
  int64_t sums = vector_bits >= 512 ? 16 : 8;
  t.nr = std::min(t.n, 2 * t.lanes);
  t.mr = std::min(t.m, sums / (t.nr / t.lanes));
  return t;
}

}  // namespace tessera::compiler
