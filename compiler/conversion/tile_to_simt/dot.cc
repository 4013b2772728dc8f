// Products by multiply-add: operands in shared memory, each thread its part of the accumulator, a loop along k.
#include "compiler/analysis/layouts/matrix_layouts.h"
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

constexpr int64_t kOperandBytes = 65536;  // of both operands together; more goes through in pieces of k

// The layout in which a thread reads an operand: registers are the lowest `unroll` bits of k, then the accumulator's rows
// (columns), then the rest of k.
LinearLayout OperandLayout(const LinearLayout& c, ArrayRef<int64_t> shape, bool is_a, int unroll_bits, bool all_of_k) {
  int rank = c.rank(), kept = is_a ? rank - 2 : rank - 1, k = is_a ? rank - 1 : rank - 2;
  LinearLayout operand = LinearLayout(shape, {});  // for its strides
  auto project = [&](int32_t basis) {
    LinearLayout::Coordinates from = c.CoordinatesOf(basis), to(rank, 0);
    if (rank == 3) to[0] = from[0];
    to[kept] = from[kept];
    return operand.FlatOf(to);
  };
  std::array<LinearLayout::Bases, LinearLayout::kInputs> bases;
  int k_bits = llvm::Log2_64(shape[k]);
  for (int i = 0; i < unroll_bits; ++i) bases[0].push_back(static_cast<int32_t>(operand.Stride(k) << i));
  for (int32_t basis : c.bases(LinearLayout::kRegister)) bases[0].push_back(project(basis));
  if (all_of_k)
    for (int i = unroll_bits; i < k_bits; ++i) bases[0].push_back(static_cast<int32_t>(operand.Stride(k) << i));
  for (int32_t basis : c.bases(LinearLayout::kLane)) bases[1].push_back(project(basis));
  for (int32_t basis : c.bases(LinearLayout::kWarp)) bases[2].push_back(project(basis));
  return LinearLayout(shape, bases);
}

}  // namespace

LogicalResult Emitter::EmitDot(tile::DotOp op) {
  std::optional<MatrixPlan> plan = PlanOfLayout(op.getA().getType(), op.getB().getType(), op.getC().getType(), op.getPrecision(), options_);
  if (plan && plan->unit == MatrixUnit::kMma && LayoutOf(op.getA()) == plan->a && LayoutOf(op.getB()) == plan->b) return EmitMmaDot(op, *plan);
  return EmitFmaDot(op);
}

// An operand's element as the multiplication takes it.
Value Emitter::Factor(Value value, Type accumulator, tile::Precision precision) {
  if (isa<IntegerType>(accumulator)) {
    if (value.getType() == accumulator) return value;
    return Make<arith::ExtSIOp>(accumulator, value);
  }
  if (value.getType().isF32() && precision == tile::Precision::TF32) {
    Value bits = Make<arith::BitcastOp>(b_.getI32Type(), value);
    return Make<arith::BitcastOp>(b_.getF32Type(), Make<arith::AndIOp>(bits, I32(static_cast<int32_t>(0xffffe000))));
  }
  if (value.getType() == accumulator) return value;
  return b_.create<tile::FpToFpOp>(loc_, accumulator, value, tile::Rounding::RTNE);
}

Value Emitter::MultiplyAdd(Value a, Value b, Value c) { return b_.create<math::FmaOp>(loc_, a, b, c); }

LogicalResult Emitter::EmitFmaDot(tile::DotOp op) {
  LinearLayout c_layout = LayoutOf(op.getC());
  int rank = c_layout.rank();
  struct Operand {
    Value value;
    LinearLayout from;
    LinearLayout step;  // what a thread reads in one step
    SharedMap map;
    Type element;
    Value buffer;
    int k = 0;
    llvm::DenseMap<int32_t, int32_t> register_of;  // by flat index
  } operands[2];
  int64_t k_extent = cast<RankedTensorType>(op.getA().getType()).getShape().back();
  int64_t per_thread = c_layout.registers();
  int unroll_bits = 0;
  while (unroll_bits < 3 && int64_t{2} << unroll_bits <= k_extent && per_thread << (unroll_bits + 1) <= 256) ++unroll_bits;
  int64_t bytes = 0;
  for (int i = 0; i < 2; ++i) {
    Operand& x = operands[i];
    x.value = i == 0 ? op.getA() : op.getB();
    x.from = LayoutOf(x.value);
    x.element = Emitted(x.value.getType());
    x.k = i == 0 ? rank - 1 : rank - 2;
    x.step = OperandLayout(c_layout, x.from.shape(), i == 0, unroll_bits, false);
    x.map = PlanShared(x.from, OperandLayout(c_layout, x.from.shape(), i == 0, unroll_bits, true), SharedBytes(x.element));
    bytes += x.map.bytes;
    for (int32_t r = 0; r < x.step.registers(); ++r) x.register_of[x.step.ApplyTo(LinearLayout::kRegister, r)] = r;
  }
  // Pieces along the highest bits of k.
  int k_bits = llvm::Log2_64(k_extent), cut_bits = 0;
  while (bytes >> cut_bits > kOperandBytes && cut_bits < k_bits - unroll_bits) ++cut_bits;
  for (Operand& x : operands) {
    for (int i = 0; i < cut_bits; ++i) RemoveBit(&x.map, llvm::Log2_64(x.from.Stride(x.k)) + k_bits - 1 - i);
    x.buffer = Allocate(x.map.bytes);
  }

  Type result_type = Emitted(op.getType());
  Type sum_type = result_type.isF16() || result_type.isBF16() ? b_.getF32Type() : result_type;
  Registers sums = Get(op.getC());
  if (sum_type != result_type)
    for (Value& sum : sums) sum = b_.create<tile::FpToFpOp>(loc_, sum_type, sum, tile::Rounding::RTNE);

  for (int32_t piece = 0; piece < 1 << cut_bits; ++piece) {
    for (Operand& x : operands) {
      llvm::SmallVector<int32_t, 8> cut;
      for (int i = 0; i < cut_bits; ++i) cut.push_back(static_cast<int32_t>(llvm::Log2_64(x.from.Stride(x.k)) + k_bits - cut_bits + i));
      StoreShared(x.buffer, x.map, x.from, Get(x.value), PieceFilter(x.from, cut, piece));
    }
    int64_t steps = k_extent >> cut_bits >> unroll_bits;
    auto step = [&](Value number, Registers acc) -> Registers {
      Registers read[2];
      for (int i = 0; i < 2; ++i) {
        Operand& x = operands[i];
        llvm::SmallVector<int32_t, 16> images;
        int32_t mask = 0;
        for (int bit = unroll_bits; bit < k_bits - cut_bits; ++bit) {
          images.push_back(x.map.Offset(static_cast<int32_t>(x.from.Stride(x.k) << bit)));
          mask |= images.back();
        }
        Value moved = number ? SpreadBits(number, images, k_bits - cut_bits - unroll_bits) : nullptr;
        read[i] = LoadShared(x.buffer, x.map, x.step, x.element, nullptr, nullptr, moved, mask);
        for (Value& value : read[i]) value = Factor(value, sum_type, op.getPrecision());
      }
      for (int64_t u = 0; u < int64_t{1} << unroll_bits; ++u) {
        for (int32_t r = 0; r < c_layout.registers(); ++r) {
          LinearLayout::Coordinates at = c_layout.CoordinatesOf(c_layout.ApplyTo(LinearLayout::kRegister, r));
          Value factors[2];
          for (int i = 0; i < 2; ++i) {
            LinearLayout::Coordinates source = at;
            source[i == 0 ? rank - 1 : rank - 2] = u;
            factors[i] = read[i][operands[i].register_of.lookup(operands[i].step.FlatOf(source))];
          }
          if (isa<IntegerType>(sum_type)) acc[r] = b_.create<arith::AddIOp>(loc_, acc[r], b_.create<arith::MulIOp>(loc_, factors[0], factors[1]));
          else acc[r] = MultiplyAdd(factors[0], factors[1], acc[r]);
        }
      }
      return acc;
    };
    if (steps == 1) {
      sums = step(nullptr, sums);
      continue;
    }
    auto loop = b_.create<scf::ForOp>(loc_, I32(0), I32(steps), I32(1), sums);
    {
      OpBuilder::InsertionGuard guard(b_);
      Block* body = loop.getBody();
      if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>()) body->back().erase();
      b_.setInsertionPointToEnd(body);
      auto carried = loop.getRegionIterArgs();
      Registers next = step(loop.getInductionVar(), Registers(carried.begin(), carried.end()));
      b_.create<scf::YieldOp>(loc_, next);
    }
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  }
  for (Operand& x : operands) Free(x.buffer);
  if (sum_type != result_type)
    for (Value& sum : sums) sum = b_.create<tile::FpToFpOp>(loc_, result_type, sum, tile::Rounding::RTNE);
  Set(op.getResult(), std::move(sums));
  return success();
}

}  // namespace tessera::compiler
