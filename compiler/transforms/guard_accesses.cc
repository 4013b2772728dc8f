// guard-accesses: every access to global memory is checked against the extents of the bound buffers.
//
// The kernel gets two more parameters for each of its pointer parameters ("simt.pointer" on the argument), in their order and behind
// all others: the first address of the buffer and the one behind its last. An access whose address comes from a pointer
// parameter must lie in that buffer, any other in one of them. Where it does not, it is left out and reported; loads give
// `other` or 0 there.
//
//   %x = simt.load %a if %p : f32
// becomes
//   %in = %a >= %begin and %a + 4 <= %end
//   simt.report access, "load of 4 bytes", %a if (%p and not %in)
//   %x = simt.load %a if (%p and %in) : f32
#include "compiler/dialect/simt/simt.h"
#include "compiler/transforms/gpu_transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

struct Extent {
  Value pointer, begin, end;
};

class GuardAccesses : public PassWrapper<GuardAccesses, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GuardAccesses)
  StringRef getArgument() const override { return "guard-accesses"; }
  StringRef getDescription() const override { return "check global accesses against the extents of buffers"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr("simt.kernel") || function->hasAttr("simt.guarded")) return;
    function->setAttr("simt.guarded", UnitAttr::get(function.getContext()));
    Type i64 = IntegerType::get(function.getContext(), 64);
    llvm::SmallVector<Extent> extents;
    for (unsigned i = 0, count = function.getNumArguments(); i < count; ++i) {
      if (!function.getArgAttr(i, "simt.pointer")) continue;
      for (int k = 0; k < 2; ++k) function.insertArgument(function.getNumArguments(), i64, {}, function.getLoc());
      unsigned last = function.getNumArguments() - 1;
      extents.push_back({function.getArgument(i), function.getArgument(last - 1), function.getArgument(last)});
    }
    llvm::SmallVector<Operation*> accesses;
    function.walk([&](Operation* op) {
      if (isa<simt::LoadOp, simt::StoreOp, simt::AtomicRmwOp, simt::AtomicCasOp, simt::CopyAsyncOp>(op)) accesses.push_back(op);
    });
    for (Operation* op : accesses) {
      if (auto load = dyn_cast<simt::LoadOp>(op)) Guard(op, load.getAddress(), load.getPredicateMutable(), load.getType(), "load", extents);
      if (auto store = dyn_cast<simt::StoreOp>(op)) Guard(op, store.getAddress(), store.getPredicateMutable(), store.getValue().getType(), "store", extents);
      if (auto rmw = dyn_cast<simt::AtomicRmwOp>(op)) Guard(op, rmw.getAddress(), rmw.getPredicateMutable(), rmw.getType(), "atomic operation", extents);
      if (auto cas = dyn_cast<simt::AtomicCasOp>(op)) Guard(op, cas.getAddress(), cas.getPredicateMutable(), cas.getType(), "atomic operation", extents);
      if (auto copy = dyn_cast<simt::CopyAsyncOp>(op)) GuardBytes(op, copy.getAddress(), copy.getPredicateMutable(), copy.getBytes(), "load", extents);
    }
  }

 private:
  // The parameter that an address was computed from, through additions.
  static Value Root(Value address) {
    while (auto sum = address.getDefiningOp<arith::AddIOp>()) {
      Value lhs = Root(sum.getLhs());
      return lhs ? lhs : Root(sum.getRhs());
    }
    auto argument = dyn_cast<BlockArgument>(address);
    return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? address : nullptr;
  }

  static void Guard(Operation* op, Value address, MutableOperandRange predicate, Type type, StringRef what, ArrayRef<Extent> extents) {
    int64_t elements = 1;
    if (auto vector = dyn_cast<VectorType>(type)) elements = vector.getNumElements();
    GuardBytes(op, address, predicate, elements * std::max<int64_t>(1, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8), what, extents);
  }

  static void GuardBytes(Operation* op, Value address, MutableOperandRange predicate, int64_t bytes, StringRef what, ArrayRef<Extent> extents) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    Value root = Root(address), size = b.create<arith::ConstantOp>(loc, b.getI64IntegerAttr(bytes)), inside;
    bool known = llvm::any_of(extents, [&](const Extent& extent) { return extent.pointer == root; });
    Value last = b.create<arith::AddIOp>(loc, address, size);
    for (const Extent& extent : extents) {
      if (known && extent.pointer != root) continue;
      Value here = b.create<arith::AndIOp>(loc, b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::uge, address, extent.begin),
                                           b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ule, last, extent.end));
      inside = inside ? b.create<arith::OrIOp>(loc, inside, here).getResult() : here;
    }
    Value yes = b.create<arith::ConstantOp>(loc, b.getBoolAttr(true));
    if (!inside) inside = b.create<arith::ConstantOp>(loc, b.getBoolAttr(false));
    Value outside = b.create<arith::XOrIOp>(loc, inside, yes), taken = inside;
    if (!predicate.empty()) {
      Value wanted = predicate[0].get();
      outside = b.create<arith::AndIOp>(loc, outside, wanted);
      taken = b.create<arith::AndIOp>(loc, inside, wanted);
    }
    b.create<simt::ReportOp>(loc, outside, address, simt::FailureKind::ACCESS, (what + " of " + Twine(bytes) + " bytes").str());
    predicate.assign(taken);
  }
};

}  // namespace

std::unique_ptr<Pass> CreateGuardAccessesPass() { return std::make_unique<GuardAccesses>(); }

}  // namespace tessera::compiler
