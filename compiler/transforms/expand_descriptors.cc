// expand-descriptors: reads and writes through tensor descriptors become masked loads and stores of pointer blocks.
//
// Assumes that a descriptor is used where tile.make_desc is visible (the frontend passes its parts, never itself,
// through control flow). Targets that copy blocks by hardware keep descriptors instead.
//
//   %d = tile.make_desc %base, [%rows, %cols], [%stride, %one] : .. -> !tile.desc<[16, 32], f32>
//   %v = tile.desc_load %d[%i, %j]
// becomes, with r = %i + range(16) and c = %j + range(32),
//   %v = tile.load (%base + r * %stride + c * %one) mask (0 <= r < %rows and 0 <= c < %cols)
#include <limits>

#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

// Pointers and mask of one block of a described tensor.
struct Block {
  RankedTensorType type;
  Value pointers, inside;
};

class ExpandDescriptors : public PassWrapper<ExpandDescriptors, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandDescriptors)
  StringRef getArgument() const override { return "expand-descriptors"; }
  StringRef getDescription() const override { return "tensor descriptors as blocks of pointers"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, tile::TileDialect>();
  }

  void runOnOperation() override {
    llvm::SmallVector<Operation*> accesses, makers;
    getOperation().walk([&](Operation* op) {
      if (isa<tile::DescLoadOp, tile::DescStoreOp>(op)) accesses.push_back(op);
      if (isa<tile::MakeDescOp>(op)) makers.push_back(op);
    });
    for (Operation* op : accesses) {
      auto maker = op->getOperand(0).getDefiningOp<tile::MakeDescOp>();
      if (!maker) {
        op->emitError("not supported on the cpu: a tensor descriptor from another place than make_tensor_descriptor");
        return signalPassFailure();
      }
      if (auto load = dyn_cast<tile::DescLoadOp>(op)) RewriteLoad(load, maker);
      else RewriteStore(cast<tile::DescStoreOp>(op), maker);
    }
    for (Operation* op : makers)
      if (op->use_empty()) op->erase();
  }

 private:
  static Value Constant(OpBuilder& b, Location loc, Type type, int64_t value) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return b.create<arith::ConstantOp>(loc, DenseElementsAttr::get(tensor, APInt(tensor.getElementTypeBitWidth(), value, true)));
    return b.create<arith::ConstantOp>(loc, b.getIntegerAttr(type, value));
  }

  static Block Describe(OpBuilder& b, Location loc, tile::MakeDescOp desc, ValueRange indices) {
    auto desc_type = cast<tile::DescType>(desc.getType());
    ArrayRef<int64_t> shape = desc_type.getBlockShape();
    auto block = [&](Type element) { return RankedTensorType::get(shape, element); };
    Value offsets, inside;
    for (auto [d, extent] : llvm::enumerate(shape)) {
      auto line = RankedTensorType::get({extent}, b.getI32Type());
      Value at = b.create<tile::RangeOp>(loc, line, 0, int32_t(extent));
      at = b.create<arith::AddIOp>(loc, at, b.create<tile::SplatOp>(loc, line, indices[d]));
      Value limit = b.create<tile::SplatOp>(loc, line, desc.getShape()[d]);
      Value here = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, at, limit);
      here = b.create<arith::AndIOp>(loc, here, b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sge, at, Constant(b, loc, line, 0)));
      auto wide = line.clone(b.getI64Type());
      Value offset = b.create<arith::ExtSIOp>(loc, wide, at);
      offset = b.create<arith::MulIOp>(loc, offset, b.create<tile::SplatOp>(loc, wide, desc.getStrides()[d]));
      offset = Spread(b, loc, offset, d, shape);
      here = Spread(b, loc, here, d, shape);
      offsets = offsets ? b.create<arith::AddIOp>(loc, offsets, offset).getResult() : offset;
      inside = inside ? b.create<arith::AndIOp>(loc, inside, here).getResult() : here;
    }
    Value base = b.create<tile::SplatOp>(loc, block(desc.getBase().getType()), desc.getBase());
    return {block(desc_type.getElementType()), b.create<tile::AddPtrOp>(loc, base, offsets), inside};
  }

  // A line along dimension `dim`, repeated along the others.
  static Value Spread(OpBuilder& b, Location loc, Value line, int dim, ArrayRef<int64_t> shape) {
    Type element = cast<RankedTensorType>(line.getType()).getElementType();
    llvm::SmallVector<int64_t> now{shape[dim]};
    for (int d = 0; d < int(shape.size()); ++d) {
      if (d == dim) continue;
      now.insert(now.begin() + d, 1);
      line = b.create<tile::ExpandDimsOp>(loc, RankedTensorType::get(now, element), line, d);
    }
    return b.create<tile::BroadcastOp>(loc, RankedTensorType::get(shape, element), line);
  }

  static void RewriteLoad(tile::DescLoadOp load, tile::MakeDescOp desc) {
    OpBuilder b(load);
    Location loc = load.getLoc();
    Block block = Describe(b, loc, desc, load.getIndices());
    Value other;
    if (auto element = dyn_cast<FloatType>(block.type.getElementType()))
      if (desc.getNanPadding())
        other = b.create<arith::ConstantOp>(loc, DenseElementsAttr::get(block.type, APFloat::getNaN(element.getFloatSemantics())));
    auto made = b.create<tile::LoadOp>(loc, block.type, block.pointers, block.inside, other);
    // A block whose leading dimensions are 1 may be read as a block of lower rank.
    Value value = made.getResult();
    if (value.getType() != load.getType()) value = b.create<tile::ReshapeOp>(loc, load.getType(), value, false);
    load.replaceAllUsesWith(value);
    load.erase();
  }

  static void RewriteStore(tile::DescStoreOp store, tile::MakeDescOp desc) {
    OpBuilder b(store);
    Location loc = store.getLoc();
    Block block = Describe(b, loc, desc, store.getIndices());
    Value value = store.getValue();
    if (value.getType() != block.type) value = b.create<tile::ReshapeOp>(loc, block.type, value, false);
    if (auto kind = store.getReduceAttr()) {
      MLIRContext* context = store.getContext();
      b.create<tile::AtomicRmwOp>(loc, block.type, kind, block.pointers, value, block.inside,
                                  tile::MemSemAttr::get(context, tile::MemSem::RELAXED),
                                  tile::MemScopeAttr::get(context, tile::MemScope::GPU));
    } else {
      b.create<tile::StoreOp>(loc, block.pointers, value, block.inside);
    }
    store.erase();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateExpandDescriptorsPass() { return std::make_unique<ExpandDescriptors>(); }

}  // namespace tessera::compiler
