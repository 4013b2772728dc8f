#include "compiler/analysis/layouts/matrix_layouts.h"

#include <algorithm>

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

using namespace mlir;
using tile::LinearLayout;
using Bases = LinearLayout::Bases;

namespace {

// Collects basis vectors of a block [batch, rows, columns]; steps outside of it are zero.
class Fragment {
 public:
  explicit Fragment(ArrayRef<int64_t> shape) : shape_(shape) {}
  void Rows(LinearLayout::Input input, int64_t step, int64_t count) { Add(input, step, count, rank() - 2); }
  void Columns(LinearLayout::Input input, int64_t step, int64_t count) { Add(input, step, count, rank() - 1); }
  void Batches(LinearLayout::Input input) {
    if (rank() == 3) Add(input, 1, shape_[0], 0);
  }
  void Nothing(LinearLayout::Input input, int64_t count) {
    for (int64_t i = 1; i < count; i *= 2) bases_[input].push_back(0);
  }
  LinearLayout Build() { return LinearLayout(shape_, bases_); }

 private:
  int rank() const { return int(shape_.size()); }
  // Steps `step`, 2 `step`, ... `count` elements in all.
  void Add(LinearLayout::Input input, int64_t step, int64_t count, int dim) {
    int64_t stride = 1;
    for (int d = rank() - 1; d > dim; --d) stride *= shape_[d];
    for (int64_t i = 1; i < count; i *= 2) bases_[input].push_back(step * i < shape_[dim] ? int32_t(step * i * stride) : 0);
  }
  ArrayRef<int64_t> shape_;
  std::array<Bases, LinearLayout::kInputs> bases_;
};

constexpr auto kRegister = LinearLayout::kRegister;
constexpr auto kLane = LinearLayout::kLane;
constexpr auto kWarp = LinearLayout::kWarp;

// Rows of one instruction over all warps; the next tile of a warp lies behind it.
LinearLayout AccumulatorLayout(const MatrixPlan& plan, ArrayRef<int64_t> shape) {
  Fragment f(shape);
  f.Columns(kRegister, 1, 2);
  if (plan.instruction_m > 8) f.Rows(kRegister, 8, 2);
  f.Columns(kRegister, 8, plan.instruction_n / 8);
  f.Columns(kLane, 2, 4);
  f.Rows(kLane, 1, 8);
  const int64_t warp_rows = plan.unit == MatrixUnit::kWgmma ? 16 : plan.instruction_m;
  if (plan.unit == MatrixUnit::kWgmma) f.Rows(kWarp, 16, 4);
  f.Columns(kWarp, plan.instruction_n, plan.warps_n);
  f.Rows(kWarp, plan.unit == MatrixUnit::kWgmma ? 64 : warp_rows, plan.groups_m());
  f.Columns(kRegister, plan.instruction_n * plan.warps_n, plan.tiles_n());
  f.Rows(kRegister, warp_rows * plan.warps_m, plan.tiles_m());
  f.Batches(kRegister);
  return f.Build();
}

LinearLayout ALayout(const MatrixPlan& plan, ArrayRef<int64_t> shape) {
  Fragment f(shape);
  const int64_t per = plan.element_bytes >= 4 ? 1 : 4 / plan.element_bytes;  // elements of a register
  f.Columns(kRegister, 1, per);
  if (plan.instruction_m > 8) f.Rows(kRegister, 8, 2);
  f.Columns(kRegister, 4 * per, plan.instruction_k / (4 * per));
  f.Columns(kLane, per, 4);
  f.Rows(kLane, 1, 8);
  const int64_t warp_rows = plan.unit == MatrixUnit::kWgmma ? 16 : plan.instruction_m;
  if (plan.unit == MatrixUnit::kWgmma) f.Rows(kWarp, 16, 4);
  f.Nothing(kWarp, plan.warps_n);
  f.Rows(kWarp, plan.unit == MatrixUnit::kWgmma ? 64 : warp_rows, plan.groups_m());
  f.Columns(kRegister, plan.instruction_k, plan.steps_k());
  f.Rows(kRegister, warp_rows * plan.warps_m, plan.tiles_m());
  f.Batches(kRegister);
  return f.Build();
}

LinearLayout BLayout(const MatrixPlan& plan, ArrayRef<int64_t> shape) {
  Fragment f(shape);
  const int64_t per = plan.element_bytes >= 4 ? 1 : 4 / plan.element_bytes;
  f.Rows(kRegister, 1, per);
  f.Rows(kRegister, 4 * per, plan.instruction_k / (4 * per));
  f.Rows(kLane, per, 4);
  f.Columns(kLane, 1, 8);
  f.Columns(kWarp, 8, plan.warps_n);
  f.Nothing(kWarp, plan.warps_m);
  f.Rows(kRegister, plan.instruction_k, plan.steps_k());
  f.Columns(kRegister, 8 * plan.warps_n, plan.tiles_n());
  f.Batches(kRegister);
  return f.Build();
}

bool IsElementwise(Operation* op) {
  return op->hasTrait<OpTrait::Elementwise>() || isa<tile::FpToFpOp, tile::ConvertLayoutOp>(op);
}

// Whether a block is computed, without leaving its elements' places, from the result of another product.
bool ComesFromDot(Value value, tile::DotOp except, int depth) {
  if (depth == 0) return false;
  Operation* op = value.getDefiningOp();
  if (!op) return false;
  if (isa<tile::DotOp>(op)) return op != except;
  if (!IsElementwise(op)) return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return isa<RankedTensorType>(operand.getType()) && ComesFromDot(operand, except, depth - 1); });
}

}  // namespace

bool IsComputedFromDot(tile::DotOp dot) {
  constexpr int kDepth = 12;
  return ComesFromDot(dot.getA(), dot, kDepth);
}

bool IsChained(tile::DotOp dot) {
  if (IsComputedFromDot(dot)) return true;
  bool feeds = false;
  dot->getParentOfType<func::FuncOp>()->walk([&](tile::DotOp other) {
    if (other == dot) return;
    // Whether this very product is reached.
    llvm::SmallVector<Value> open = {other.getA()};
    for (int steps = 0; !open.empty() && steps < 64 && !feeds; ++steps) {
      Operation* op = open.pop_back_val().getDefiningOp();
      if (!op) continue;
      if (op == dot.getOperation()) feeds = true;
      else if (IsElementwise(op))
        for (Value operand : op->getOperands())
          if (isa<RankedTensorType>(operand.getType())) open.push_back(operand);
    }
  });
  return feeds;
}

std::optional<MatrixPlan> PlanMatrixProduct(Type a, Type b, Type c, tile::Precision precision, bool rows_first, const GpuOptions& options) {
  auto a_type = cast<RankedTensorType>(a), b_type = cast<RankedTensorType>(b), c_type = cast<RankedTensorType>(c);
  MatrixPlan plan;
  plan.rank = int(c_type.getRank());
  if (plan.rank == 3) plan.batch = c_type.getDimSize(0);
  plan.m = c_type.getDimSize(plan.rank - 2);
  plan.n = c_type.getDimSize(plan.rank - 1);
  plan.k = a_type.getDimSize(plan.rank - 1);

  Type element = a_type.getElementType(), sum = c_type.getElementType();
  const bool fp8 = isa<Float8E4M3FNType, Float8E5M2Type>(element) && isa<Float8E4M3FNType, Float8E5M2Type>(b_type.getElementType());
  bool known = false;
  if (element.isF16() || element.isBF16()) known = sum.isF32();
  else if (element.isF32()) known = sum.isF32() && precision == tile::Precision::TF32;
  else if (fp8) known = sum.isF32() && options.sm >= 89;
  else if (element.isInteger(8)) known = sum.isInteger(32);
  else if (element.isF64()) known = sum.isF64();
  if (!known || options.sm < 80) return std::nullopt;
  plan.element_bytes = int(element.getIntOrFloatBitWidth() / 8);
  plan.instruction_k = 32 / plan.element_bytes;
  if (element.isF64()) {
    plan.instruction_m = 8;
    plan.instruction_k = 4;
  }
  if (plan.k < plan.instruction_k) return std::nullopt;

  const int64_t warps = options.num_warps;
  if (options.wgmma && plan.rank == 2 && warps % 4 == 0 && plan.m >= 64 && plan.n >= 8 && !element.isF64()) {
    plan.unit = MatrixUnit::kWgmma;
    plan.instruction_m = 64;
    int64_t groups_m = 1, groups_n = 1;
    while (groups_m * groups_n < warps / 4) {
      if (plan.m >= 128 * groups_m) groups_m *= 2;
      else if (plan.n >= 16 * groups_n && !rows_first) groups_n *= 2;
      else break;
    }
    if (groups_m * groups_n == warps / 4) {
      plan.warps_m = 4 * groups_m;
      plan.warps_n = groups_n;
      plan.instruction_n = std::min<int64_t>(plan.n / groups_n, 256);
      // A thread's accumulators of one instruction stay within its registers.
      plan.c = AccumulatorLayout(plan, c_type.getShape());
      plan.a = ALayout(plan, a_type.getShape());
      return plan;
    }
    plan.unit = MatrixUnit::kMma;
    plan.instruction_m = 16;
  }
  while (plan.warps_m * plan.warps_n < warps) {
    const int64_t rows = plan.m / plan.warps_m, columns = plan.n / plan.warps_n;
    const bool can_m = rows >= 2 * plan.instruction_m, can_n = columns >= 2 * plan.instruction_n;
    if (can_m && (rows_first || !can_n || rows >= columns)) plan.warps_m *= 2;
    else if (can_n || !can_m) plan.warps_n *= 2;
  }
  plan.c = AccumulatorLayout(plan, c_type.getShape());
  plan.a = ALayout(plan, a_type.getShape());
  plan.b = BLayout(plan, b_type.getShape());
  return plan;
}

std::optional<MatrixPlan> PlanOfLayout(Type a, Type b, Type c, tile::Precision precision, const GpuOptions& options) {
  auto layout = tile::LayoutOf(c);
  if (!layout) return std::nullopt;
  for (bool wgmma : {true, false}) {
    if (wgmma && !options.wgmma) continue;
    GpuOptions restricted = options;
    restricted.wgmma = wgmma;
    for (bool rows_first : {false, true}) {
      std::optional<MatrixPlan> plan = PlanMatrixProduct(a, b, c, precision, rows_first, restricted);
      if (plan && plan->c == *layout) return plan;
    }
  }
  return std::nullopt;
}

std::optional<MatrixPlan> PlanMatrixProduct(tile::DotOp dot, const GpuOptions& options) {
  return PlanMatrixProduct(dot.getA().getType(), dot.getB().getType(), dot.getC().getType(), dot.getPrecision(), IsChained(dot), options);
}

}  // namespace tessera::compiler
