// Products on matrix units: which instruction computes a product, how its warps share it, and where fragments live (PTX
// ISA, "Warp Level Matrix Multiply-Accumulate" and "Asynchronous Warpgroup Level Matrix").
#ifndef TESSERA_COMPILER_ANALYSIS_LAYOUTS_MATRIX_LAYOUTS_H_
#define TESSERA_COMPILER_ANALYSIS_LAYOUTS_MATRIX_LAYOUTS_H_

#include <optional>

#include "compiler/analysis/layouts/gpu_options.h"
#include "compiler/dialect/tile/tile.h"

namespace tessera::compiler {

enum class MatrixUnit { kMma, kWgmma };

struct MatrixPlan {
  MatrixUnit unit = MatrixUnit::kMma;
  int rank = 2;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  // Of one instruction: of a warp (mma), of four warps (wgmma, m 64).
  int64_t instruction_m = 16, instruction_n = 8, instruction_k = 16;
  int64_t warps_m = 1, warps_n = 1;
  int element_bytes = 2;
  tile::LinearLayout a, b, c;  // fragments over the whole block; wgmma reads b from shared memory, a may come from there

  // Tiles of one warp (or warp group) along each dimension.
  int64_t tiles_m() const { return std::max<int64_t>(1, m / (instruction_m * groups_m())); }
  int64_t tiles_n() const { return std::max<int64_t>(1, n / (instruction_n * warps_n)); }
  int64_t steps_k() const { return k / instruction_k; }
  // Rows from one tile of a warp (or warp group) to the next.
  int64_t tile_rows() const { return unit == MatrixUnit::kWgmma ? 16 * warps_m : instruction_m * warps_m; }
  // Rows of a warp in one instruction, in units of 8.
  int64_t row_parts() const { return instruction_m > 8 ? 2 : 1; }
  int64_t groups_m() const { return unit == MatrixUnit::kWgmma ? warps_m / 4 : warps_m; }
};

// Nothing: the product is computed by multiply-adds (fp32 in full precision, wide integers, short k).
std::optional<MatrixPlan> PlanMatrixProduct(mlir::Type a, mlir::Type b, mlir::Type c, tile::Precision precision, bool rows_first,
                                            const GpuOptions& options);
std::optional<MatrixPlan> PlanMatrixProduct(tile::DotOp dot, const GpuOptions& options);

// The plan by which the accumulator got its layout; nothing: it was none of ours.
std::optional<MatrixPlan> PlanOfLayout(mlir::Type a, mlir::Type b, mlir::Type c, tile::Precision precision, const GpuOptions& options);

// Whether the product is one of a chain (its operand a comes from another one, or its result becomes such an operand):
// then all warps lie along m, so that a result turns into an operand without leaving its warp.
bool IsChained(tile::DotOp dot);
// Whether operand a is computed lane by lane from another product.
bool IsComputedFromDot(tile::DotOp dot);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LAYOUTS_MATRIX_LAYOUTS_H_
