// Writes the loops of one kernel: the state and the parts of the tile-to-loops conversion.
//
// Values of tile IR are evaluated on demand. `Evaluate` gives an element at an index, or the lanes of one vector, and
// recurses through operands until it meets scalars, memory, or blocks that the plan keeps in scratch memory. Everything
// evaluated is placed in the outermost loop of the current nest that its index allows, and found again there.
//
// How values look in the emitted code: scalars keep their type, but for pointers (!llvm.ptr) and 8-bit floats (i8).
// Lanes are 1-D vectors of these; lanes of pointers are i64 addresses. Indices are i64.
#ifndef TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_KERNEL_EMITTER_H_
#define TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_KERNEL_EMITTER_H_

#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/materialisation_plan.h"
#include "compiler/conversion/tile_to_loops/tile_to_loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {

// Position along one dimension: base + offset (base may be null), available from loop level `level` on.
struct Index {
  mlir::Value base;
  int64_t offset = 0;
  int level = 0;

  Index operator+(int64_t more) const { return {base, offset + more, level}; }
};
using Indices = llvm::SmallVector<Index, 3>;

// Which elements the lanes of a vector are: bit b of the lane number, when set, adds `step` to dimension `dim`.
// dim -1: the bit makes no difference. No bits: a scalar. The index of lane 0 has zeros where the steps have ones.
struct LaneBit {
  int dim;
  int64_t step;
  bool operator==(const LaneBit& o) const { return dim == o.dim && step == o.step; }
};
struct Lanes {
  llvm::SmallVector<LaneBit, 5> bits;

  int64_t count() const { return int64_t{1} << bits.size(); }
  bool scalar() const { return bits.empty(); }
  // `count` consecutive elements along `dim`.
  static Lanes Along(int dim, int64_t count);
  // How far the lanes reach along `dim`: the step of a loop over it.
  int64_t Span(int dim) const;
};

// An evaluated scalar or vector and the loop level that it was placed at.
struct Evaluated {
  mlir::Value value;
  int level = 0;
};

class KernelEmitter {
 public:
  KernelEmitter(mlir::func::FuncOp kernel, const MaterialisationPlan& plan, const AxisInfoAnalysis& axis,
                const CodegenTarget& target);

  // Makes the entry function after `kernel`. Failure: an error was emitted.
  mlir::LogicalResult Emit(llvm::StringRef entry_name);

 private:
  //===-- kernel_emitter.cc: entry, blocks of operations, control flow ---------------------------===//
  mlir::LogicalResult EmitSteps(mlir::Block* block);
  mlir::LogicalResult EmitStep(const Step& step);
  mlir::LogicalResult EmitScalar(mlir::Operation* op);
  mlir::LogicalResult EmitFor(mlir::scf::ForOp loop);
  mlir::LogicalResult EmitIf(mlir::scf::IfOp branch);
  mlir::LogicalResult EmitWhile(mlir::scf::WhileOp loop);
  mlir::LogicalResult EmitRegion(mlir::Block* source, mlir::Block* target);
  mlir::LogicalResult EmitWrites(llvm::ArrayRef<YieldAction> actions, mlir::ValueRange values);
  mlir::LogicalResult Unsupported(mlir::Operation* op, const llvm::Twine& what);

  //===-- loop levels ------------------------------------------------------------------------------===//
  struct Level {
    mlir::Block* block;
    mlir::Operation* before = nullptr;  // the loop of the next level; null: the end of the block
    std::map<std::vector<int64_t>, Evaluated> known;
  };
  int depth() const { return static_cast<int>(levels_.size()) - 1; }
  void GoTo(int level);
  void StartNest();
  // Opens for (i = first; i < extent; i += step) around what follows; no loop if there is one trip.
  Index OpenLoop(int64_t first, int64_t extent, int64_t step);
  mlir::scf::ForOp OpenLoopWith(int64_t first, int64_t extent, int64_t step, mlir::ValueRange carried, Index* index);
  void CloseLoop();
  // Closes loops until `depth` are open.
  void CloseTo(int depth);
  void MoveInto(mlir::Block* block);

  //===-- evaluate.cc: values on demand --------------------------------------------------------------===//
  // Null value: an error was emitted.
  Evaluated Evaluate(mlir::Value value, llvm::ArrayRef<Index> index, const Lanes& lanes);
  Evaluated EvaluateUncached(mlir::Value value, llvm::ArrayRef<Index> index, const Lanes& lanes);
  // From its operands, also where the value is kept in memory.
  Evaluated EvaluateDefinition(mlir::Value value, llvm::ArrayRef<Index> index, const Lanes& lanes);
  Evaluated EvaluateRange(tile::RangeOp op, Index index, const Lanes& lanes);
  Evaluated EvaluateConstant(mlir::arith::ConstantOp op, const Lanes& lanes);
  Evaluated EvaluateJoined(mlir::Value lhs, mlir::Value rhs, Index which, llvm::ArrayRef<Index> index,
                           const Lanes& lanes, int bit);
  Evaluated EvaluateGather(tile::GatherOp op, llvm::ArrayRef<Index> index, const Lanes& lanes);
  Evaluated EvaluateLaneOp(mlir::Operation* op, llvm::ArrayRef<Index> index, const Lanes& lanes);
  Evaluated Repeat(Evaluated scalar, int64_t count);
  void Remember(mlir::Value value, llvm::ArrayRef<Index> index, const Lanes& lanes, Evaluated result);
  // Whether all lanes of `value` are equal, or consecutive.
  bool IsUniform(mlir::Value value, const Lanes& lanes) const;
  bool IsConsecutive(mlir::Value value, const Lanes& lanes) const;
  // The index and lanes of the operand that a shape operation reads for `index` and `lanes` of its result.
  bool MapShape(mlir::Operation* op, llvm::ArrayRef<Index> index, const Lanes& lanes, Indices* source_index,
                Lanes* source_lanes);
  static bool MapLanes(mlir::Operation* op, const Lanes& lanes, Lanes* source_lanes);

  //===-- lane_ops.cc: one operation on evaluated operands ---------------------------------------------===//
  // Result of an elementwise operation on scalars or vectors of `count` lanes. Null: an error was emitted.
  mlir::Value LaneOp(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands, int64_t count);
  mlir::Value DivideOp(mlir::Operation* op, mlir::Value lhs, mlir::Value rhs, bool is_signed, bool remainder);
  mlir::Value QuickQuotient(mlir::Value lhs, mlir::Value rhs);
  mlir::Value LibmCall(llvm::StringRef name, llvm::ArrayRef<mlir::Value> operands, mlir::Type result);
  mlir::Value ExternCall(tile::ExternOp op, llvm::ArrayRef<mlir::Value> operands, int64_t count);
  mlir::Value AddAddress(mlir::Value pointer, mlir::Value offset, mlir::Type pointee, int64_t count);
  // Runs a combine region on vectors of `count` lanes.
  mlir::LogicalResult Combine(mlir::Region& region, llvm::ArrayRef<mlir::Value> lhs, llvm::ArrayRef<mlir::Value> rhs,
                              int64_t count, llvm::SmallVectorImpl<mlir::Value>* out);
  static bool IsVectorisable(mlir::Region& region);

  //===-- memory.cc: loads, stores, scratch memory -----------------------------------------------------===//
  Evaluated EvaluateLoad(tile::LoadOp op, llvm::ArrayRef<Index> index, const Lanes& lanes);
  Evaluated ReadBuffer(const Buffer* buffer, llvm::ArrayRef<Index> index, const Lanes& lanes);
  void WriteBuffer(const Buffer* buffer, llvm::ArrayRef<Index> index, const Lanes& lanes, mlir::Value value);
  mlir::LogicalResult EmitStore(tile::StoreOp op, llvm::ArrayRef<Index> index, const Lanes& lanes);
  mlir::Value BufferAddress(const Buffer* buffer, mlir::Value element_index);
  // Accesses with a known address at the current insertion point; types as in the emitted code.
  mlir::Value LoadAt(mlir::Value address, mlir::Type type);
  void StoreAt(mlir::Value address, mlir::Value value);
  mlir::Value MaskedLoadAt(mlir::Value address, mlir::Value mask, mlir::Value passthru);
  void MaskedStoreAt(mlir::Value address, mlir::Value value, mlir::Value mask);
  mlir::Value GatherAt(mlir::Value addresses, mlir::Value mask, mlir::Value passthru);
  void ScatterAt(mlir::Value addresses, mlir::Value value, mlir::Value mask);

  //===-- nests.cc: roots in loop nests ------------------------------------------------------------------===//
  mlir::LogicalResult EmitNest(const Step& step);
  mlir::LogicalResult EmitReductions(const Step& step, const Lanes& lanes);
  mlir::LogicalResult EmitRoot(mlir::Operation* op, llvm::ArrayRef<Index> index, const Lanes& lanes);
  // Evaluates a block into memory.
  mlir::LogicalResult EmitInto(const Buffer* target, mlir::Value value);
  void EmitCopy(const Buffer* target, const Buffer* source);
  // Opens loops over all of `shape` but `skip`, lanes innermost.
  Indices OpenNestOver(llvm::ArrayRef<int64_t> shape, const Lanes& lanes, int skip = -1);
  // The cheapest lanes for evaluating roots of one shape.
  Lanes ChooseLanes(const Step& step);
  Lanes ChooseLanesFor(llvm::ArrayRef<mlir::Value> values, llvm::ArrayRef<int64_t> shape, int axis);
  double LaneCost(mlir::Value value, const Lanes& lanes, llvm::DenseMap<mlir::Value, int>* seen);
  double DefinitionCost(mlir::Operation* op, const Lanes& lanes, llvm::DenseMap<mlir::Value, int>* seen);
  double RootCost(mlir::Operation* op, const Lanes& lanes, llvm::DenseMap<mlir::Value, int>* seen);
  llvm::SmallVector<Lanes> LaneCandidates(llvm::ArrayRef<int64_t> shape, int axis) const;
  Lanes Cheapest(llvm::ArrayRef<int64_t> shape, int axis,
                 llvm::function_ref<double(const Lanes&, llvm::DenseMap<mlir::Value, int>*)> cost);

  //===-- dot.cc: packed products ------------------------------------------------------------------------===//
  mlir::LogicalResult EmitPack(const PackPlan& pack);
  mlir::LogicalResult EmitDot(tile::DotOp dot);
  mlir::Value PackedTerm(tile::DotOp dot, bool is_b, int term, mlir::Value value);
  void EmitMicroKernels(tile::DotOp dot, const DotTiling& tiling, bool from_zero);
  bool PacksAByColumns(tile::DotOp dot);

  //===-- whole.cc: operations with a shape of their own ---------------------------------------------------===//
  mlir::LogicalResult EmitWhole(mlir::Operation* op);
  mlir::LogicalResult EmitScan(tile::ScanOp op);
  mlir::LogicalResult EmitSort(tile::SortOp op);
  mlir::LogicalResult EmitHistogram(tile::HistogramOp op);
  mlir::LogicalResult EmitMap(tile::MapOp op);
  mlir::LogicalResult EmitAtomic(mlir::Operation* op);
  mlir::LogicalResult EmitPrint(tile::PrintOp op);
  mlir::LogicalResult EmitAssert(tile::AssertOp op);
  mlir::Value AtomicAt(mlir::Operation* op, mlir::Value address, mlir::Value value, mlir::Value compare);
  mlir::Value GlobalText(llvm::StringRef text);

  //===-- small things -------------------------------------------------------------------------------------===//
  mlir::Type Emitted(mlir::Type type) const;  // scalar type in the emitted code
  mlir::Type EmittedLanes(mlir::Type element, int64_t count) const;
  mlir::Type MemoryType(mlir::Type emitted) const;  // how a scalar or vector lies in memory
  mlir::Value ToMemory(mlir::Value value);
  mlir::Value FromMemory(mlir::Value value, mlir::Type type);
  mlir::Value ConstI64(int64_t value);
  mlir::Value Const(mlir::Type type, int64_t value);  // integers, scalar or vector
  mlir::Value Zero(mlir::Type type);
  mlir::Value IndexValue(const Index& index);
  Index Scaled(const Index& index, int64_t factor);
  Index Sum(const Index& a, const Index& b);
  static std::optional<bool> ConstantBool(mlir::Value value);
  mlir::Value AsAddress(mlir::Value pointer);  // !llvm.ptr -> i64
  mlir::Value AsPointer(mlir::Value address);

  mlir::func::FuncOp kernel_;
  const MaterialisationPlan& plan_;
  const AxisInfoAnalysis& axis_;
  CodegenTarget target_;
  mlir::OpBuilder builder_;
  mlir::Location loc_;
  mlir::LLVM::LLVMPointerType ptr_;
  mlir::Type i64_;
  std::vector<Level> levels_;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars_;  // of tile IR -> emitted
  mlir::Value scratch_, context_;
  mlir::Value program_id_[3], num_programs_[3];
  int texts_ = 0;
  bool failed_ = false;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_TILE_TO_LOOPS_KERNEL_EMITTER_H_
