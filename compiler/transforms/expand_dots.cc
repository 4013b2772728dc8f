// expand-dots: products in precisions that no matrix unit has become products that it has.
//
// - fp32 as tf32x3, bf16x3, bf16x6: each operand is split into terms that the unit multiplies exactly, the small
//   corrections are summed first. Operands that are infinite have no correction.
// - sums in fp16: in fp32, rounded once.
// - 8-bit floats on GPUs without units for them, or in other formats than e4m3 and e5m2: as fp16, which holds them all.
//
//   %d = tile.dot %a, %b, %c, tf32x3
// becomes, with %ah the high part of %a and %al = %a - %ah,
//   %p = tile.dot %al, %bh, 0, tf32
//   %q = tile.dot %ah, %bl, %p, tf32
//   %r = tile.dot %ah, %bh, (%q or 0 where it is NaN), tf32
//   %d = %c + %r
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/gpu_transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {
namespace {

using namespace mlir;

class DotExpander {
 public:
  DotExpander(tile::DotOp dot, const GpuOptions& options) : dot_(dot), options_(options), b_(dot), loc_(dot.getLoc()) {}

  void Run() {
    Type element = Element(dot_.getA()), sum = Element(dot_.getC());
    const tile::Precision precision = dot_.getPrecision();
    if (sum.isF16() && isa<FloatType>(element) && !element.isF32() && !element.isF64()) {
      Value wide = Product(dot_.getA(), dot_.getB(), Widen(dot_.getC(), b_.getF32Type()), precision);
      return Replace(b_.create<arith::TruncFOp>(loc_, dot_.getType(), wide));
    }
    auto in_unit = [&](Type type) { return options_.sm >= 89 && isa<Float8E4M3FNType, Float8E5M2Type>(type); };
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8 && !(in_unit(element) && in_unit(Element(dot_.getB()))))
      return Replace(Product(ToHalf(dot_.getA()), ToHalf(dot_.getB()), dot_.getC(), precision));
    if (!element.isF32() || !sum.isF32()) return;
    if (precision == tile::Precision::TF32X3) Split(2, /*tf32=*/true);
    if (precision == tile::Precision::BF16X3) Split(2, /*tf32=*/false);
    if (precision == tile::Precision::BF16X6) Split(3, /*tf32=*/false);
  }

 private:
  static Type Element(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
  RankedTensorType Like(Value value, Type element) { return cast<RankedTensorType>(value.getType()).clone(element); }
  Value Widen(Value value, Type element) { return b_.create<arith::ExtFOp>(loc_, Like(value, element), value); }
  Value ToHalf(Value value) { return b_.create<tile::FpToFpOp>(loc_, Like(value, b_.getF16Type()), value, tile::Rounding::RTNE); }
  Value Splat(RankedTensorType type, Attribute value) { return b_.create<arith::ConstantOp>(loc_, SplatElementsAttr::get(type, value)); }
  Value Product(Value a, Value b, Value c, tile::Precision precision) {
    return b_.create<tile::DotOp>(loc_, c.getType(), a, b, c, precision, dot_.getMaxNumImpreciseAcc());
  }
  void Replace(Value value) {
    dot_.getResult().replaceAllUsesWith(value);
    dot_.erase();
  }

  // Terms whose sum is nearly the value, the largest first; in fp32 (tf32) or bf16.
  llvm::SmallVector<Value, 3> Terms(Value value, int count, bool tf32) {
    llvm::SmallVector<Value, 3> terms;
    for (int i = 0; i < count; ++i) {
      Value high, term;
      if (tf32) {
        auto bits = Like(value, b_.getI32Type());
        Value masked = b_.create<arith::AndIOp>(loc_, b_.create<arith::BitcastOp>(loc_, bits, value), Splat(bits, b_.getI32IntegerAttr(int32_t(0xffffe000))));
        term = high = b_.create<arith::BitcastOp>(loc_, value.getType(), masked);
      } else {
        term = b_.create<arith::TruncFOp>(loc_, Like(value, b_.getBF16Type()), value);
        high = Widen(term, b_.getF32Type());
      }
      terms.push_back(term);
      if (i + 1 < count) value = b_.create<arith::SubFOp>(loc_, value, high);
    }
    return terms;
  }

  void Split(int count, bool tf32) {
    llvm::SmallVector<Value, 3> a = Terms(dot_.getA(), count, tf32), b = Terms(dot_.getB(), count, tf32);
    llvm::SmallVector<std::pair<int, int>, 5> corrections = {{1, 0}, {0, 1}};
    if (count == 3) corrections = {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}};
    auto type = cast<RankedTensorType>(dot_.getC().getType());
    Value zero = Splat(type, b_.getF32FloatAttr(0)), sum = zero;
    for (auto [i, j] : corrections) sum = Product(a[i], b[j], sum, tile::Precision::TF32);
    Value number = b_.create<arith::CmpFOp>(loc_, arith::CmpFPredicate::ORD, sum, sum);
    sum = b_.create<arith::SelectOp>(loc_, number, sum, zero);
    sum = Product(a[0], b[0], sum, tile::Precision::TF32);
    Replace(b_.create<arith::AddFOp>(loc_, dot_.getC(), sum));
  }

  tile::DotOp dot_;
  const GpuOptions& options_;
  OpBuilder b_;
  Location loc_;
};

class ExpandDots : public PassWrapper<ExpandDots, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandDots)
  explicit ExpandDots(const GpuOptions& options) : options_(options) {}
  StringRef getArgument() const override { return "expand-dots"; }
  StringRef getDescription() const override { return "products in precisions that no matrix unit has, by ones that it has"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<arith::ArithDialect, tile::TileDialect>(); }
  void runOnOperation() override {
    llvm::SmallVector<tile::DotOp> dots;
    getOperation().walk([&](tile::DotOp dot) { dots.push_back(dot); });
    for (tile::DotOp dot : dots) DotExpander(dot, options_).Run();
  }

 private:
  GpuOptions options_;
};

}  // namespace

std::unique_ptr<Pass> CreateExpandDotsPass(const GpuOptions& options) { return std::make_unique<ExpandDots>(options); }

}  // namespace tessera::compiler
