// order-sums: sums are added in the order in which Triton's threads add them on an NVIDIA GPU.
//
// The order decides the value of an fp16 or bf16 sum, and the last bits of an fp32 one. A block is spread over threads as
// Triton spreads what it loads: up to 16 bytes of consecutive elements a thread, 32 threads a warp, the warps, and what
// is left goes round again. Each thread adds its elements from first to last; the lanes of a warp are folded in halves,
// then the warps. A product that is summed is fused with the first addition. Leaves blocks that have more elements than
// the limits alone.
//
//   %s = tile.reduce(%x) axis 0 : (tensor<8xf32>) -> f32      (one element a thread)
// becomes
//   %0 = tile.reshape %x : tensor<8xf32> -> tensor<1x2x4xf32>
//   %1 = tile.reduce(%0) axis 1 : (tensor<1x2x4xf32>) -> tensor<1x4xf32>
//   ... two more folds, and tile.unsplat
#include <algorithm>
#include <optional>

#include "compiler/analysis/axis_info.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

using namespace mlir;
using Shape = llvm::SmallVector<int64_t, 4>;

// More registers than these are added without fusing: each is an operation of its own.
constexpr int64_t kMostFusedRegisters = 8;

RankedTensorType BlockType(Value v) { return cast<RankedTensorType>(v.getType()); }

bool IsPlainSum(tile::ReduceOp reduce) {
  if (reduce.getSources().size() != 1 || reduce.getOrdered()) return false;
  Block& body = reduce.getCombine().front();
  auto add = dyn_cast<arith::AddFOp>(&body.front());
  return add && body.back().getOperand(0) == add.getResult() && add.getLhs() != add.getRhs() &&
         isa<BlockArgument>(add.getLhs()) && isa<BlockArgument>(add.getRhs());
}

// Whether the product, or an equal one, has another use than its sum.
bool IsNeededElsewhere(arith::MulFOp product) {
  return !product->hasOneUse() || llvm::any_of(product.getLhs().getUsers(), [&](Operation* user) {
    return user != product && isa<arith::MulFOp>(user) && user->getOperands() == product->getOperands();
  });
}

// How many elements, lanes and warps of a block lie along each dimension.
struct Spread {
  Shape elements, lanes, warps;
};

Spread SpreadOver(ArrayRef<int64_t> shape, int fastest, int64_t elements, int64_t num_warps) {
  Spread spread;
  for (Shape* part : {&spread.elements, &spread.lanes, &spread.warps}) part->assign(shape.size(), 1);
  spread.elements[fastest] = elements;
  llvm::SmallVector<int, 4> order = {fastest};
  for (int d = int(shape.size()) - 1; d >= 0; --d)
    if (d != fastest) order.push_back(d);
  int64_t lanes = 32, warps = num_warps, threads = lanes * warps;
  for (int d : order) {
    bool last = d == order.back();
    int64_t wanted = std::clamp<int64_t>(shape[d] / spread.elements[d], 1, threads);
    spread.lanes[d] = last ? lanes : std::min(wanted, lanes);
    spread.warps[d] = last ? warps : std::clamp<int64_t>(wanted / spread.lanes[d], 1, warps);
    lanes /= spread.lanes[d];
    warps /= spread.warps[d];
    threads /= wanted;
  }
  return spread;
}

class OrderSums : public PassWrapper<OrderSums, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrderSums)
  OrderSums() = default;
  OrderSums(const OrderSums& other) : PassWrapper(other) {}
  explicit OrderSums(const OrderSumsOptions& options) {
    most_elements_ = options.most_elements;
    most_small_elements_ = options.most_small_elements;
  }
  StringRef getArgument() const override { return "order-sums"; }
  StringRef getDescription() const override { return "add in the order of a GPU's threads"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<math::MathDialect>(); }

  void runOnOperation() override {
    auto warps = getOperation()->getAttrOfType<IntegerAttr>("tile.num_warps");
    num_warps_ = warps ? warps.getInt() : 4;
    fuse_ = !getOperation()->hasAttr("tile.no_fp_fusion");
    if (num_warps_ < 1 || (num_warps_ & (num_warps_ - 1)) != 0) return;
    llvm::SmallVector<tile::ReduceOp> sums;
    getOperation().walk([&](tile::ReduceOp reduce) {
      if (!IsPlainSum(reduce)) return;
      RankedTensorType type = BlockType(reduce.getSources()[0]);
      bool small = type.getElementTypeBitWidth() < 32;
      if (type.getDimSize(reduce.getAxis()) > 1 && type.getNumElements() <= (small ? most_small_elements_ : most_elements_))
        sums.push_back(reduce);
    });
    if (sums.empty()) return;
    AxisInfoAnalysis axis(getOperation());
    for (tile::ReduceOp sum : sums) Order(sum, axis);
  }

 private:
  // The dimension along which loads of this shape are contiguous, and the elements of it that a thread loads at once.
  std::pair<int, int64_t> Vector(ArrayRef<int64_t> shape, const AxisInfoAnalysis& axis) {
    int fastest = int(shape.size()) - 1;
    int64_t elements = 1, most = 1;
    getOperation().walk([&](tile::LoadOp load) {
      auto type = dyn_cast<RankedTensorType>(load.getPtr().getType());
      if (!type || type.getShape() != shape) return;
      AxisInfo info = axis.Get(load.getPtr());
      int64_t bytes = std::max(1u, cast<tile::PtrType>(type.getElementType()).getPointee().getIntOrFloatBitWidth() / 8);
      for (int d = 0; d < int(shape.size()); ++d) {
        if (info.contiguity[d] <= most && !(d == fastest && info.contiguity[d] == most)) continue;
        most = info.contiguity[d];
        fastest = d;
        elements = std::max(elements, std::clamp<int64_t>(std::min(info.contiguity[d], info.divisibility[d] / bytes), 1, 16 / bytes));
      }
    });
    int64_t total = 1;
    for (int64_t extent : shape) total *= extent;
    return {fastest, std::min(elements, std::max<int64_t>(1, total / (32 * num_warps_)))};
  }

  void Order(tile::ReduceOp reduce, const AxisInfoAnalysis& axis_info) {
    OpBuilder builder(reduce);
    b_ = &builder;
    reduce_ = reduce;
    location_ = reduce.getLoc();
    Value source = reduce.getSources()[0];
    ArrayRef<int64_t> shape = BlockType(source).getShape();
    size_t axis = reduce.getAxis();
    auto [fastest, elements] = Vector(shape, axis_info);
    Spread spread = SpreadOver(shape, fastest, elements, num_warps_);
    before_.assign(shape.begin(), shape.begin() + axis);
    after_.assign(shape.begin() + axis + 1, shape.end());

    int64_t extent = shape[axis];
    int64_t low = std::min(spread.elements[axis], extent);
    int64_t lanes = std::min(spread.lanes[axis], extent / low);
    int64_t warps = std::min(spread.warps[axis], extent / (low * lanes));
    int64_t threads = lanes * warps, registers = extent / threads;

    auto product = fuse_ ? source.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    Value sum = source;
    if (registers > 1) {
      // A product that is needed elsewhere too is not fused here: it exists.
      bool fused = product && !IsNeededElsewhere(product) && registers <= kMostFusedRegisters;
      sum = fused ? SumOfProducts(product, low, threads, registers) : SumInThread(source, low, threads, registers);
      product = nullptr;
    }
    for (int64_t width = lanes; width > 1; width /= 2) {
      sum = Fold(sum, product, threads / lanes, width);
      product = nullptr;
    }
    for (int64_t width = warps; width > 1; width /= 2) {
      sum = Fold(sum, product, 1, width);
      product = nullptr;
    }
    if (isa<RankedTensorType>(reduce.getResult()[0].getType())) {
      sum = Reshape(sum, Around({}));
    } else {
      sum = b_->create<tile::UnsplatOp>(*location_, reduce.getResult()[0].getType(), sum);
    }
    reduce.getResult()[0].replaceAllUsesWith(sum);
    reduce.erase();
    auto old_product = source.getDefiningOp<arith::MulFOp>();
    if (old_product && old_product->use_empty()) old_product.erase();
  }

  // The other dimensions with `middle` in place of the axis.
  Shape Around(ArrayRef<int64_t> middle) const {
    Shape shape = before_;
    shape.append(middle.begin(), middle.end());
    shape.append(after_.begin(), after_.end());
    return shape;
  }

  Value Reshape(Value v, ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, BlockType(v).getElementType());
    return type == v.getType() ? v : b_->create<tile::ReshapeOp>(*location_, type, v, /*allow_reorder=*/UnitAttr()).getResult();
  }

  // Moves `count` dimensions from `first` on to the end.
  Value MoveLast(Value v, int first, int count) {
    ArrayRef<int64_t> shape = BlockType(v).getShape();
    llvm::SmallVector<int32_t> order;
    for (int d = 0; d < int(shape.size()); ++d)
      if (d < first || d >= first + count) order.push_back(d);
    for (int d = first; d < first + count; ++d) order.push_back(d);
    Shape permuted;
    for (int32_t d : order) permuted.push_back(shape[d]);
    auto type = RankedTensorType::get(permuted, BlockType(v).getElementType());
    return b_->create<tile::TransOp>(*location_, type, v, b_->getDenseI32ArrayAttr(order));
  }

  // The elements of each thread, in its order, as a last dimension.
  Value ByThread(Value v, int64_t low, int64_t threads, int64_t registers) {
    // The axis is [rounds][threads][low]; a thread takes [rounds][low].
    v = Reshape(v, Around({registers / low, threads, low}));
    v = MoveLast(v, int(before_.size()) + 2, 1);
    int rounds = int(before_.size());
    ArrayRef<int64_t> shape = BlockType(v).getShape();
    llvm::SmallVector<int32_t> order;  // rounds go before the last dimension
    for (int d = 0; d < int(shape.size()) - 1; ++d)
      if (d != rounds) order.push_back(d);
    order.push_back(rounds);
    order.push_back(int(shape.size()) - 1);
    Shape permuted;
    for (int32_t d : order) permuted.push_back(shape[d]);
    v = b_->create<tile::TransOp>(*location_, RankedTensorType::get(permuted, BlockType(v).getElementType()), v, b_->getDenseI32ArrayAttr(order));
    Shape merged = Around({threads});
    merged.push_back(registers);
    return Reshape(v, merged);
  }

  Value ReduceAlong(Value v, int axis, bool ordered) {
    Shape shape(BlockType(v).getShape());
    shape.erase(shape.begin() + axis);
    auto type = RankedTensorType::get(shape, BlockType(v).getElementType());
    auto part = b_->create<tile::ReduceOp>(*location_, TypeRange{type}, ValueRange{v}, uint32_t(axis), ordered);
    IRMapping mapping;
    reduce_.getCombine().cloneInto(&part.getCombine(), mapping);
    return part.getResult()[0];
  }

  Value SumInThread(Value v, int64_t low, int64_t threads, int64_t registers) {
    Value mine = ByThread(v, low, threads, registers);
    return ReduceAlong(mine, int(BlockType(mine).getRank()) - 1, /*ordered=*/true);
  }

  // The slices along the last dimension.
  void Slices(Value v, llvm::SmallVectorImpl<Value>* slices) {
    Shape shape(BlockType(v).getShape());
    int64_t extent = shape.pop_back_val();
    if (extent == 1) {
      slices->push_back(Reshape(v, shape));
      return;
    }
    // Even and odd ones, each in order.
    shape.push_back(extent / 2);
    Shape pairs = shape;
    pairs.push_back(2);
    auto half = RankedTensorType::get(shape, BlockType(v).getElementType());
    auto split = b_->create<tile::SplitOp>(*location_, half, half, Reshape(v, pairs));
    llvm::SmallVector<Value> even, odd;
    Slices(split.getLhs(), &even);
    Slices(split.getRhs(), &odd);
    for (auto [a, b] : llvm::zip(even, odd)) {
      slices->push_back(a);
      slices->push_back(b);
    }
  }

  Value SumOfProducts(arith::MulFOp product, int64_t low, int64_t threads, int64_t registers) {
    llvm::SmallVector<Value> a, b;
    Slices(ByThread(product.getLhs(), low, threads, registers), &a);
    Slices(ByThread(product.getRhs(), low, threads, registers), &b);
    Value sum = b_->create<arith::MulFOp>(*location_, a[1], b[1]);
    sum = b_->create<math::FmaOp>(*location_, a[0], b[0], sum);
    for (int64_t i = 2; i < registers; ++i) sum = b_->create<math::FmaOp>(*location_, a[i], b[i], sum);
    return sum;
  }

  // Adds the upper half of each run of `width` to the lower one.
  Value Fold(Value v, arith::MulFOp product, int64_t runs, int64_t width) {
    auto halves = [&](Value whole) { return Reshape(whole, Around({runs, 2, width / 2})); };
    int axis = int(before_.size()) + 1;
    Value sum;
    if (product) {
      Value low[2], high[2];
      for (int i : {0, 1}) {
        Value pairs = MoveLast(halves(product->getOperand(i)), axis, 1);
        auto half = RankedTensorType::get(Around({runs, width / 2}), BlockType(v).getElementType());
        auto split = b_->create<tile::SplitOp>(*location_, half, half, pairs);
        low[i] = split.getLhs();
        high[i] = split.getRhs();
      }
      sum = b_->create<math::FmaOp>(*location_, low[0], low[1], b_->create<arith::MulFOp>(*location_, high[0], high[1]).getResult());
    } else {
      sum = ReduceAlong(halves(v), axis, /*ordered=*/false);
    }
    return Reshape(sum, Around({runs * width / 2}));
  }

  Option<int64_t> most_elements_{*this, "most-elements", llvm::cl::init(1048576)};
  Option<int64_t> most_small_elements_{*this, "most-small-elements", llvm::cl::init(1048576)};

  int64_t num_warps_ = 4;
  bool fuse_ = true;
  OpBuilder* b_ = nullptr;
  tile::ReduceOp reduce_;
  std::optional<Location> location_;
  Shape before_, after_;
};

}  // namespace

std::unique_ptr<Pass> CreateOrderSumsPass(const OrderSumsOptions& options) { return std::make_unique<OrderSums>(options); }

}  // namespace tessera::compiler
