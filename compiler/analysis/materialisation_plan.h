// Which blocks of a kernel are kept in memory on the CPU, where, and in which loop nests they are made.
//
// Most values of tile IR never exist as a whole: an expression is evaluated at an index, or for the lanes of one vector,
// where it is used. Kept in memory ("materialised") are results that only exist as a whole (products, reductions,
// values carried through control flow, ...), values that are expensive and used in several places, and loads that may
// not move past a write. All of them live in one arena of a program instance; lifetimes share space.
//
// The work of each block of operations is a list of steps in order. A nest step evaluates one or more roots (a store,
// a reduction, a value being materialised) of one shape in one loop nest.
#ifndef TESSERA_COMPILER_ANALYSIS_MATERIALISATION_PLAN_H_
#define TESSERA_COMPILER_ANALYSIS_MATERIALISATION_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/dot_tiling.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

// Row-major memory of a block. Elements of i1 take a byte, pointers eight bytes.
struct Buffer {
  int id;
  llvm::SmallVector<int64_t, 3> shape;
  mlir::Type element;
  int64_t bytes;
  std::string purpose;
  int first, last;     // positions in program order between which it is alive
  int64_t offset = 0;  // in the arena, aligned to 64
};

enum class StepKind {
  kScalar,   // one operation on scalars
  kExtract,  // a scalar out of a block (tile.unsplat)
  kNest,     // roots in one loop nest
  kWhole,    // one operation with a code shape of its own (dot, scan, sort, atomics, ...)
  kControl,  // an scf operation
};

struct Step {
  StepKind kind;
  llvm::SmallVector<mlir::Operation*, 2> ops;
  // kNest: the common iteration shape and the axis along which all reductions in it run, or -1.
  llvm::SmallVector<int64_t, 3> shape;
  int axis = -1;
};

// What the end of a region does for one operand of its terminator.
struct YieldAction {
  unsigned operand;
  const Buffer* target;
  const Buffer* temporary;  // evaluate into this first and copy after all others are done; or null
};

// An operand of a dot, packed before operation `at` is emitted.
struct PackPlan {
  tile::DotOp dot;
  bool is_b;
  mlir::Operation* at;
  const Buffer* buffer;
};

class MaterialisationPlan {
 public:
  MaterialisationPlan(mlir::func::FuncOp kernel, const AxisInfoAnalysis& axis, int vector_bits);

  // The memory of a value, or null: it is evaluated where it is used.
  const Buffer* BufferOf(mlir::Value value) const;
  llvm::ArrayRef<Step> StepsOf(mlir::Block* block) const;
  // For the terminator of a region that carries blocks; operands that need no work are left out.
  llvm::ArrayRef<YieldAction> YieldsOf(mlir::Operation* terminator) const;
  // Initial values of carried blocks that must be evaluated into the carried memory.
  llvm::ArrayRef<YieldAction> InitsOf(mlir::Operation* loop) const;
  llvm::ArrayRef<PackPlan> PacksBefore(mlir::Operation* op) const;
  const Buffer* PackedA(tile::DotOp dot) const;
  const Buffer* PackedB(tile::DotOp dot) const;
  int64_t scratch_bytes() const { return scratch_bytes_; }

  void Print(llvm::raw_ostream& out) const;

 private:
  friend class PlanBuilder;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  llvm::DenseMap<mlir::Value, Buffer*> buffer_of_;
  llvm::DenseMap<mlir::Block*, std::vector<Step>> steps_;
  llvm::DenseMap<mlir::Operation*, llvm::SmallVector<YieldAction, 4>> yields_, inits_;
  llvm::DenseMap<mlir::Operation*, llvm::SmallVector<PackPlan, 2>> packs_;
  llvm::DenseMap<mlir::Operation*, std::pair<Buffer*, Buffer*>> packed_;
  std::vector<mlir::Block*> block_order_;
  int64_t scratch_bytes_ = 0;
};

// Whether each element of each result depends on the elements of the operands at the same index alone.
bool IsLaneByLane(mlir::Operation* op);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_MATERIALISATION_PLAN_H_
