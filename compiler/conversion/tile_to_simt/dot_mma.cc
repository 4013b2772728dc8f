// Products on mma.sync with operands in registers: fragments are packed into the registers that the instruction takes.
#include "compiler/analysis/layouts/matrix_layouts.h"
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {

using namespace mlir;

simt::MatrixType Emitter::MatrixTypeOf(Type element) {
  if (element.isF16()) return simt::MatrixType::F16;
  if (element.isBF16()) return simt::MatrixType::BF16;
  if (element.isF32()) return simt::MatrixType::TF32;
  if (element.isF64()) return simt::MatrixType::F64;
  if (isa<Float8E4M3FNType>(element)) return simt::MatrixType::E4M3;
  if (isa<Float8E5M2Type>(element)) return simt::MatrixType::E5M2;
  return simt::MatrixType::S8;
}

// Up to 4 bytes of neighbouring elements as one i32; f64 stays.
Value Emitter::PackRegister(ArrayRef<Value> elements) {
  Type type = elements[0].getType();
  if (type.isF64()) return elements[0];
  if (elements.size() == 1) return type.isInteger(32) ? elements[0] : Make<arith::BitcastOp>(b_.getI32Type(), elements[0]);
  llvm::SmallVector<Value, 4> parts(elements.begin(), elements.end());
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8)
    for (Value& part : parts) part = Make<arith::BitcastOp>(b_.getI8Type(), part);
  auto vector = VectorType::get({int64_t(parts.size())}, parts[0].getType());
  Value packed = b_.create<vector::FromElementsOp>(loc_, vector, parts);
  Value word = b_.create<vector::BitCastOp>(loc_, VectorType::get({1}, b_.getI32Type()), packed);
  return b_.create<vector::ExtractOp>(loc_, word, ArrayRef<int64_t>{0});
}

// The register of a fragment whose place in its thread is (batch, row, column), the thread's own place taken away; rows
// and columns outside of the block stand for those that the hardware multiplies in vain.
int32_t Emitter::FragmentRegister(const LinearLayout& layout, int64_t batch, int64_t row, int64_t column) {
  ArrayRef<int64_t> shape = layout.shape();
  const int rank = layout.rank();
  row %= shape[rank - 2];
  column %= shape[rank - 1];
  LinearLayout::Coordinates at;
  if (rank == 3) at.push_back(batch);
  at.push_back(row);
  at.push_back(column);
  std::optional<int32_t> found = layout.FindRegister(layout.FlatOf(at));
  assert(found && "a fragment lies in the registers of its thread");
  return *found;
}

Registers Emitter::EmitMma(const MatrixPlan& plan, const LinearLayout& c_layout, Registers c, simt::MatrixType a_type, simt::MatrixType b_type,
                           const FragmentWords& a, const FragmentWords& b) {
  const int64_t row_parts = plan.row_parts();
  for (int64_t batch = 0; batch < plan.batch; ++batch) {
    for (int64_t step = 0; step < plan.steps_k(); ++step) {
      const std::vector<llvm::SmallVector<Value, 4>> b_words = b(batch, step);
      const std::vector<llvm::SmallVector<Value, 4>> a_words = a(batch, step);
      for (int64_t tile_m = 0; tile_m < plan.tiles_m(); ++tile_m) {
        for (int64_t tile_n = 0; tile_n < plan.tiles_n(); ++tile_n) {
          llvm::SmallVector<int32_t, 4> places;
          llvm::SmallVector<Value, 4> sums;
          for (int64_t half = 0; half < row_parts; ++half)
            for (int64_t e = 0; e < 2; ++e)
              places.push_back(FragmentRegister(c_layout, batch, tile_m * plan.instruction_m * plan.warps_m + 8 * half, tile_n * 8 * plan.warps_n + e));
          for (int32_t place : places) sums.push_back(c[place]);
          llvm::SmallVector<Type, 4> types(sums.size(), sums[0].getType());
          auto mma = b_.create<simt::MmaOp>(loc_, types, a_words[tile_m], b_words[tile_n], sums, plan.instruction_m, plan.instruction_n, plan.instruction_k,
                                            a_type, b_type);
          // Where rows or columns are fewer than the instruction's, the first result of a place is its value.
          for (size_t i = places.size(); i-- > 0;) c[places[i]] = mma.getResult()[i];
        }
      }
    }
  }
  return c;
}

// Operands in registers, packed on demand.
Emitter::FragmentWords Emitter::WordsOfRegisters(const MatrixPlan& plan, bool is_a, const Registers& values, const LinearLayout& layout) {
  return [this, &plan, is_a, &values, layout](int64_t batch, int64_t step) {
    const int64_t per = plan.element_bytes >= 4 ? 1 : 4 / plan.element_bytes;
    const int64_t k_parts = plan.instruction_k / (4 * per), first = step * plan.instruction_k;
    std::vector<llvm::SmallVector<Value, 4>> words(is_a ? plan.tiles_m() : plan.tiles_n());
    for (size_t tile = 0; tile < words.size(); ++tile) {
      for (int64_t part = 0; part < k_parts; ++part) {
        for (int64_t half = 0; half < (is_a ? plan.row_parts() : 1); ++half) {
          // Rows that the block lacks repeat others: one word serves both.
          llvm::SmallVector<Value, 4> elements;
          for (int64_t e = 0; e < per; ++e) {
            const int64_t k = first + 4 * per * part + e;
            const int32_t r = is_a ? FragmentRegister(layout, batch, int64_t(tile) * plan.tile_rows() + 8 * half, k)
                                   : FragmentRegister(layout, batch, k, int64_t(tile) * 8 * plan.warps_n);
            elements.push_back(values[r]);
          }
          words[tile].push_back(PackRegister(elements));
        }
      }
    }
    return words;
  };
}

LogicalResult Emitter::EmitMmaDot(tile::DotOp op, const MatrixPlan& plan) {
  Set(op.getResult(), EmitMma(plan, plan.c, Get(op.getC()), MatrixTypeOf(op.getA().getType().getElementType()), MatrixTypeOf(op.getB().getType().getElementType()),
                              WordsOfRegisters(plan, true, Get(op.getA()), plan.a), WordsOfRegisters(plan, false, Get(op.getB()), plan.b)));
  return success();
}

}  // namespace tessera::compiler
