// Matrix products: operands are evaluated into packed memory, then multiplied by a register-blocked micro-kernel.
#include "compiler/conversion/float_conversions.h"
#include "compiler/conversion/tile_to_loops/kernel_emitter.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

RankedTensorType BlockType(Value v) { return cast<RankedTensorType>(v.getType()); }

// Which part (0: leading) of each operand the term multiplies, in increasing order of size of the product.
struct TermParts {
  int a, b;
};
llvm::ArrayRef<TermParts> PartsOf(tile::Precision precision) {
  static constexpr TermParts kThree[] = {{1, 0}, {0, 1}, {0, 0}};
  static constexpr TermParts kSix[] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
  if (precision == tile::Precision::BF16X6) return kSix;
  return kThree;
}

}  // namespace

// The part of a packed operand that one term multiplies.
Value KernelEmitter::PackedTerm(tile::DotOp dot, bool is_b, int term, Value value) {
  Type source = getElementTypeOrSelf((is_b ? dot.getB() : dot.getA()).getType());
  tile::Precision precision = dot.getPrecision();
  if (!source.isF32() || precision == tile::Precision::IEEE) return value;
  Type type = value.getType();
  Type bits = builder_.getI32Type();
  if (auto vector = dyn_cast<VectorType>(type)) bits = VectorType::get(vector.getShape(), bits);
  bool tf32 = precision == tile::Precision::TF32 || precision == tile::Precision::TF32X3;
  auto rounded = [&](Value v) -> Value {
    if (!tf32) return ConvertFloat(builder_, loc_, ConvertFloat(builder_, loc_, v, builder_.getBF16Type()), builder_.getF32Type());
    Value whole = builder_.create<arith::BitcastOp>(loc_, bits, v);
    whole = builder_.create<arith::AndIOp>(loc_, whole, Const(bits, int32_t(0xffffe000)));
    return builder_.create<arith::BitcastOp>(loc_, type, whole);
  };
  if (precision == tile::Precision::TF32) return rounded(value);
  llvm::ArrayRef<TermParts> parts = PartsOf(precision);
  int part = is_b ? parts[term].b : parts[term].a;
  Value rest = value, leading = rounded(value);
  for (int i = 0; i < part; ++i) {
    rest = builder_.create<arith::SubFOp>(loc_, rest, leading);
    leading = rounded(rest);
  }
  bool main_term = term == int(parts.size()) - 1;
  if (main_term) return leading;
  // Infinities and NaN are for the main term alone: in the others they would meet zeros and differences of infinities.
  Value magnitude = builder_.create<arith::AndIOp>(loc_, builder_.create<arith::BitcastOp>(loc_, bits, value), Const(bits, 0x7fffffff));
  Value finite = builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::slt, magnitude, Const(bits, 0x7f800000));
  return builder_.create<arith::SelectOp>(loc_, finite, leading, Zero(type));
}

bool KernelEmitter::PacksAByColumns(tile::DotOp dot) {
  llvm::SmallVector<int64_t, 3> shape(BlockType(dot.getA()).getShape());
  Lanes lanes = ChooseLanesFor({dot.getA()}, shape, -1);
  return !lanes.scalar() && lanes.bits[0].dim == int(shape.size()) - 2;
}

LogicalResult KernelEmitter::EmitPack(const PackPlan& pack) {
  tile::DotOp dot = pack.dot;
  loc_ = dot.getLoc();
  DotTiling tiling = TileDot(dot, target_.vector_bits);
  Value operand = pack.is_b ? dot.getB() : dot.getA();
  Type element = BlockType(operand).getElementType();
  llvm::SmallVector<int64_t, 3> shape(BlockType(operand).getShape());
  int rank = shape.size(), rows = rank - 2, columns = rank - 1;
  Lanes lanes = ChooseLanesFor({operand}, shape, -1);
  bool by_columns = !pack.is_b && PacksAByColumns(dot);
  int64_t depth_of_k = tiling.k * tiling.terms;
  int k_dim = pack.is_b ? rows : columns;

  // Where panels want lanes along n but loads come in order along k, squares are transposed in registers.
  bool transpose = false;
  int64_t side = tiling.lanes;
  if (pack.is_b && !lanes.scalar() && side > 1) {
    bool along_k = llvm::all_of(lanes.bits, [&](LaneBit bit) { return bit.dim == k_dim; });
    if (along_k && shape[rows] >= side) {
      transpose = true;
      lanes = Lanes::Along(k_dim, side);
    } else {
      bool along_n = llvm::all_of(lanes.bits, [&](LaneBit bit) { return bit.dim == columns; });
      if (along_n && lanes.count() > tiling.nr) lanes = Lanes::Along(columns, tiling.nr);
    }
  }
  // Lanes over several dimensions, or over the batch, would not lie together in packed memory.
  if (!transpose && !lanes.scalar()) {
    int d = lanes.bits[0].dim;
    bool mixed = llvm::any_of(lanes.bits, [&](LaneBit bit) { return bit.dim != d; });
    int64_t most = pack.is_b ? tiling.nr : target_.vector_bits / 32;
    if (mixed || d < rows) lanes = Lanes::Along(columns, std::min(shape[columns], most));
  }

  // Position of an element in packed memory, for term 0.
  auto position = [&](ArrayRef<Index> index) {
    Index batch = rank == 3 ? index[0] : Index();
    Index row = index[rows], column = index[columns];
    if (!pack.is_b) {
      if (by_columns) return Sum(Sum(Scaled(batch, depth_of_k * tiling.m), Scaled(column, tiling.m)), row);
      return Sum(Sum(Scaled(batch, depth_of_k * tiling.m), Scaled(row, depth_of_k)), column);
    }
    Index panel, inside;
    if (!column.base) {
      panel.offset = column.offset / tiling.nr;
      inside.offset = column.offset % tiling.nr;
    } else {
      GoTo(column.level);
      Value n = IndexValue(column);
      panel = {builder_.create<arith::ShRUIOp>(loc_, n, ConstI64(llvm::Log2_64(tiling.nr))), 0, column.level};
      inside = {builder_.create<arith::AndIOp>(loc_, n, ConstI64(tiling.nr - 1)), 0, column.level};
    }
    Index where = Sum(Scaled(batch, depth_of_k * tiling.n), Scaled(panel, depth_of_k * tiling.nr));
    return Sum(Sum(where, Scaled(row, tiling.nr)), inside);
  };
  // Distance in packed memory between neighbours along k, and between terms.
  int64_t k_stride = pack.is_b ? tiling.nr : (by_columns ? tiling.m : 1);
  int64_t lane_stride = lanes.scalar() ? 1
                        : lanes.bits[0].dim == k_dim ? k_stride
                                                     : (pack.is_b || by_columns ? 1 : depth_of_k);
  auto converted = [&](ArrayRef<Index> index, int64_t count) -> Value {
    Evaluated e = Evaluate(operand, index, lanes);
    if (!e.value) return nullptr;
    GoTo(depth());
    Value v = e.value;
    if (isa<FloatType>(element)) {
      if (element.getIntOrFloatBitWidth() == 8)
        v = builder_.create<arith::BitcastOp>(loc_, count == 1 ? element : Type(VectorType::get({count}, element)), v);
      if (element != tiling.compute) v = ConvertFloat(builder_, loc_, v, tiling.compute);
    } else if (element != tiling.compute) {
      Type wide = count == 1 ? tiling.compute : Type(VectorType::get({count}, tiling.compute));
      if (element.isInteger(1)) v = builder_.create<arith::ExtUIOp>(loc_, wide, v);
      else v = builder_.create<arith::ExtSIOp>(loc_, wide, v);
    }
    return v;
  };

  StartNest();
  if (transpose) {
    Indices index(rank);
    if (rank == 3) index[0] = OpenLoop(0, shape[0], 1);
    index[columns] = OpenLoop(0, shape[columns], side);
    index[rows] = OpenLoop(0, shape[rows], side);
    llvm::SmallVector<Value> square;
    for (int64_t i = 0; i < side; ++i) {
      Indices at(index);
      at[columns] = index[columns] + i;
      Value v = converted(at, side);
      if (!v) return failure();
      square.push_back(v);
    }
    Index where = position(index);
    for (int64_t term = 0; term < tiling.terms; ++term) {
      GoTo(depth());
      llvm::SmallVector<Value> v;
      for (Value row : square) v.push_back(PackedTerm(dot, pack.is_b, term, row));
      for (int64_t bit = 1; bit < side; bit *= 2)
        for (int64_t i = 0; i < side; ++i) {
          if (i & bit) continue;
          llvm::SmallVector<int64_t> low, high;
          for (int64_t j = 0; j < side; ++j) {
            low.push_back(j & bit ? side + j - bit : j);
            high.push_back(j & bit ? side + j : j + bit);
          }
          Value a = v[i], b = v[i | bit];
          v[i] = builder_.create<vector::ShuffleOp>(loc_, a, b, low);
          v[i | bit] = builder_.create<vector::ShuffleOp>(loc_, a, b, high);
        }
      for (int64_t i = 0; i < side; ++i) {
        Index at = where + (term * tiling.k + i) * k_stride;
        StoreAt(BufferAddress(pack.buffer, IndexValue(at)), v[i]);
      }
    }
    CloseTo(0);
    return success();
  }

  Indices index = OpenNestOver(shape, lanes);
  Value value = converted(index, lanes.count());
  if (!value) return failure();
  Index where = position(index);
  for (int64_t term = 0; term < tiling.terms; ++term) {
    GoTo(depth());
    Value v = PackedTerm(dot, pack.is_b, term, value);
    Value address = BufferAddress(pack.buffer, IndexValue(where + term * tiling.k * k_stride));
    if (lanes.scalar() || lane_stride == 1) {
      StoreAt(address, v);
      continue;
    }
    for (int64_t lane = 0; lane < lanes.count(); ++lane) {
      Value slot = builder_.create<LLVM::GEPOp>(loc_, ptr_, tiling.compute, address, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(lane * lane_stride))}, true);
      StoreAt(slot, builder_.create<vector::ExtractOp>(loc_, v, lane));
    }
  }
  CloseTo(0);
  return success();
}

LogicalResult KernelEmitter::EmitDot(tile::DotOp dot) {
  const Buffer* sums = plan_.BufferOf(dot.getResult());
  if (!sums) return success();
  loc_ = dot.getLoc();
  DotTiling tiling = TileDot(dot, target_.vector_bits);
  Type source = BlockType(dot.getA()).getElementType();
  bool integers = isa<IntegerType>(tiling.compute);
  if (integers != isa<IntegerType>(source) || sums->element != tiling.compute)
    return Unsupported(dot, "a product of these types");
  bool from_zero = matchPattern(dot.getC(), m_Zero()) || matchPattern(dot.getC(), m_AnyZeroFloat());
  if (!from_zero && plan_.BufferOf(dot.getC()) != sums && failed(EmitInto(sums, dot.getC()))) return failure();
  EmitMicroKernels(dot, tiling, from_zero);
  return success();
}

void KernelEmitter::EmitMicroKernels(tile::DotOp dot, const DotTiling& t, bool from_zero) {
  const Buffer* sums = plan_.BufferOf(dot.getResult());
  const Buffer* a = plan_.PackedA(dot);
  const Buffer* b = plan_.PackedB(dot);
  bool by_columns = PacksAByColumns(dot);
  int64_t k_extent = t.k * t.terms, vectors = t.nr / t.lanes;
  Type type = EmittedLanes(t.compute, t.lanes);
  StartNest();
  Index batch = OpenLoop(0, t.batch, 1);
  Index n = OpenLoop(0, t.n, t.nr);
  Index m = OpenLoop(0, t.m, t.mr);

  GoTo(depth());
  Index c_index = Sum(Sum(Scaled(batch, t.m * t.n), Scaled(m, t.n)), n);
  Index b_start = Sum(Scaled(batch, k_extent * t.n), Scaled(n, k_extent));
  Index a_start = Sum(Scaled(batch, k_extent * t.m), Scaled(m, by_columns ? 1 : k_extent));
  GoTo(depth());
  Value c_address = BufferAddress(sums, IndexValue(c_index));
  auto c_slot = [&](int64_t i, int64_t j) -> Value {
    int64_t offset = i * t.n + j * t.lanes;
    if (offset == 0) return c_address;
    return builder_.create<LLVM::GEPOp>(loc_, ptr_, t.compute, c_address, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(offset))}, true);
  };
  llvm::SmallVector<Value> c;
  for (int64_t i = 0; i < t.mr; ++i)
    for (int64_t j = 0; j < vectors; ++j) c.push_back(from_zero ? Zero(type) : LoadAt(c_slot(i, j), type));

  Index k;
  scf::ForOp loop = OpenLoopWith(0, k_extent, 1, c, &k);
  Value a_address = BufferAddress(a, IndexValue(Sum(a_start, Scaled(k, by_columns ? t.m : 1))));
  GoTo(depth());
  Value b_address = BufferAddress(b, IndexValue(Sum(b_start, Scaled(k, t.nr))));
  auto slot = [&](Value address, int64_t offset) -> Value {
    if (offset == 0) return address;
    return builder_.create<LLVM::GEPOp>(loc_, ptr_, t.compute, address, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(int32_t(offset))}, true);
  };
  llvm::SmallVector<Value> b_vectors, next;
  for (int64_t j = 0; j < vectors; ++j) b_vectors.push_back(LoadAt(slot(b_address, j * t.lanes), type));
  bool integers = isa<IntegerType>(t.compute);
  for (int64_t i = 0; i < t.mr; ++i) {
    Value one = LoadAt(slot(a_address, i * (by_columns ? 1 : k_extent)), t.compute);
    if (t.lanes > 1) one = builder_.create<vector::BroadcastOp>(loc_, type, one);
    for (int64_t j = 0; j < vectors; ++j) {
      Value sum = loop.getRegionIterArgs()[i * vectors + j];
      if (integers)
        next.push_back(builder_.create<arith::AddIOp>(loc_, builder_.create<arith::MulIOp>(loc_, one, b_vectors[j]), sum));
      else if (target_.fma)
        next.push_back(builder_.create<LLVM::FMAOp>(loc_, type, one, b_vectors[j], sum));
      else
        next.push_back(builder_.create<arith::AddFOp>(loc_, builder_.create<arith::MulFOp>(loc_, one, b_vectors[j]), sum));
    }
  }
  builder_.create<scf::YieldOp>(loc_, next);
  CloseLoop();
  for (int64_t i = 0; i < t.mr; ++i)
    for (int64_t j = 0; j < vectors; ++j) StoreAt(c_slot(i, j), loop.getResult(i * vectors + j));
  CloseTo(0);
}

}  // namespace tessera::compiler
