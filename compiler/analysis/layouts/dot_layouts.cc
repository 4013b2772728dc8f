#include "compiler/analysis/layouts/dot_layouts.h"

#include <algorithm>

#include "compiler/analysis/layouts/matrix_layouts.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler {

using tile::LinearLayout;

DotLayouts FmaDotLayouts(tile::DotOp dot, const GpuOptions& options) {
  auto type = llvm::cast<mlir::RankedTensorType>(dot.getC().getType());
  int rank = static_cast<int>(type.getRank());
  int m = rank - 2, n = rank - 1;
  llvm::SmallVector<int64_t, 4> per_thread(rank, 1), lanes(rank, 1), warps(rank, 1);
  llvm::SmallVector<int32_t, 4> order;
  for (int d = rank - 1; d >= 0; --d) order.push_back(d);
  int64_t threads = 32 * options.num_warps;
  // Up to 4 x 4 a thread, no larger than what keeps all threads busy.
  for (int64_t budget = std::max<int64_t>(1, type.getNumElements() / threads); budget > 1;) {
    bool grown = false;
    for (int d : {n, m}) {
      if (budget > 1 && per_thread[d] < 4 && per_thread[d] < type.getDimSize(d)) {
        per_thread[d] *= 2;
        budget /= 2;
        grown = true;
      }
    }
    if (!grown) break;
  }
  auto room = [&](int d) { return std::max<int64_t>(1, type.getDimSize(d) / (per_thread[d] * lanes[d] * warps[d])); };
  int64_t lanes_left = 32, warps_left = options.num_warps;
  lanes[n] = std::min<int64_t>(8, room(n));
  lanes[m] = std::min<int64_t>(lanes_left / lanes[n], room(m));
  lanes[n] *= std::min<int64_t>(lanes_left / (lanes[n] * lanes[m]), room(n));
  lanes_left /= lanes[n] * lanes[m];
  for (int d = 0; d < rank; ++d) {
    warps[d] = std::min(warps_left, room(d));
    warps_left /= warps[d];
  }
  lanes[0] *= lanes_left;  // replicated
  warps[0] *= warps_left;
  return {std::nullopt, std::nullopt, LinearLayout::Blocked(type.getShape(), per_thread, lanes, warps, order)};
}

// Whether stage-dot-operands may read the operand ahead of time into shared memory: then any layout will do.
static bool IsLoadedInLoop(tile::DotOp dot, mlir::Value operand, const GpuOptions& options) {
  if (options.num_stages < 2 || !mlir::isa<mlir::scf::ForOp>(dot->getParentOp())) return false;
  mlir::Operation* op = operand.getDefiningOp();
  while (op && mlir::isa<tile::TransOp>(op)) op = op->getOperand(0).getDefiningOp();
  return op && mlir::isa<tile::LoadOp>(op) && op->getBlock() == dot->getBlock();
}

DotLayouts ChooseDotLayouts(tile::DotOp dot, const GpuOptions& options) {
  std::optional<MatrixPlan> plan = PlanMatrixProduct(dot, options);
  if (!plan) return FmaDotLayouts(dot, options);
  DotLayouts layouts{std::nullopt, std::nullopt, plan->c};
  if (plan->unit == MatrixUnit::kWgmma) {
    if (plan->element_bytes == 2 && IsComputedFromDot(dot)) layouts.a = plan->a;
    return layouts;
  }
  const bool staged = plan->rank == 2 && IsLoadedInLoop(dot, dot.getB(), options);
  if (!staged || !IsLoadedInLoop(dot, dot.getA(), options)) layouts.a = plan->a;
  if (!staged) layouts.b = plan->b;
  return layouts;
}

}  // namespace tessera::compiler
