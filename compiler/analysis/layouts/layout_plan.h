// Which layout each block of a kernel lives in on a GPU.
//
// A value either has a home, the one layout that it is computed in, or floats: cheap values (ranges, splats, index
// arithmetic, small loads, what is broadcast) are computed again in each layout that a user asks for. Homes come from
// products, from loads (coalesced, as wide as contiguity and alignment allow) and from reductions; they spread forward
// along elementwise operations, and values that loops and branches carry take theirs from what they start from or end
// with, or from what is asked of them.
#ifndef TESSERA_COMPILER_ANALYSIS_LAYOUTS_LAYOUT_PLAN_H_
#define TESSERA_COMPILER_ANALYSIS_LAYOUTS_LAYOUT_PLAN_H_

#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/layouts/gpu_options.h"
#include "compiler/dialect/tile/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

// The layouts of a product's operands; no entry: any (it goes through shared memory).
struct DotLayouts {
  std::optional<tile::LinearLayout> a, b;
  tile::LinearLayout c;
};

// An operation that works on each lane by itself: operands and results share a layout.
bool KeepsLayout(mlir::Operation* op);

class LayoutPlan {
 public:
  using Layout = tile::LinearLayout;

  LayoutPlan(mlir::func::FuncOp function, const GpuOptions& options);

  // Nothing: the value floats.
  std::optional<Layout> Home(mlir::Value value) const;
  // The coalesced layout of a block's accesses, or the natural one for its shape.
  Layout Default(mlir::Type type) const;
  // What an operation asks of operand `i`. `result`: the layout in which the (floating) operation is computed; null for
  // its home. Not for operations with regions of scf.
  Layout Demand(mlir::Operation* op, unsigned i, const Layout* result = nullptr) const;
  // The layout in which a floating result can be computed, and from which it is converted to `wanted` if that differs.
  Layout Feasible(mlir::Value value, const Layout& wanted) const;

  // Values that a structured operation carries: `targets` take their value from one of `sources`.
  struct Carried {
    llvm::SmallVector<mlir::Value, 2> targets;
    llvm::SmallVector<mlir::OpOperand*, 2> sources;
  };
  const std::vector<Carried>& carried() const { return carried_; }

 private:
  struct Access {
    llvm::SmallVector<int32_t, 4> order;
    int64_t run = 1;  // elements that one access can take; 1: not contiguous
    int64_t bytes = 1;  // of an element
  };

  void FindAccesses(mlir::func::FuncOp function);
  void FindCarried(mlir::func::FuncOp function);
  Access Describe(mlir::Operation* op, const AxisInfoAnalysis& axis) const;
  Layout Coalesced(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order) const;
  // Whether a memory operation may as well use the layout that a value has already.
  bool Serves(const Layout& layout, const Access& access) const;
  bool IsSmallLoad(mlir::Operation* op) const;

  enum class Phase { kProducts, kAll, kFinal };
  void Forward(mlir::func::FuncOp function, Phase phase);
  bool ForwardOp(mlir::Operation* op, Phase phase);
  bool ForwardCarried(Phase phase);
  void CollectWants(mlir::func::FuncOp function);
  bool SetHome(mlir::Value value, const Layout& layout);
  // The layout that the sources of a reduction, scan, or sort share.
  std::optional<Layout> SourceLayout(mlir::ValueRange sources) const;
  Layout HomeOrDefault(mlir::Value value) const;

  GpuOptions options_;
  std::vector<mlir::Operation*> ops_;  // in program order
  std::vector<Carried> carried_;
  std::map<std::vector<int64_t>, std::map<std::vector<int32_t>, std::pair<int64_t, int>>> runs_;  // shape, order: run, accesses
  llvm::DenseMap<mlir::Operation*, Access> accesses_;
  llvm::DenseMap<mlir::Value, Layout> homes_, wants_;
  llvm::DenseMap<mlir::Operation*, DotLayouts> dots_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LAYOUTS_LAYOUT_PLAN_H_
