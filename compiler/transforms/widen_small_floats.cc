// widen-small-floats: arithmetic on f16, bf16 and 8-bit floats becomes f32 arithmetic rounded after each operation.
//
// Storage, selection, bit casts and shape operations stay narrow; conversions from and to integers stay as they are
// (they round once).
//
//   %s = arith.addf %a, %b : tensor<64xf16>
// becomes
//   %0 = tile.fp_to_fp %a : tensor<64xf16> -> tensor<64xf32>
//   %1 = tile.fp_to_fp %b : tensor<64xf16> -> tensor<64xf32>
//   %2 = arith.addf %0, %1 : tensor<64xf32>
//   %s = tile.fp_to_fp %2 : tensor<64xf32> -> tensor<64xf16>
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

bool IsSmallFloat(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

Type WithElement(Type type, Type element) {
  if (auto tensor = dyn_cast<RankedTensorType>(type)) return tensor.clone(element);
  return element;
}

bool NeedsWidening(Operation* op) {
  if (auto dot = dyn_cast<tile::DotOp>(op)) return IsSmallFloat(dot.getType());
  bool arithmetic = isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) || isa<tile::ExternOp>(op);
  if (!arithmetic || isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp,
                         arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp>(op))
    return false;
  return llvm::any_of(op->getOperandTypes(), IsSmallFloat) || llvm::any_of(op->getResultTypes(), IsSmallFloat);
}

Value Widened(OpBuilder& builder, Location loc, Value value) {
  if (!IsSmallFloat(value.getType())) return value;
  Type wide = WithElement(value.getType(), builder.getF32Type());
  auto widen = [&](APFloat v) {
    bool loses;
    v.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
    return v;
  };
  Attribute attr;
  if (matchPattern(value, m_Constant(&attr))) {
    if (auto splat = dyn_cast<SplatElementsAttr>(attr))
      return builder.create<arith::ConstantOp>(
          loc, DenseElementsAttr::get(cast<ShapedType>(wide), widen(splat.getSplatValue<APFloat>())));
    if (auto scalar = dyn_cast<FloatAttr>(attr))
      return builder.create<arith::ConstantOp>(loc, builder.getFloatAttr(wide, widen(scalar.getValue())));
  }
  return builder.create<tile::FpToFpOp>(loc, wide, value);
}

void Widen(Operation* op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  // The operands of a dot are converted where they are packed.
  bool is_dot = isa<tile::DotOp>(op);
  for (OpOperand& operand : op->getOpOperands())
    if (!is_dot || operand.getOperandNumber() == 2) operand.set(Widened(builder, loc, operand.get()));
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    if (!IsSmallFloat(result.getType())) continue;
    Type narrow = result.getType();
    result.setType(WithElement(narrow, builder.getF32Type()));
    auto rounded = builder.create<tile::FpToFpOp>(loc, narrow, result);
    result.replaceAllUsesExcept(rounded, rounded);
  }
}

class WidenSmallFloats : public PassWrapper<WidenSmallFloats, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WidenSmallFloats)
  StringRef getArgument() const override { return "widen-small-floats"; }
  StringRef getDescription() const override { return "compute f16, bf16 and 8-bit floats in f32"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, tile::TileDialect>();
  }
  void runOnOperation() override {
    llvm::SmallVector<Operation*> ops;
    getOperation().walk([&](Operation* op) {
      if (NeedsWidening(op)) ops.push_back(op);
    });
    for (Operation* op : ops) Widen(op);
  }
};

}  // namespace

std::unique_ptr<Pass> CreateWidenSmallFloatsPass() { return std::make_unique<WidenSmallFloats>(); }

}  // namespace tessera::compiler
