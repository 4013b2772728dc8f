// insert-barriers: simt.barrier wherever a thread could meet another's access to the same shared memory out of order.
//
// Runs after allocate-shared. An access conflicts with an earlier one since the last barrier if their buffers overlap and
// - one reads and the other writes, or
// - both write, through different buffers that share a place, or one of them atomically.
// Writes to one buffer without a read between them are one phase: their elements differ. Accesses marked "simt.ordered"
// (asynchronous copies whose pass places its own barriers) are left alone.
//
//   simt.store_shared %b[%i], %x
//   %y = simt.load_shared %b[%j]
// becomes
//   simt.store_shared %b[%i], %x
//   simt.barrier
//   %y = simt.load_shared %b[%j]
#include <set>

#include "compiler/dialect/simt/simt.h"
#include "compiler/transforms/gpu_transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

enum class Kind { kRead, kWrite, kAtomic };
using Access = std::pair<Operation*, Kind>;  // of the buffer made by simt.alloc_shared
using Pending = std::set<Access>;

std::pair<int64_t, int64_t> Extent(Operation* alloc) {
  auto op = cast<simt::AllocSharedOp>(alloc);
  int64_t offset = op.getOffset().value_or(0);
  return {offset, offset + op.getBytes()};
}

bool Conflict(const Access& a, const Access& b) {
  if (a.second == Kind::kRead && b.second == Kind::kRead) return false;
  if (a.second == b.second && a.first == b.first) return false;
  auto [a0, a1] = Extent(a.first);
  auto [b0, b1] = Extent(b.first);
  return a0 < b1 && b0 < a1;
}

llvm::SmallVector<Access, 2> AccessesOf(Operation* op) {
  llvm::SmallVector<Access, 2> accesses;
  if (isa<simt::AllocSharedOp, simt::FreeSharedOp>(op) || op->hasAttr("simt.ordered")) return accesses;
  Kind kind = isa<simt::AtomicSharedOp>(op)                                              ? Kind::kAtomic
              : isa<simt::StoreSharedOp, simt::StmatrixOp, simt::CopyAsyncOp>(op) ? Kind::kWrite
                                                                                         : Kind::kRead;
  for (Value operand : op->getOperands())
    if (isa<simt::BufferType>(operand.getType())) accesses.push_back({operand.getDefiningOp(), kind});
  return accesses;
}

// Accesses since the last barrier, and those of the loop body at hand that no barrier of its own precedes.
struct State {
  Pending pending, exposed;
  bool barred = false;  // a barrier has been met in the body

  void Bar() {
    pending.clear();
    barred = true;
  }
  void Add(const Access& access) {
    pending.insert(access);
    if (!barred) exposed.insert(access);
  }
  bool ConflictsWith(const Access& access) const {
    return llvm::any_of(pending, [&](const Access& earlier) { return Conflict(earlier, access); });
  }
};

class InsertBarriers : public PassWrapper<InsertBarriers, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InsertBarriers)
  StringRef getArgument() const override { return "insert-barriers"; }
  StringRef getDescription() const override { return "barriers between conflicting accesses to shared memory"; }

  void runOnOperation() override {
    if (!getOperation()->hasAttr("simt.kernel")) return;
    State state;
    VisitBlock(getOperation().getBody().front(), &state);
  }

 private:
  void VisitBlock(Block& block, State* state) {
    for (Operation& op : block) VisitOp(&op, state);
  }

  void VisitLoop(Operation* op, State* state) {
    // The body on its own: what the end of one round leaves open meets the start of the next.
    State body;
    Pending at_exit;
    for (bool grown = true; grown;) {
      State round;
      round.pending = body.pending;
      for (Region& region : op->getRegions()) {
        VisitBlock(region.front(), &round);
        // A while loop ends after its condition.
        if (&region == &op->getRegion(0) || isa<scf::ForOp>(op)) at_exit = round.pending;
      }
      size_t before = body.pending.size();
      body.pending.insert(round.pending.begin(), round.pending.end());
      grown = body.pending.size() != before;
      body.exposed = round.exposed;
      body.barred = round.barred;
    }
    // What came before the loop: one barrier in front of it rather than one in each round.
    if (llvm::any_of(body.exposed, [&](const Access& access) { return state->ConflictsWith(access); })) {
      OpBuilder(op).create<simt::BarrierOp>(op->getLoc());
      state->Bar();
    }
    for (const Access& access : body.exposed) state->Add(access);
    state->pending.insert(at_exit.begin(), at_exit.end());
  }

  void VisitOp(Operation* op, State* state) {
    if (isa<simt::BarrierOp>(op)) return state->Bar();
    if (isa<scf::ForOp, scf::WhileOp>(op)) return VisitLoop(op, state);
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      State other = *state;
      VisitBlock(*branch.thenBlock(), state);
      if (branch.elseBlock()) VisitBlock(*branch.elseBlock(), &other);
      state->pending.insert(other.pending.begin(), other.pending.end());
      state->exposed.insert(other.exposed.begin(), other.exposed.end());
      state->barred &= other.barred;
      return;
    }
    for (Region& region : op->getRegions())
      for (Block& block : region) VisitBlock(block, state);
    llvm::SmallVector<Access, 2> accesses = AccessesOf(op);
    if (llvm::any_of(accesses, [&](const Access& access) { return state->ConflictsWith(access); })) {
      OpBuilder(op).create<simt::BarrierOp>(op->getLoc());
      state->Bar();
    }
    for (const Access& access : accesses) state->Add(access);
  }
};

}  // namespace

std::unique_ptr<Pass> CreateInsertBarriersPass() { return std::make_unique<InsertBarriers>(); }

}  // namespace tessera::compiler
