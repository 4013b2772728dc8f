// assign-layouts: every tensor type gets the layout that the layout plan chose, and tile.convert_layout stands where a
// user wants another one.
//
// Values that float in the plan are computed anew, right behind the original, for each layout that is asked for. So are
// values that a few cheap operations make of one other value that is no wider: that one alone is converted.
//
//   %r = tile.range : tensor<256xi32>
//   %p = tile.addptr %splat, %r
//   %x = tile.load %p
// becomes, with #a = #tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>,
//   %r = tile.range : tensor<256xi32, #a>
//   %p = tile.addptr %splat, %r : tensor<256x!tile.ptr<f32>, #a>, ..
//   %x = tile.load %p : .. -> tensor<256xf32, #a>
#include "compiler/analysis/layouts/layout_plan.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/gpu_transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler {
namespace {

using namespace mlir;
using Layout = tile::LinearLayout;

bool IsTensor(Type type) { return isa<RankedTensorType>(type); }

// Rewrites one function by its plan.
class Rewriter {
 public:
  Rewriter(func::FuncOp function, const LayoutPlan& plan) : function_(function), plan_(plan) {}

  LogicalResult Run() {
    function_.walk<WalkOrder::PreOrder>([&](Operation* op) {
      ops_.push_back(op);
      return isa<tile::ReduceOp, tile::ScanOp, tile::MapOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
    for (Operation* op : ops_) {
      for (Value result : op->getResults()) SetType(result);
      for (Region& region : op->getRegions())
        for (Block& block : region)
          for (Value argument : block.getArguments()) SetType(argument);
    }
    for (Operation* op : ops_)
      if (IsCheap(op)) originals_[op] = llvm::SmallVector<Value>(op->getOperands());
    for (Operation* op : ops_) {
      if (op->hasTrait<OpTrait::IsTerminator>() || isa<scf::ForOp, scf::IfOp, scf::WhileOp>(op) || Floats(op)) continue;
      llvm::SmallVector<Value> operands(op->getOperands());
      for (auto [i, operand] : llvm::enumerate(operands))
        if (IsTensor(operand.getType())) operand = Materialise(operand, plan_.Demand(op, i));
      op->setOperands(operands);
    }
    for (const LayoutPlan::Carried& carried : plan_.carried())
      for (OpOperand* source : carried.sources) source->set(Materialise(source->get(), *plan_.Home(carried.targets[0])));
    for (Operation* op : llvm::reverse(ops_)) {
      if (!Floats(op)) continue;
      if (!op->use_empty()) return op->emitOpError("is used where no layout is known");
      op->erase();
    }
    return success();
  }

 private:
  bool Floats(Operation* op) const {
    return op->getNumResults() > 0 && IsTensor(op->getResult(0).getType()) && !plan_.Home(op->getResult(0));
  }

  static bool IsCheap(Operation* op) {
    return KeepsLayout(op) && isMemoryEffectFree(op) && op->getNumRegions() == 0 && op->getNumResults() == 1 &&
           !isa<arith::DivFOp, arith::RemFOp, tile::ExternOp, tile::InlineAsmOp>(op) && op->getDialect()->getNamespace() != "math";
  }

  // Whether cheap operations, at most kLongestChain, make `value` of one value with a home, and which.
  bool FindSource(Value value, Value* source, int* operations) const {
    if (!plan_.Home(value)) return true;
    Operation* op = value.getDefiningOp();
    auto original = op ? originals_.find(op) : originals_.end();
    if (original == originals_.end() || *operations >= kLongestChain) {
      if (*source && *source != value) return false;
      *source = value;
      return true;
    }
    ++*operations;
    for (Value operand : original->second)
      if (IsTensor(operand.getType()) && !FindSource(operand, source, operations)) return false;
    return true;
  }

  bool IsMadeCheaply(Value value) const {
    Value source;
    int operations = 0;
    if (!FindSource(value, &source, &operations) || !source || source == value) return false;
    auto bits = [](Value v) {
      Type element = cast<RankedTensorType>(v.getType()).getElementType();
      return isa<tile::PtrType>(element) ? 64u : element.getIntOrFloatBitWidth();
    };
    return bits(source) <= bits(value);
  }

  void SetType(Value value) {
    if (auto home = plan_.Home(value)) value.setType(tile::WithLayout(value.getType(), *home));
  }

  Value Convert(Value value, RankedTensorType type) {
    OpBuilder b(function_.getContext());
    b.setInsertionPointAfterValue(value);
    return b.create<tile::ConvertLayoutOp>(value.getLoc(), type, value);
  }

  // `value` in a layout.
  Value Materialise(Value value, const Layout& layout) {
    RankedTensorType type = tile::WithLayout(value.getType(), layout);
    if (value.getType() == type) return value;
    auto key = std::make_pair(value, type.getEncoding());
    if (auto made = made_.find(key); made != made_.end()) return made->second;
    Operation* op = value.getDefiningOp();
    if (plan_.Home(value) && !IsMadeCheaply(value)) return made_[key] = Convert(value, type);
    if (isa<tile::LoadOp>(op)) {
      // Read once, in the layout of its first user.
      auto [first, is_first] = loads_.try_emplace(value, layout);
      if (!is_first) {
        Layout read_in = first->second;
        return made_[key] = Convert(Materialise(value, read_in), type);
      }
    }
    Layout feasible = plan_.Home(value) ? layout : plan_.Feasible(value, layout);
    if (feasible != layout) return made_[key] = Convert(Materialise(value, feasible), type);
    auto original = originals_.find(op);
    llvm::SmallVector<Value> operands(original == originals_.end() ? llvm::SmallVector<Value>(op->getOperands()) : original->second);
    for (auto [i, operand] : llvm::enumerate(operands))
      if (IsTensor(operand.getType())) operand = Materialise(operand, plan_.Demand(op, i, &layout));
    Operation* clone = op->clone();
    clone->setOperands(operands);
    OpBuilder b(function_.getContext());
    b.setInsertionPointAfter(op);
    b.insert(clone);
    for (auto [original, result] : llvm::zip(op->getResults(), clone->getResults())) {
      RankedTensorType result_type = tile::WithLayout(result.getType(), layout);
      result.setType(result_type);
      made_[{original, result_type.getEncoding()}] = result;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(clone)) {
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      constant.setValueAttr(elements.isSplat() ? elements.resizeSplat(type) : elements.reshape(type));
    }
    return made_[key];
  }

  static constexpr int kLongestChain = 8;

  func::FuncOp function_;
  const LayoutPlan& plan_;
  std::vector<Operation*> ops_;
  llvm::DenseMap<Operation*, llvm::SmallVector<Value>> originals_;  // operands of cheap operations as they were
  llvm::DenseMap<std::pair<Value, Attribute>, Value> made_;
  llvm::DenseMap<Value, Layout> loads_;
};

class AssignLayouts : public PassWrapper<AssignLayouts, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AssignLayouts)
  explicit AssignLayouts(const GpuOptions& options) : options_(options) { num_warps_ = options.num_warps; }
  AssignLayouts(const AssignLayouts& other) : PassWrapper(other), options_(other.options_) { num_warps_ = other.options_.num_warps; }
  StringRef getArgument() const override { return "assign-layouts"; }
  StringRef getDescription() const override { return "give every tensor the layout that it is computed in"; }
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr("tile.kernel")) return;
    GpuOptions options = options_;
    options.num_warps = num_warps_;
    function->setAttr("simt.threads", IntegerAttr::get(IntegerType::get(function.getContext(), 32), 32 * options.num_warps));
    LayoutPlan plan(function, options);
    if (failed(Rewriter(function, plan).Run())) signalPassFailure();
  }

 private:
  GpuOptions options_;
  Option<int> num_warps_{*this, "num-warps", llvm::cl::desc("warps of a block"), llvm::cl::init(4)};
};

}  // namespace

std::unique_ptr<Pass> CreateAssignLayoutsPass(const GpuOptions& options) { return std::make_unique<AssignLayouts>(options); }

}  // namespace tessera::compiler
