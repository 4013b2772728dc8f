// store-in-slices: what follows a product, up to its store, becomes a loop over slices of rows.
//
// A thread holds 64 and more elements of a large product. Written out for each of them, scaling, bias, activation and
// store are most of the code, and most of the time that it takes to assemble. The accumulators must go through shared
// memory anyway to be stored in rows; here they do so as they are, and the rest is done on what a loop reads back.
//
//   %y = math.erf %acc : tensor<128x256xf32>            // %acc: a product
//   tile.store %p, %y mask %m
// becomes (8 rows a slice)
//   %b = tile.shared_put %acc
//   scf.for %i = 0 to 16 {
//     %s = tile.shared_slice %b[%i] : tensor<8x256xf32>
//     %t = math.erf %s
//     tile.store [pointers and mask of rows 8 i to 8 i + 7], %t
//   }
//   tile.shared_free %b
//
// Runs in front of assign-layouts, on a store of at least kLeastElements a thread whose rows lie along dimension 1. What
// pointers, mask and value are made of lane by lane is computed in the loop; where it comes from anything else (a product, a
// load, a reduction), that is put to shared memory, if there is room.
#include "compiler/analysis/layouts/layout_plan.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/gpu_transforms.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

constexpr int64_t kLeastElements = 64;  // of a thread, for a loop to pay
constexpr int64_t kSliceElements = 8;   // of a thread in one slice: 16 bytes of a 16-bit type
constexpr int64_t kLeastSlices = 4;

RankedTensorType TensorType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

int64_t BytesOf(Type element) { return isa<tile::PtrType>(element) ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8); }

bool IsProduct(Value value) {
  Operation* op = value.getDefiningOp();
  if (isa_and_nonnull<tile::DotOp>(op)) return true;
  if (!isa_and_nonnull<scf::ForOp, scf::WhileOp>(op)) return false;
  return op->walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

class StoreSlicer {
 public:
  StoreSlicer(tile::StoreOp store, const GpuOptions& options, const AxisInfoAnalysis& axis) : store_(store), options_(options), axis_(axis) {}

  // False: the store is as it was.
  bool Run() {
    if (!ChooseSlices() || !FindLeaves()) return false;
    Rewrite();
    return true;
  }

 private:
  bool ChooseSlices() {
    RankedTensorType type = TensorType(store_.getValue());
    if (!type || type.getRank() != 2) return false;
    const int64_t threads = 32 * options_.num_warps, columns = type.getShape()[1];
    extent_ = type.getShape()[0];
    if (type.getNumElements() < kLeastElements * threads) return false;
    rows_ = std::clamp<int64_t>(threads * kSliceElements / columns, 1, extent_);
    if (extent_ / rows_ < kLeastSlices) return false;
    const AxisInfo pointers = axis_.Get(store_.getPtr());
    return pointers.contiguity[1] > pointers.contiguity[0];
  }

  // Whether dimension 0 of `value`, a part of what is stored, are the rows.
  bool HasRows(Value value) const {
    RankedTensorType type = TensorType(value);
    return type && type.getRank() > 0 && type.getShape()[0] == extent_;
  }

  bool IsSliced(Operation* op) const {
    if (!op) return false;
    if (isa<tile::RangeOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp>(op)) return true;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) return isa<SplatElementsAttr>(constant.getValue());
    return KeepsLayout(op) && op->getBlock() == store_->getBlock() && isMemoryEffectFree(op) && op->getNumResults() == 1 &&
           op->getNumRegions() == 0 && !isa<tile::InlineAsmOp>(op);
  }

  void Visit(Value value) {
    Operation* op = value.getDefiningOp();
    if (!IsSliced(op) || kept_.contains(op)) {
      leaves_.insert(value);
      return;
    }
    if (!chain_.insert(op)) return;
    for (Value operand : op->getOperands())
      if (HasRows(operand)) Visit(operand);
  }

  // What others compute with too is computed once; but for addresses and masks.
  bool KeepShared() {
    bool found = false;
    for (Operation* op : chain_) {
      if (op->getNumOperands() == 0 || !isa<FloatType>(TensorType(op->getResult(0)).getElementType())) continue;
      if (isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp>(op)) continue;
      for (Operation* user : op->getUsers())
        if (user != store_ && !chain_.contains(user)) found |= kept_.insert(op).second;
    }
    return found;
  }

  // A product, or what is computed of one lane by lane.
  bool ComesFromProduct(Value value, llvm::DenseSet<Operation*>* seen) const {
    if (IsProduct(value)) return true;
    Operation* op = value.getDefiningOp();
    return IsSliced(op) && seen->insert(op).second &&
           llvm::any_of(op->getOperands(), [&](Value operand) { return ComesFromProduct(operand, seen); });
  }

  bool FindLeaves() {
    do {
      chain_.clear();
      leaves_.clear();
      for (Value operand : store_->getOperands()) Visit(operand);
    } while (KeepShared());
    int64_t bytes = 0;
    for (Value leaf : leaves_) bytes += TensorType(leaf).getNumElements() * BytesOf(TensorType(leaf).getElementType());
    llvm::DenseSet<Operation*> seen;
    return llvm::any_of(leaves_, [&](Value leaf) { return ComesFromProduct(leaf, &seen); }) && bytes <= int64_t{options_.shared_bytes} * 5 / 8;
  }

  RankedTensorType SliceOf(Type type) const {
    auto tensor = cast<RankedTensorType>(type);
    llvm::SmallVector<int64_t, 2> shape(tensor.getShape());
    shape[0] = rows_;
    return RankedTensorType::get(shape, tensor.getElementType());
  }

  // Rows index * rows_ and following of `value`.
  Value Slice(OpBuilder& b, Value value) {
    if (Value made = slices_.lookup(value)) return made;
    Operation* op = value.getDefiningOp();
    RankedTensorType type = SliceOf(value.getType());
    Location loc = value.getLoc();
    Value result;
    if (auto buffer = buffers_.find(value); buffer != buffers_.end()) {
      result = b.create<tile::SharedSliceOp>(loc, type, buffer->second, index_);
    } else if (auto range = dyn_cast<tile::RangeOp>(op)) {
      Value first = b.create<tile::RangeOp>(loc, type, range.getStart(), range.getStart() + int32_t(rows_));
      result = b.create<arith::AddIOp>(loc, first, b.create<tile::SplatOp>(loc, type, first_row_));
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      result = b.create<arith::ConstantOp>(loc, cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type));
    } else {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        if (HasRows(operand)) mapping.map(operand, Slice(b, operand));
      Operation* clone = b.clone(*op, mapping);
      clone->getResult(0).setType(type);
      if (auto hint = dyn_cast<tile::HintOp>(clone)) ForgetRows(hint);
      result = clone->getResult(0);
    }
    return slices_[value] = result;
  }

  // Promises about all rows do not hold for a slice of them.
  static void ForgetRows(tile::HintOp hint) {
    auto forget = [&](std::optional<ArrayRef<int64_t>> promised, auto set) {
      if (!promised) return;
      llvm::SmallVector<int64_t, 2> values(*promised);
      values[0] = 1;
      set(values);
    };
    forget(hint.getDivisibility(), [&](ArrayRef<int64_t> values) { hint.setDivisibility(values); });
    forget(hint.getContiguity(), [&](ArrayRef<int64_t> values) { hint.setContiguity(values); });
    forget(hint.getConstancy(), [&](ArrayRef<int64_t> values) { hint.setConstancy(values); });
  }

  void Rewrite() {
    OpBuilder b(store_);
    Location loc = store_.getLoc();
    for (Value leaf : leaves_) {
      RankedTensorType type = TensorType(leaf);
      auto shared = tile::SharedType::get(b.getContext(), type.getShape(), type.getElementType(), int(type.getRank()) - 1, 1);
      buffers_[leaf] = b.create<tile::SharedPutOp>(loc, shared, leaf);
    }
    auto number = [&](int64_t value) -> Value { return b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(int32_t(value))); };
    auto loop = b.create<scf::ForOp>(loc, number(0), number(extent_ / rows_), number(1));
    for (Value leaf : llvm::reverse(leaves_)) b.create<tile::SharedFreeOp>(loc, buffers_[leaf]);
    index_ = loop.getInductionVar();
    b.setInsertionPointToStart(loop.getBody());
    first_row_ = b.create<arith::MulIOp>(loc, index_, number(rows_));
    IRMapping mapping;
    for (Value operand : store_->getOperands()) mapping.map(operand, Slice(b, operand));
    b.clone(*store_, mapping);
    store_->erase();
    for (bool erased = true; erased;) {
      erased = false;
      for (Operation* op : llvm::to_vector(chain_)) {
        if (!op->use_empty()) continue;
        chain_.remove(op);
        op->erase();
        erased = true;
      }
    }
  }

  tile::StoreOp store_;
  const GpuOptions& options_;
  const AxisInfoAnalysis& axis_;
  int64_t extent_ = 0, rows_ = 0;  // of all, of a slice
  llvm::SetVector<Operation*> chain_;
  llvm::SetVector<Value> leaves_;
  llvm::DenseSet<Operation*> kept_;  // computed outside of the loop
  llvm::DenseMap<Value, Value> buffers_, slices_;
  Value index_, first_row_;
};

class StoreInSlices : public PassWrapper<StoreInSlices, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StoreInSlices)
  explicit StoreInSlices(const GpuOptions& options) : options_(options) { num_warps_ = options.num_warps; }
  StoreInSlices(const StoreInSlices& other) : PassWrapper(other), options_(other.options_) { num_warps_ = other.options_.num_warps; }
  StringRef getArgument() const override { return "store-in-slices"; }
  StringRef getDescription() const override { return "large products are finished and stored in a loop over their rows"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<arith::ArithDialect, scf::SCFDialect>(); }
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    GpuOptions options = options_;
    options.num_warps = num_warps_;
    llvm::SmallVector<tile::StoreOp> stores;
    function.walk([&](tile::StoreOp store) { stores.push_back(store); });
    if (stores.empty() || !function.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted()) return;
    AxisInfoAnalysis axis(function, AxisInfoAnalysis::Remainders::kUnsigned);
    for (tile::StoreOp store : stores) StoreSlicer(store, options, axis).Run();
  }

 private:
  GpuOptions options_;
  Option<int> num_warps_{*this, "num-warps", llvm::cl::desc("warps of a block"), llvm::cl::init(4)};
};

}  // namespace

std::unique_ptr<Pass> CreateStoreInSlicesPass(const GpuOptions& options) { return std::make_unique<StoreInSlices>(options); }

}  // namespace tessera::compiler
