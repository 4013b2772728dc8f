// Emits the simt IR of one kernel. One file a kind of operation; see README.md.
#ifndef TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_EMITTER_H_
#define TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_EMITTER_H_

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/axis_info.h"
#include "compiler/analysis/layouts/gpu_options.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/dialect/tile/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

struct MatrixPlan;
using tile::LinearLayout;
// One scalar for each register of a layout; a single one for scalars.
using Registers = std::vector<mlir::Value>;

// Where the elements of a block lie in a buffer of shared memory: the byte offset is the XOR of `images[i]` over the bits
// i of the flat index that are set.
struct SharedMap {
  llvm::SmallVector<int32_t, 16> images;
  int64_t bytes = 0;  // of the buffer
  llvm::SmallVector<int32_t, 16> by_position;  // flat bits, the one with the smallest offset first
  int32_t Offset(int32_t flat) const {
    int32_t offset = 0;
    for (size_t i = 0; i < images.size(); ++i)
      if (flat >> i & 1) offset ^= images[i];
    return offset;
  }
};

class Emitter {
 public:
  Emitter(mlir::func::FuncOp source, mlir::func::FuncOp target, const GpuOptions& options);
  mlir::LogicalResult Run();

 private:
  //===-- values (emitter.cc) -------------------------------------------------------------------===//
  const Registers& Get(mlir::Value value) const;
  mlir::Value Scalar(mlir::Value value) const { return Get(value)[0]; }
  void Set(mlir::Value value, Registers registers) { values_[value.getAsOpaquePointer()] = std::move(registers); }
  static mlir::Type Emitted(mlir::Type type);  // of one element: pointers are i64
  static int64_t BytesOf(mlir::Type element);  // in memory
  LinearLayout LayoutOf(mlir::Value value) const;
  int64_t threads() const { return 32 * options_.num_warps; }

  // Constants and thread numbers stand at the head of the function, each once.
  mlir::Value Constant(mlir::Type type, int64_t value);
  mlir::Value I32(int64_t value) { return Constant(b_.getI32Type(), value); }
  mlir::Value I64(int64_t value) { return Constant(b_.getI64Type(), value); }
  mlir::Value True() { return Constant(b_.getI1Type(), 1); }
  mlir::Value ConstantOf(mlir::TypedAttr attr);
  mlir::Value ThreadId();
  // XOR of lane_images[i] over the lane's bits and of warp_images[i] over the warp's bits; i32.
  mlir::Value ThreadBits(llvm::ArrayRef<int32_t> lane_images, llvm::ArrayRef<int32_t> warp_images);
  // XOR of images[i] over the bits i of `number` that are set; it has `bits` bits.
  mlir::Value SpreadBits(mlir::Value number, llvm::ArrayRef<int32_t> images, int bits);
  // thread part + constant, where XOR of `constant` is meant and `mask` are the bits that the thread part may have.
  mlir::Value Combine(mlir::Value thread_part, int32_t mask, int32_t constant);
  // The flat index of each register's element, after a linear map of flat indices (identity: null).
  // `moved`, whose bits lie in `moved_mask`, is XORed to each.
  Registers Indices(const LinearLayout& layout, const std::function<int32_t(int32_t)>& map = nullptr, mlir::Value moved = nullptr,
                    int32_t moved_mask = 0);
  // Of a scalar: every thread holds it.
  LinearLayout ScalarLayout() const;
  // Which threads hold an element that no other thread holds too; null: all.
  mlir::Value Owner(const LinearLayout& layout);
  mlir::Value LaneId();
  // Whether any bit of `mask` in the thread's number is set (`inverted`: any is clear).
  mlir::Value ThreadTest(int32_t mask, bool inverted = false);
  mlir::Value Shuffle(simt::ShuffleKind kind, mlir::Value value, mlir::Value lane);
  mlir::Value And(mlir::Value a, mlir::Value b);  // either may be null
  mlir::Value Not(mlir::Value condition);
  template <typename OpT, typename... Args>
  mlir::Value Make(Args&&... args) {
    return b_.createOrFold<OpT>(loc_, std::forward<Args>(args)...);
  }

  //===-- structure (emitter.cc) ----------------------------------------------------------------===//
  mlir::LogicalResult EmitBlock(mlir::Block& block);
  mlir::LogicalResult EmitOp(mlir::Operation* op);
  mlir::LogicalResult EmitFor(mlir::scf::ForOp op);
  mlir::LogicalResult EmitIf(mlir::scf::IfOp op);
  mlir::LogicalResult EmitWhile(mlir::scf::WhileOp op);
  llvm::SmallVector<mlir::Value> Flatten(mlir::ValueRange values) const;
  llvm::SmallVector<mlir::Type> FlattenTypes(mlir::ValueRange values) const;
  void Unflatten(mlir::ValueRange values, mlir::ValueRange flat);

  //===-- lane by lane, shapes (lane_ops.cc) ----------------------------------------------------===//
  mlir::LogicalResult EmitLanewise(mlir::Operation* op);
  mlir::LogicalResult EmitConstant(mlir::arith::ConstantOp op);
  mlir::LogicalResult EmitInlineAsm(mlir::Operation* op);
  mlir::LogicalResult EmitMap(tile::MapOp op);
  // The result's element at flat index f is the source's at source_of(f), a linear map (identity: null).
  mlir::LogicalResult EmitShape(mlir::Operation* op, const std::function<int32_t(int32_t)>& source_of);
  // For each register of `to` the register of `from` that holds the same thread's element at map(flat).
  static std::optional<std::vector<int32_t>> MapRegisters(const LinearLayout& to, const LinearLayout& from,
                                                          const std::function<int32_t(int32_t)>& map = nullptr);
  mlir::LogicalResult EmitJoin(tile::JoinOp op);
  mlir::LogicalResult EmitSplit(tile::SplitOp op);
  mlir::LogicalResult EmitCat(tile::CatOp op);
  mlir::Value AddPointer(mlir::Value pointer, mlir::Value offset, int64_t bytes);
  // Copies of an operation without regions on scalars.
  mlir::Operation* CloneOn(mlir::Operation* op, mlir::ValueRange operands);

  //===-- memory (memory.cc) --------------------------------------------------------------------===//
  // How the elements of one access are grouped: vectors along one dimension, addresses from the register at the head of a
  // contiguous run.
  struct Grouping {
    LinearLayout::Vector vector;
    int32_t run_bits = 0;               // register bits that stay inside a contiguous run
    std::vector<int64_t> run_steps;     // elements that register bit i steps over
  };
  Grouping Group(mlir::Value pointer, mlir::Value mask, const LinearLayout& layout, int64_t bytes);
  mlir::Value AddressOf(const Registers& pointers, const Grouping& grouping, int32_t reg, int64_t bytes);
  mlir::LogicalResult EmitLoad(tile::LoadOp op);
  mlir::LogicalResult EmitStore(tile::StoreOp op);
  mlir::LogicalResult EmitAtomicRmw(tile::AtomicRmwOp op);
  mlir::LogicalResult EmitAtomicCas(tile::AtomicCasOp op);
  mlir::LogicalResult FinishAtomic(mlir::Operation* op, Registers old);
  void FenceBeforeAtomic(mlir::Operation* op, tile::MemSem sem);
  // A value that several threads read must be read by all of them before one of them writes there: notes such reads, and
  // puts a barrier before a write to the same parameter's buffer.
  void NoteSharedRead(mlir::Value pointer);
  void OrderAfterReads(mlir::Value pointer);
  void EmitBarrier();
  mlir::LogicalResult EmitPrint(tile::PrintOp op);
  mlir::LogicalResult EmitAssert(tile::AssertOp op);

  //===-- shared memory (shared.cc) -------------------------------------------------------------===//
  mlir::Value Allocate(int64_t bytes, int64_t alignment = 16);
  void Free(mlir::Value buffer);
  // Bank-conflict-free offsets for writing in one layout and reading in another.
  static SharedMap PlanShared(const LinearLayout& from, const LinearLayout& to, int64_t element_bytes);
  // Registers of a layout that are contiguous under a map, up to 16 bytes.
  static LinearLayout::Vector VectorIn(const SharedMap& map, const LinearLayout& layout, int64_t element_bytes);
  // Which registers an access takes: nothing to leave one out, else a predicate (null: always).
  using Filter = std::function<std::optional<mlir::Value>(int32_t)>;
  // Of each element one holder stores it.
  void StoreShared(mlir::Value buffer, const SharedMap& map, const LinearLayout& layout, const Registers& values, const Filter& filter = nullptr);
  // Where the filter leaves out a register or does not hold, the result is that of `otherwise` (null: undefined).
  Registers LoadShared(mlir::Value buffer, const SharedMap& map, const LinearLayout& layout, mlir::Type element,
                       const Filter& filter = nullptr, const Registers* otherwise = nullptr, mlir::Value moved = nullptr,
                       int32_t moved_mask = 0);
  // The map without one bit of the flat index: of the half where it is clear, or of the other.
  static void RemoveBit(SharedMap* map, int flat_bit);
  // Takes the elements whose flat bits `bits` spell `piece`; null where there are no bits.
  Filter PieceFilter(const LinearLayout& layout, llvm::ArrayRef<int32_t> bits, int32_t piece);
  Registers Convert(const Registers& values, const LinearLayout& from, const LinearLayout& to);
  std::optional<Registers> ConvertAmongLanes(const Registers& values, const LinearLayout& from, const LinearLayout& to);
  Registers ConvertThroughShared(const Registers& values, const LinearLayout& from, const LinearLayout& to);
  mlir::LogicalResult EmitSharedPut(tile::SharedPutOp op);
  mlir::LogicalResult EmitSharedSlice(tile::SharedSliceOp op);
  // i1 is a byte in shared memory.
  static mlir::Type SharedType(mlir::Type element);
  mlir::Value ToShared(mlir::Value value);
  mlir::Value FromShared(mlir::Value value, mlir::Type element);
  static int64_t SharedBytes(mlir::Type element) { return BytesOf(SharedType(element)); }

  //===-- reductions and scans (reduce.cc, scan.cc) ----------------------------------------------===//
  // The combine region on two sets of values.
  Registers Combine(mlir::Region& region, const Registers& left, const Registers& right);
  mlir::LogicalResult EmitReduce(tile::ReduceOp op);
  // Reduces along an axis; `layout` becomes the one that the values were moved to, the results are in its slice.
  std::vector<Registers> ReduceValues(mlir::Region& region, std::vector<Registers> sources, LinearLayout* layout, int axis, bool ordered);
  LinearLayout PlainLayout(llvm::ArrayRef<int64_t> shape) const;
  mlir::LogicalResult EmitScan(tile::ScanOp op);

  //===-- products (dot.cc) -----------------------------------------------------------------------===//
  mlir::LogicalResult EmitDot(tile::DotOp op);
  mlir::LogicalResult EmitFmaDot(tile::DotOp op);
  mlir::Value Factor(mlir::Value value, mlir::Type accumulator, tile::Precision precision);
  mlir::Value MultiplyAdd(mlir::Value a, mlir::Value b, mlir::Value c);

  // On matrix units: operands in registers (dot_mma.cc), or staged in shared memory (dot_shared.cc). Words are the registers
  // of a fragment, for each tile of the warp, of one batch and step along k.
  using FragmentWords = std::function<std::vector<llvm::SmallVector<mlir::Value, 4>>(int64_t batch, int64_t step)>;
  static simt::MatrixType MatrixTypeOf(mlir::Type element);
  mlir::Value PackRegister(llvm::ArrayRef<mlir::Value> elements);
  static int32_t FragmentRegister(const LinearLayout& layout, int64_t batch, int64_t row, int64_t column);
  FragmentWords WordsOfRegisters(const MatrixPlan& plan, bool is_a, const Registers& values, const LinearLayout& layout);
  Registers EmitMma(const MatrixPlan& plan, const LinearLayout& c_layout, Registers c, simt::MatrixType a_type, simt::MatrixType b_type,
                    const FragmentWords& a, const FragmentWords& b);
  mlir::LogicalResult EmitMmaDot(tile::DotOp op, const MatrixPlan& plan);

  // The part of an offset that comes from the thread, and the bits that it may have.
  struct StagePlace {
    mlir::Value thread;
    int32_t mask = 0;
  };
  struct WgmmaOperand {
    SharedMap map;
    mlir::Value buffer, start;  // start: of the warp group's part in the stage
    bool k_major = true;
    simt::Swizzle swizzle = simt::Swizzle::NONE;
    int64_t leading = 0, stride = 0;
  };
  static SharedMap StageMap(tile::SharedType type, bool transposed);
  mlir::Value StageOffset(tile::SharedType type, mlir::Value stage);
  mlir::Value StageAddress(mlir::Value thread, int32_t mask, int32_t constant, mlir::Value stage_offset);
  StagePlace PlaceOf(const SharedMap& map, const LinearLayout& layout);
  void MarkOrdered(mlir::Operation* op, mlir::Value shared);
  void StoreStage(mlir::Value shared, mlir::Value stage_offset, const LinearLayout& layout, const Registers& values);
  FragmentWords WordsOfStage(const MatrixPlan& plan, bool is_a, mlir::Value shared, mlir::Value stage_offset, bool transposed);
  WgmmaOperand DescribeOperand(const MatrixPlan& plan, bool is_a, mlir::Value shared, mlir::Value stage_offset, bool transposed);
  Registers EmitWgmma(tile::SharedDotOp op, const MatrixPlan& plan, Registers c);
  Registers WaitForWgmma(int32_t pending, const Registers& values);
  void FenceStored();
  mlir::LogicalResult EmitSharedAlloc(tile::SharedAllocOp op);
  mlir::LogicalResult EmitSharedFree(tile::SharedFreeOp op);
  mlir::LogicalResult EmitSharedStore(tile::SharedStoreOp op);
  mlir::LogicalResult EmitSharedCopy(tile::SharedCopyOp op);
  mlir::LogicalResult EmitSharedWait(tile::SharedWaitOp op);
  mlir::LogicalResult EmitSharedDot(tile::SharedDotOp op);
  mlir::LogicalResult EmitDotWait(tile::DotWaitOp op);

  //===-- whole blocks (blocks.cc) ------------------------------------------------------------------===//
  mlir::LogicalResult EmitGather(tile::GatherOp op);
  mlir::LogicalResult EmitHistogram(tile::HistogramOp op);
  mlir::LogicalResult EmitSort(tile::SortOp op);

  mlir::func::FuncOp source_, target_;
  GpuOptions options_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  AxisInfoAnalysis axis_;
  mlir::Operation* head_ = nullptr;  // constants and thread numbers stand before it
  bool divergent_ = false;           // inside the body of a tile.map
  bool combine_failed_ = false;      // an operation of a combine region could not be emitted
  llvm::DenseSet<mlir::Value> shared_reads_;  // parameters (null: unknown) that several threads have read since a barrier
  bool stores_ = false;              // the kernel has plain stores
  bool writes_memory_ = false;       // the kernel has stores or atomic operations
  std::unordered_map<void*, Registers> values_;  // by Value: references stay good while it grows
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants_;
  std::map<std::vector<int32_t>, mlir::Value> thread_bits_;
  llvm::DenseMap<mlir::Value, SharedMap> put_;  // blocks of tile.shared_put
  mlir::Value thread_id_, lane_id_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_TILE_TO_SIMT_EMITTER_H_
