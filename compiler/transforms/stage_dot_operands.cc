// stage-dot-operands: products on matrix units read their operands from shared memory, ahead of time in loops.
//
// Runs behind assign-layouts. Where a loop reads an operand from global memory and the addresses do not depend on what the
// loop loads, the load becomes asynchronous copies into a ring of stages, so many iterations ahead as num_stages allows:
//
//   %r = scf.for %i = .. iter_args(%acc = .., %p = %start) {
//     %a = tile.load %p
//     %d = tile.dot %a, %b, %acc
//     scf.yield %d, tile.addptr(%p, %step)
//   }
// becomes (two iterations ahead)
//   %ring = tile.shared_alloc {synchronized} : !tile.shared<.., stages = 3>
//   tile.shared_copy %ring[0], %start mask (0 < n);  tile.shared_commit
//   tile.shared_copy %ring[1], %start + %step mask (1 < n);  tile.shared_commit
//   scf.for .. iter_args(%acc, %ahead = %start + 2 %step, %read = 0, %write = 2) {
//     tile.shared_wait 1
//     tile.shared_copy %ring[%write], %ahead mask (%i + 2 < n);  tile.shared_commit
//     %d = tile.shared_dot %ring[%read], .., %acc
//     ..
//   }
//   tile.shared_wait 0;  tile.shared_free %ring
// A stage is overwritten one barrier after its last reader at the earliest; with wgmma, which reads on while the next
// iteration runs, two: the ring has a stage more. A product of wgmma whose result is carried to the next iteration alone
// is waited for one iteration later. Then the copies may follow it behind a barrier of their own, into the stage that the
// product before has read: they run one stage further ahead in as much memory.
//
// Other operands of wgmma are stored to a stage of their own in front of the product; those of mma.sync stay in registers.
// TMA loads are to take the place of the copies, mbarriers that of the waits; warp specialisation splits the loop body at
// shared_wait.
#include "compiler/analysis/layouts/dot_layouts.h"
#include "compiler/analysis/layouts/matrix_layouts.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/gpu_transforms.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// An operand of a product as a block that is loaded: through transpositions and changes of layout.
struct LoadedOperand {
  tile::LoadOp load;
  bool transposed = false;
};

std::optional<LoadedOperand> FindLoad(Value operand) {
  LoadedOperand found;
  while (Operation* op = operand.getDefiningOp()) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      found.load = load;
      return found;
    }
    if (auto trans = dyn_cast<tile::TransOp>(op)) found.transposed = !found.transposed;
    else if (!isa<tile::ConvertLayoutOp>(op)) return std::nullopt;
    if (!op->getResult(0).hasOneUse()) return std::nullopt;
    operand = op->getOperand(0);
  }
  return std::nullopt;
}

// The dimension along which the load's threads read neighbouring elements.
int FastDimension(tile::LoadOp load) {
  tile::LinearLayout layout = *tile::LayoutOf(load.getType());
  int fast = layout.rank() - 1;
  int64_t widest = layout.VectorAlong(fast, 16).size;
  for (int d = 0; d < layout.rank(); ++d) {
    const int64_t size = layout.VectorAlong(d, 16).size;
    if (size > widest) {
      widest = size;
      fast = d;
    }
  }
  return fast;
}

tile::SharedType StageType(RankedTensorType type, int fast, int stages) {
  return tile::SharedType::get(type.getContext(), type.getShape(), type.getElementType(), fast, stages);
}

int64_t StageBytes(RankedTensorType type) { return std::max<int64_t>(1024, type.getNumElements() * (type.getElementTypeBitWidth() / 8)); }

Value I32(OpBuilder& b, Location loc, int64_t value) { return b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(int32_t(value))); }

std::optional<MatrixPlan> PlanOf(tile::DotOp dot, const GpuOptions& options) {
  return PlanOfLayout(dot.getA().getType(), dot.getB().getType(), dot.getC().getType(), dot.getPrecision(), options);
}

// A block in a stage of its own.
Value StageOf(OpBuilder& b, Location loc, Value value, int k_dim, const MatrixPlan& plan) {
  auto type = cast<RankedTensorType>(value.getType());
  tile::LinearLayout layout = *tile::LayoutOf(type);
  int fast = layout.VectorAlong(0, 16).size > layout.VectorAlong(1, 16).size ? 0 : 1;
  // wgmma reads operands that are not of 16 bits along k alone.
  if (plan.unit == MatrixUnit::kWgmma && plan.element_bytes != 2) fast = k_dim;
  Value stage = b.create<tile::SharedAllocOp>(loc, StageType(type, fast, 1), UnitAttr());
  b.create<tile::SharedStoreOp>(loc, stage, I32(b, loc, 0), value);
  return stage;
}

//===-- one loop ------------------------------------------------------------------------------------===//

class LoopPipeliner {
 public:
  LoopPipeliner(scf::ForOp loop, const GpuOptions& options) : loop_(loop), options_(options) {}

  // The dots that the pipeline took over; none: the loop is as it was.
  bool Run() {
    if (options_.num_stages < 2 || !FindLoads()) return false;
    FindAsynchronous();
    if (!ChooseDepth()) return false;
    Rewrite();
    return true;
  }

 private:
  struct Load {
    tile::LoadOp op;
    int fast = 0;
    Value ring;
  };
  struct Dot {
    tile::DotOp op;
    std::optional<unsigned> a, b;  // indices of loads
    bool a_transposed = false, b_transposed = false, asynchronous = false;
    MatrixPlan plan;
  };

  bool IsInside(Value value) { return loop_.getRegion().isAncestor(value.getParentRegion()); }

  // Adds what computes `value` from constants of the loop, the induction variable and carried values. False: it depends on
  // memory or on something else that cannot be computed ahead.
  bool AddSlice(Value value) {
    if (!IsInside(value)) return true;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() != loop_.getBody()) return false;
      if (argument == loop_.getInductionVar()) return true;
      const unsigned index = argument.getArgNumber() - 1;
      if (!ahead_args_.insert(index)) return true;
      return AddSlice(loop_.getYieldedValues()[index]);
    }
    Operation* op = value.getDefiningOp();
    if (op->getBlock() != loop_.getBody() || op->getNumRegions() != 0 || !isMemoryEffectFree(op) || isa<tile::DotOp>(op)) return false;
    if (!slice_.insert(op)) return true;
    for (Value operand : op->getOperands())
      if (!AddSlice(operand)) return false;
    return true;
  }

  bool AddLoad(tile::LoadOp load) {
    auto saved_slice = slice_;
    auto saved_args = ahead_args_;
    if (!load.getIsVolatile() && AddSlice(load.getPtr()) && (!load.getMask() || AddSlice(load.getMask()))) return true;
    slice_ = saved_slice;
    ahead_args_ = saved_args;
    return false;
  }

  // `other` of the load is absent or zero.
  static bool FillsWithZero(tile::LoadOp load) {
    Value other = load.getOther();
    while (other) {
      Operation* op = other.getDefiningOp();
      if (op && isa<tile::SplatOp, tile::ConvertLayoutOp, tile::BroadcastOp>(op)) {
        other = op->getOperand(0);
        continue;
      }
      auto constant = dyn_cast_or_null<arith::ConstantOp>(op);
      if (!constant) return false;
      Attribute value = constant.getValue();
      if (auto splat = dyn_cast<SplatElementsAttr>(value)) value = splat.getSplatValue<Attribute>();
      if (auto real = dyn_cast<FloatAttr>(value)) return real.getValue().isPosZero();
      if (auto integer = dyn_cast<IntegerAttr>(value)) return integer.getValue().isZero();
      return false;
    }
    return true;
  }

  // Loads must not move ahead of what may write where they read.
  bool HasOrder() {
    return loop_.getBody()
        ->walk([](Operation* op) {
          return isa<tile::BarrierOp, tile::AtomicRmwOp, tile::AtomicCasOp, tile::InlineAsmOp, func::CallOp>(op) && !isMemoryEffectFree(op)
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  }

  bool FindLoads() {
    if (HasOrder()) return false;
    for (auto dot : loop_.getBody()->getOps<tile::DotOp>()) {
      std::optional<MatrixPlan> plan = PlanOf(dot, options_);
      if (!plan || plan->rank != 2) continue;
      Dot found{dot, std::nullopt, std::nullopt, false, false, false, *plan};
      const size_t loads_before = loads_.size();
      auto stage = [&](Value operand, int k_dim, std::optional<unsigned>* index, bool* transposed) {
        std::optional<LoadedOperand> loaded = FindLoad(operand);
        if (!loaded || loaded->load->getBlock() != loop_.getBody() || !FillsWithZero(loaded->load)) return;
        const int fast = FastDimension(loaded->load);
        if (plan->unit == MatrixUnit::kWgmma && plan->element_bytes != 2 && (loaded->transposed ? 1 - fast : fast) != k_dim) return;
        for (auto [i, load] : llvm::enumerate(loads_))
          if (load.op == loaded->load) *index = unsigned(i);
        if (!*index) {
          if (!loaded->load.getResult().hasOneUse() || !AddLoad(loaded->load)) return;
          *index = unsigned(loads_.size());
          loads_.push_back({loaded->load, fast, Value()});
        }
        *transposed = loaded->transposed;
      };
      stage(dot.getB(), 0, &found.b, &found.b_transposed);
      if (plan->unit == MatrixUnit::kMma && !found.b) continue;  // an operand b in registers goes with an a in registers
      stage(dot.getA(), 1, &found.a, &found.a_transposed);
      if (found.a || found.b) dots_.push_back(found);
      else loads_.resize(loads_before);
    }
    return !loads_.empty();
  }

  bool ChooseDepth() {
    bool wgmma = llvm::any_of(dots_, [](Dot& dot) { return dot.plan.unit == MatrixUnit::kWgmma; });
    int64_t bytes = 0;
    for (Load& load : loads_) bytes += StageBytes(cast<RankedTensorType>(load.op.getType()));
    const int64_t reserve = 4096;  // for what the rest of the kernel does in shared memory
    distance_ = options_.num_stages - 1;
    // Three stages ahead are enough: where there is room for them, one barrier an iteration is better than two.
    copies_follow_ = dots_.size() == 1 && dots_[0].asynchronous && (distance_ < 3 || bytes * (distance_ + 2) > options_.shared_bytes - reserve);
    const int extra = wgmma && !copies_follow_ ? 2 : 1;
    while (distance_ > 1 && bytes * (distance_ + extra) > options_.shared_bytes - reserve) --distance_;
    stages_ = distance_ + extra;
    return bytes * stages_ <= options_.shared_bytes;
  }

  //===-- the new loop --------------------------------------------------------------------------===//

  // Copies of all loads into `stage`, with the addresses that `map` gives; only where `valid` holds.
  void EmitCopies(OpBuilder& b, IRMapping map, Value stage, Value valid) {
    for (Operation& op : *loop_.getBody())
      if (slice_.contains(&op)) b.clone(op, map);
    for (Load& load : loads_) {
      Location loc = load.op.getLoc();
      Value ptr = map.lookupOrDefault(load.op.getPtr()), mask;
      if (load.op.getMask()) mask = map.lookupOrDefault(load.op.getMask());
      auto type = cast<RankedTensorType>(ptr.getType());
      if (valid) {
        auto mask_type = RankedTensorType::get(type.getShape(), b.getI1Type(), type.getEncoding());
        Value all = b.create<tile::SplatOp>(loc, mask_type, valid);
        mask = mask ? b.create<arith::AndIOp>(loc, mask, all).getResult() : all;
      }
      b.create<tile::SharedCopyOp>(loc, load.ring, stage, ptr, mask, load.op.getCache(), load.op.getEvict());
    }
    b.create<tile::SharedCommitOp>(loop_.getLoc());
  }

  // Values of ahead_args_ one iteration later.
  llvm::SmallVector<Value> Advance(OpBuilder& b, IRMapping map) {
    for (Operation& op : *loop_.getBody())
      if (slice_.contains(&op)) b.clone(op, map);
    llvm::SmallVector<Value> next;
    for (unsigned index : ahead_args_) next.push_back(map.lookupOrDefault(loop_.getYieldedValues()[index]));
    return next;
  }

  IRMapping MapAhead(Value index, ArrayRef<Value> ahead) {
    IRMapping map;
    map.map(loop_.getInductionVar(), index);
    for (auto [arg, value] : llvm::zip(ahead_args_, ahead)) map.map(loop_.getRegionIterArgs()[arg], value);
    return map;
  }

  // Operations of the body that the new loop still needs, and carried values.
  void FindLive() {
    llvm::SmallVector<Value> open;
    Operation* yield = loop_.getBody()->getTerminator();
    auto keep_arg = [&](unsigned index) {
      if (live_args_.insert(index)) open.push_back(yield->getOperand(index));
    };
    for (unsigned i = 0; i < loop_.getNumRegionIterArgs(); ++i)
      if (!loop_.getResult(i).use_empty()) keep_arg(i);
    llvm::DenseSet<Operation*> staged;
    for (Load& load : loads_) staged.insert(load.op);
    auto keep_op = [&](Operation* op) {
      if (staged.contains(op) || !live_ops_.insert(op).second) return;
      if (auto dot = dyn_cast<tile::DotOp>(op)) {
        Dot* found = FindDot(dot);
        open.push_back(dot.getC());
        if (!found || !found->a) open.push_back(dot.getA());
        if (!found || !found->b) open.push_back(dot.getB());
        return;
      }
      open.append(op->operand_begin(), op->operand_end());
      op->walk([&](Operation* inner) { open.append(inner->operand_begin(), inner->operand_end()); });
    };
    for (Operation& op : loop_.getBody()->without_terminator())
      if (!isMemoryEffectFree(&op) && !isa<tile::LoadOp>(op)) keep_op(&op);
    while (!open.empty()) {
      Value value = open.pop_back_val();
      if (!IsInside(value)) continue;
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (argument.getOwner() == loop_.getBody() && argument != loop_.getInductionVar()) keep_arg(argument.getArgNumber() - 1);
        continue;
      }
      if (Operation* op = loop_.getBody()->findAncestorOpInBlock(*value.getDefiningOp())) keep_op(op);
    }
  }

  Dot* FindDot(tile::DotOp op) {
    for (Dot& dot : dots_)
      if (dot.op == op) return &dot;
    return nullptr;
  }

  void Rewrite() {
    Location loc = loop_.getLoc();
    OpBuilder b(loop_);
    for (Load& load : loads_) {
      auto alloc = b.create<tile::SharedAllocOp>(load.op.getLoc(), StageType(cast<RankedTensorType>(load.op.getType()), load.fast, stages_), b.getUnitAttr());
      load.ring = alloc;
    }
    Value lower = loop_.getLowerBound(), upper = loop_.getUpperBound(), step = loop_.getStep();
    Value index = lower;
    llvm::SmallVector<Value> ahead;
    for (unsigned arg : ahead_args_) ahead.push_back(loop_.getInitArgs()[arg]);
    for (int d = 0; d < distance_; ++d) {
      Value valid = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, index, upper);
      EmitCopies(b, MapAhead(index, ahead), I32(b, loc, d), valid);
      ahead = Advance(b, MapAhead(index, ahead));
      index = b.create<arith::AddIOp>(loc, index, step);
    }

    FindLive();
    llvm::SmallVector<Value> inits;
    for (unsigned arg : live_args_) inits.push_back(loop_.getInitArgs()[arg]);
    inits.append(ahead);
    inits.push_back(I32(b, loc, 0));
    inits.push_back(I32(b, loc, distance_ % stages_));
    auto wide = b.create<scf::ForOp>(loc, lower, upper, step, inits);
    wide->setDiscardableAttrs(loop_->getDiscardableAttrDictionary());
    ValueRange args = wide.getRegionIterArgs();
    llvm::SmallVector<Value> ahead_now(args.slice(live_args_.size(), ahead_args_.size()));
    Value read = args[args.size() - 2], write = args[args.size() - 1];

    if (!wide.getBody()->empty() && wide.getBody()->back().hasTrait<OpTrait::IsTerminator>()) wide.getBody()->back().erase();
    b.setInsertionPointToEnd(wide.getBody());
    b.create<tile::SharedWaitOp>(loc, distance_ - 1);
    Value ahead_index = wide.getInductionVar();
    for (int d = 0; d < distance_; ++d) ahead_index = b.create<arith::AddIOp>(loc, ahead_index, step);
    Value valid = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, ahead_index, upper);
    if (!copies_follow_) EmitCopies(b, MapAhead(ahead_index, ahead_now), write, valid);

    IRMapping map;
    map.map(loop_.getInductionVar(), wide.getInductionVar());
    for (auto [i, arg] : llvm::enumerate(live_args_)) map.map(loop_.getRegionIterArgs()[arg], args[i]);
    for (Operation& op : loop_.getBody()->without_terminator()) {
      if (!live_ops_.contains(&op)) continue;
      if (auto dot = dyn_cast<tile::DotOp>(op))
        if (Dot* staged = FindDot(dot)) {
          map.map(dot.getResult(), EmitDot(b, *staged, map, read));
          continue;
        }
      b.clone(op, map);
    }
    if (copies_follow_) {
      b.create<tile::SharedWaitOp>(loc, distance_);  // for the threads alone: no more groups are under way
      EmitCopies(b, MapAhead(ahead_index, ahead_now), write, valid);
    }
    llvm::SmallVector<Value> yields;
    for (unsigned arg : live_args_) yields.push_back(map.lookupOrDefault(loop_.getYieldedValues()[arg]));
    yields.append(Advance(b, MapAhead(ahead_index, ahead_now)));
    for (Value counter : {read, write}) {
      Value next = b.create<arith::AddIOp>(loc, counter, I32(b, loc, 1));
      Value wraps = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, next, I32(b, loc, stages_));
      yields.push_back(b.create<arith::SelectOp>(loc, wraps, I32(b, loc, 0), next));
    }
    b.create<scf::YieldOp>(loc, yields);

    b.setInsertionPointAfter(wide);
    for (auto [i, arg] : llvm::enumerate(live_args_)) {
      Value result = wide.getResult(i);
      for (Dot& dot : dots_)
        if (dot.asynchronous && loop_.getYieldedValues()[arg] == dot.op.getResult()) result = b.create<tile::DotWaitOp>(loc, result.getType(), 0, result);
      loop_.getResult(arg).replaceAllUsesWith(result);
    }
    b.create<tile::SharedWaitOp>(loc, 0);
    for (Load& load : loads_) b.create<tile::SharedFreeOp>(loc, load.ring);
    loop_.erase();
  }

  // A product whose result is carried and used by nothing else runs on while the next iteration begins.
  void FindAsynchronous() {
    if (dots_.size() != 1 || dots_[0].plan.unit != MatrixUnit::kWgmma) return;
    Dot& dot = dots_[0];
    auto argument = dyn_cast<BlockArgument>(dot.op.getC());
    if (!argument || argument.getOwner() != loop_.getBody() || !argument.hasOneUse() || !dot.op.getResult().hasOneUse() || !dot.a || !dot.b) return;
    const unsigned index = argument.getArgNumber() - 1;
    if (loop_.getYieldedValues()[index] != dot.op.getResult()) return;
    if (dot.plan.element_bytes == 1 && dot.op.getMaxNumImpreciseAcc() > 0 && dot.op.getMaxNumImpreciseAcc() < dot.plan.k) return;
    dot.asynchronous = true;
  }

  Value EmitDot(OpBuilder& b, Dot& dot, const IRMapping& map, Value read) {
    Location loc = dot.op.getLoc();
    Value a, a_ring, a_stage, b_ring, b_stage;
    if (dot.a) {
      a_ring = loads_[*dot.a].ring;
      a_stage = read;
    } else {
      a = map.lookupOrDefault(dot.op.getA());
    }
    llvm::SmallVector<Value> owned;
    auto own_stage = [&](Value value, int k_dim) { return owned.emplace_back(StageOf(b, loc, value, k_dim, dot.plan)); };
    if (a && *tile::LayoutOf(a.getType()) != dot.plan.a) {
      a_ring = own_stage(a, 1);
      a_stage = I32(b, loc, 0);
      a = Value();
    }
    if (dot.b) {
      b_ring = loads_[*dot.b].ring;
      b_stage = read;
    } else {
      b_ring = own_stage(map.lookupOrDefault(dot.op.getB()), 0);
      b_stage = I32(b, loc, 0);
    }
    Value c = map.lookupOrDefault(dot.op.getC());
    Value result = b.create<tile::SharedDotOp>(loc, c.getType(), a, a_ring, a_stage, b_ring, b_stage, c, dot.op.getPrecision(), dot.op.getMaxNumImpreciseAcc(),
                                               dot.a && dot.a_transposed, dot.b && dot.b_transposed, dot.asynchronous);
    for (Value stage : owned) b.create<tile::SharedFreeOp>(loc, stage);
    if (dot.asynchronous) result = b.create<tile::DotWaitOp>(loc, result.getType(), 1, result);
    return result;
  }

  scf::ForOp loop_;
  const GpuOptions& options_;
  int distance_ = 1, stages_ = 2;
  bool copies_follow_ = false;  // they stand behind the product
  std::vector<Load> loads_;
  std::vector<Dot> dots_;
  llvm::SetVector<Operation*> slice_;
  llvm::SetVector<unsigned> ahead_args_, live_args_;
  llvm::DenseSet<Operation*> live_ops_;
};

//===-- the pass ------------------------------------------------------------------------------------===//

// Operands of wgmma outside of pipelines go through a stage of their own.
void StageInPlace(tile::DotOp dot, const MatrixPlan& plan) {
  OpBuilder b(dot);
  Location loc = dot.getLoc();
  llvm::SmallVector<Value> stages;
  auto stage = [&](Value value, int k_dim) { return stages.emplace_back(StageOf(b, loc, value, k_dim, plan)); };
  Value a = dot.getA(), a_stage, b_stage = stage(dot.getB(), 0), zero = I32(b, loc, 0);
  if (*tile::LayoutOf(a.getType()) != plan.a) {
    a_stage = stage(a, 1);
    a = Value();
  }
  Value result = b.create<tile::SharedDotOp>(loc, dot.getType(), a, a_stage, a_stage ? zero : Value(), b_stage, zero, dot.getC(), dot.getPrecision(),
                                             dot.getMaxNumImpreciseAcc(), false, false, false);
  for (Value made : stages) b.create<tile::SharedFreeOp>(loc, made);
  dot.getResult().replaceAllUsesWith(result);
  dot.erase();
}

class StageDotOperands : public PassWrapper<StageDotOperands, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StageDotOperands)
  explicit StageDotOperands(const GpuOptions& options) : options_(options) {}
  StringRef getArgument() const override { return "stage-dot-operands"; }
  StringRef getDescription() const override { return "operands of products in shared memory, ahead of time in loops"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto threads = function->getAttrOfType<IntegerAttr>("simt.threads");
    if (!threads) return;
    GpuOptions options = options_;
    options.num_warps = int(threads.getInt() / 32);
    llvm::SmallVector<scf::ForOp> loops;
    function.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) LoopPipeliner(loop, options).Run();
    llvm::SmallVector<tile::DotOp> dots;
    function.walk([&](tile::DotOp dot) { dots.push_back(dot); });
    for (tile::DotOp dot : dots) {
      std::optional<MatrixPlan> plan = PlanOf(dot, options);
      if (!plan) continue;
      if (plan->unit == MatrixUnit::kWgmma) {
        StageInPlace(dot, *plan);
        continue;
      }
      // Operands that no pipeline took are converted to fragments.
      OpBuilder b(dot);
      auto convert = [&](OpOperand& operand, const tile::LinearLayout& layout) {
        auto type = tile::WithLayout(operand.get().getType(), layout);
        if (operand.get().getType() != type) operand.set(b.create<tile::ConvertLayoutOp>(dot.getLoc(), type, operand.get()));
      };
      convert(dot->getOpOperand(0), plan->a);
      convert(dot->getOpOperand(1), plan->b);
    }
  }

 private:
  GpuOptions options_;
};

}  // namespace

std::unique_ptr<Pass> CreateStageDotOperandsPass(const GpuOptions& options) { return std::make_unique<StageDotOperands>(options); }

}  // namespace tessera::compiler
