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

class InsertBarriers : public PassWrapper<InsertBarriers, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InsertBarriers)
  StringRef getArgument() const override { return "insert-barriers"; }
  StringRef getDescription() const override { return "barriers between conflicting accesses to shared memory"; }

  void runOnOperation() override {
    if (!getOperation()->hasAttr("simt.kernel")) return;
    Pending pending;
    VisitBlock(getOperation().getBody().front(), &pending);
  }

 private:
  void VisitBlock(Block& block, Pending* pending) {
    for (Operation& op : block) VisitOp(&op, pending);
  }

  void VisitOp(Operation* op, Pending* pending) {
    if (isa<simt::BarrierOp>(op)) {
      pending->clear();
      return;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Pending other = *pending;
      VisitBlock(*branch.thenBlock(), pending);
      if (branch.elseBlock()) VisitBlock(*branch.elseBlock(), &other);
      pending->insert(other.begin(), other.end());
      return;
    }
    if (isa<scf::ForOp, scf::WhileOp>(op)) {
      // What the end of one round leaves open meets the start of the next.
      Pending entry = *pending;
      for (bool grown = true; grown;) {
        Pending round = entry;
        Pending after_condition;
        for (Region& region : op->getRegions()) {
          VisitBlock(region.front(), &round);
          if (&region == &op->getRegion(0)) after_condition = round;
        }
        size_t before = entry.size();
        entry.insert(round.begin(), round.end());
        grown = entry.size() != before;
        // A while loop ends after its condition, a for loop perhaps before its first round.
        *pending = isa<scf::WhileOp>(op) ? after_condition : entry;
      }
      return;
    }
    for (Region& region : op->getRegions())
      for (Block& block : region) VisitBlock(block, pending);
    llvm::SmallVector<Access, 2> accesses = AccessesOf(op);
    for (const Access& access : accesses) {
      bool conflict = llvm::any_of(*pending, [&](const Access& earlier) { return Conflict(earlier, access); });
      if (!conflict) continue;
      OpBuilder(op).create<simt::BarrierOp>(op->getLoc());
      pending->clear();
      break;
    }
    pending->insert(accesses.begin(), accesses.end());
  }
};

}  // namespace

std::unique_ptr<Pass> CreateInsertBarriersPass() { return std::make_unique<InsertBarriers>(); }

}  // namespace tessera::compiler
