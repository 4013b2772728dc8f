// Products whose operands are staged in shared memory: ldmatrix and mma.sync, or wgmma; and how operands get there.
//
// A stage lies as the matrix descriptors of wgmma want it (see !tile.shared): rows of at most 128 bytes whose 16-byte
// chunks are XORed with bits of the row, so that ldmatrix meets no bank twice either. That map is linear over bits, so
// addresses are a part of the thread, computed once, XORed with constants.
#include "compiler/analysis/layouts/matrix_layouts.h"
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

constexpr int64_t kChunk = 16, kWidestRow = 128, kAtomRows = 8, kStageAlignment = 1024;

int64_t RowBytes(tile::SharedType type) {
  return std::clamp<int64_t>(type.getShape()[type.getFast()] * (type.getElementType().getIntOrFloatBitWidth() / 8), kChunk, kWidestRow);
}
int64_t Rows(tile::SharedType type) { return std::max(type.getShape()[1 - type.getFast()], kAtomRows); }
int64_t StageBytes(tile::SharedType type) {
  const int64_t bytes = type.getShape()[type.getFast()] * (type.getElementType().getIntOrFloatBitWidth() / 8);
  return llvm::alignTo(Rows(type) * std::max(bytes, kChunk), kStageAlignment);
}

simt::Swizzle SwizzleOf(int64_t row_bytes) {
  return row_bytes == 128 ? simt::Swizzle::BYTES_128 : row_bytes == 64 ? simt::Swizzle::BYTES_64 : row_bytes == 32 ? simt::Swizzle::BYTES_32 : simt::Swizzle::NONE;
}

// The operand's block as a tensor type.
Type OperandType(Value buffer, bool transposed) {
  auto type = cast<tile::SharedType>(buffer.getType());
  llvm::SmallVector<int64_t, 2> shape(type.getShape());
  if (transposed) std::swap(shape[0], shape[1]);
  return RankedTensorType::get(shape, type.getElementType());
}

std::optional<MatrixPlan> PlanOf(tile::SharedDotOp op, const GpuOptions& options) {
  Type a = op.getA() ? Type(op.getA().getType()) : OperandType(op.getABuffer(), op.getATransposed());
  return PlanOfLayout(a, OperandType(op.getBBuffer(), op.getBTransposed()), op.getC().getType(), op.getPrecision(), options);
}

bool IsSynchronized(Value shared) { return shared.getDefiningOp<tile::SharedAllocOp>().getSynchronized(); }

}  // namespace

// Offsets of a stage's elements by the flat index of the block that it holds, or of that block's transpose.
SharedMap Emitter::StageMap(tile::SharedType type, bool transposed) {
  const int fast = transposed ? 1 - type.getFast() : type.getFast();
  llvm::SmallVector<int64_t, 2> shape(type.getShape());
  if (transposed) std::swap(shape[0], shape[1]);
  const int64_t element = type.getElementType().getIntOrFloatBitWidth() / 8, row = RowBytes(type);
  SharedMap map;
  map.bytes = StageBytes(type);
  for (int dim : {1, 0}) {
    for (int64_t step = 1; step < shape[dim]; step *= 2) {
      int64_t image;
      if (dim == fast) {
        const int64_t bytes = step * element;
        image = bytes < row ? bytes : bytes / row * Rows(type) * row;
      } else {
        image = step * row;
        image ^= (image >> 7 & (row / kChunk - 1)) << 4;
      }
      map.images.push_back(int32_t(image));
    }
  }
  return map;
}

Value Emitter::StageOffset(tile::SharedType type, Value stage) {
  if (type.getStages() == 1) return I32(0);
  return Make<arith::MulIOp>(Scalar(stage), I32(StageBytes(type)));
}

// thread XOR constant, plus the stage. Bits that the thread's part never has are added last, where they become part of
// the instruction.
Value Emitter::StageAddress(Value thread, int32_t mask, int32_t constant, Value stage_offset) {
  Value address = thread;
  if (constant & mask) address = Make<arith::XOrIOp>(address, I32(constant & mask));
  address = Make<arith::AddIOp>(address, stage_offset);
  if (constant & ~mask) address = Make<arith::AddIOp>(address, I32(constant & ~mask));
  return address;
}

Emitter::StagePlace Emitter::PlaceOf(const SharedMap& map, const LinearLayout& layout) {
  StagePlace place;
  llvm::SmallVector<int32_t, 8> lanes, warps;
  for (int32_t basis : layout.bases(LinearLayout::kLane)) lanes.push_back(map.Offset(basis));
  for (int32_t basis : layout.bases(LinearLayout::kWarp)) warps.push_back(map.Offset(basis));
  for (int32_t image : lanes) place.mask |= image;
  for (int32_t image : warps) place.mask |= image;
  place.thread = ThreadBits(lanes, warps);
  return place;
}

LogicalResult Emitter::EmitSharedAlloc(tile::SharedAllocOp op) {
  auto type = cast<tile::SharedType>(op.getResult().getType());
  Set(op.getResult(), {Allocate(StageBytes(type) * type.getStages(), kStageAlignment)});
  if (op.getSynchronized()) b_.create<simt::BarrierOp>(loc_);  // what lay here before has been read
  return success();
}

LogicalResult Emitter::EmitSharedFree(tile::SharedFreeOp op) {
  Free(Get(op.getBuffer())[0]);
  return success();
}

void Emitter::MarkOrdered(Operation* op, Value shared) {
  if (IsSynchronized(shared)) op->setAttr("simt.ordered", b_.getUnitAttr());
}

void Emitter::StoreStage(Value shared, Value stage_offset, const LinearLayout& layout, const Registers& values) {
  auto type = cast<tile::SharedType>(shared.getType());
  const SharedMap map = StageMap(type, false);
  const int64_t bytes = BytesOf(type.getElementType());
  const LinearLayout::Vector vector = VectorIn(map, layout, bytes);
  const StagePlace place = PlaceOf(map, layout);
  Value owner = Owner(layout);
  for (int32_t r = 0; r < layout.registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value value = values[r];
    if (vector.size > 1) {
      llvm::SmallVector<Value> parts;
      for (int64_t i = 0; i < vector.size; ++i) parts.push_back(values[vector.Register(r, i)]);
      value = b_.create<vector::FromElementsOp>(loc_, VectorType::get({vector.size}, parts[0].getType()), parts);
    }
    Value offset = StageAddress(place.thread, place.mask, map.Offset(layout.ApplyTo(LinearLayout::kRegister, r)), stage_offset);
    MarkOrdered(b_.create<simt::StoreSharedOp>(loc_, Get(shared)[0], offset, value, owner), shared);
  }
}

// What was stored is visible to wgmma. Blocks of less than a group of four warps run mma.sync, and have no such fence.
void Emitter::FenceStored() {
  if (options_.wgmma && options_.num_warps % 4 == 0) b_.create<simt::WgmmaFenceOp>(loc_, /*proxy=*/true);
}

LogicalResult Emitter::EmitSharedStore(tile::SharedStoreOp op) {
  auto type = cast<tile::SharedType>(op.getBuffer().getType());
  StoreStage(op.getBuffer(), StageOffset(type, op.getStage()), LayoutOf(op.getValue()), Get(op.getValue()));
  return success();
}

LogicalResult Emitter::EmitSharedCopy(tile::SharedCopyOp op) {
  auto type = cast<tile::SharedType>(op.getBuffer().getType());
  const int64_t bytes = BytesOf(type.getElementType());
  const LinearLayout layout = LayoutOf(op.getPtr());
  const SharedMap map = StageMap(type, false);
  const Registers& pointers = Get(op.getPtr());
  const Registers* masks = op.getMask() ? &Get(op.getMask()) : nullptr;
  Grouping grouping = Group(op.getPtr(), op.getMask(), layout, bytes);
  // What is contiguous in global memory must be so in the stage.
  LinearLayout::Vector& vector = grouping.vector;
  int64_t size = 1;
  for (auto [i, bit] : llvm::enumerate(vector.register_bits)) {
    if (map.Offset(layout.ApplyTo(LinearLayout::kRegister, 1 << bit)) != int32_t(bytes << i)) break;
    size *= 2;
  }
  vector.register_bits.resize(llvm::Log2_64(size));
  vector.size = size;
  Value stage_offset = StageOffset(type, op.getStage());
  if (size * bytes < 4) {
    // Too narrow for an asynchronous copy: through registers.
    Registers values(layout.registers());
    for (int32_t r = 0; r < layout.registers(); ++r) {
      if (r & vector.Mask()) continue;
      Value address = AddressOf(pointers, grouping, r, bytes), mask = masks ? (*masks)[r] : nullptr;
      Type element = Emitted(type.getElementType());
      if (vector.size == 1) {
        values[r] = b_.create<simt::LoadOp>(loc_, element, address, mask, nullptr, op.getCache(), op.getEvict(), false);
        continue;
      }
      Value loaded = b_.create<simt::LoadOp>(loc_, VectorType::get({vector.size}, element), address, mask, nullptr, op.getCache(), op.getEvict(), false);
      for (int64_t i = 0; i < vector.size; ++i) values[vector.Register(r, i)] = b_.create<vector::ExtractOp>(loc_, loaded, ArrayRef<int64_t>{i});
    }
    StoreStage(op.getBuffer(), stage_offset, layout, values);
    FenceStored();
    return success();
  }
  const StagePlace place = PlaceOf(map, layout);
  // Copies of replicated elements would race: only the owner makes them. A false predicate fills with zeros, so others
  // must not take part at all; layouts of loads replicate only where the block is smaller than the threads.
  if (Value owner = Owner(layout)) {
    Registers values(layout.registers());
    for (int32_t r = 0; r < layout.registers(); ++r) {
      if (r & vector.Mask()) continue;
      Value loaded = b_.create<simt::LoadOp>(loc_, VectorType::get({vector.size}, Emitted(type.getElementType())), AddressOf(pointers, grouping, r, bytes),
                                             And(owner, masks ? (*masks)[r] : nullptr), nullptr, op.getCache(), op.getEvict(), false);
      for (int64_t i = 0; i < vector.size; ++i) values[vector.Register(r, i)] = b_.create<vector::ExtractOp>(loc_, loaded, ArrayRef<int64_t>{i});
    }
    StoreStage(op.getBuffer(), stage_offset, layout, values);
    FenceStored();
    return success();
  }
  for (int32_t r = 0; r < layout.registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value offset = StageAddress(place.thread, place.mask, map.Offset(layout.ApplyTo(LinearLayout::kRegister, r)), stage_offset);
    MarkOrdered(b_.create<simt::CopyAsyncOp>(loc_, Get(op.getBuffer())[0], offset, AddressOf(pointers, grouping, r, bytes), masks ? (*masks)[r] : nullptr,
                                             int32_t(vector.size * bytes), op.getCache(), op.getEvict()),
                op.getBuffer());
  }
  return success();
}

LogicalResult Emitter::EmitSharedWait(tile::SharedWaitOp op) {
  b_.create<simt::WaitCopiesOp>(loc_, op.getPending());
  b_.create<simt::BarrierOp>(loc_);
  return success();
}

//===-- mma.sync ----------------------------------------------------------------------------------===//

// The operand's words for mma, read by ldmatrix where its elements lie so that it can, else element by element.
Emitter::FragmentWords Emitter::WordsOfStage(const MatrixPlan& plan, bool is_a, Value shared, Value stage_offset, bool transposed) {
  auto type = cast<tile::SharedType>(shared.getType());
  const SharedMap map = StageMap(type, transposed);
  llvm::SmallVector<int64_t, 2> shape(type.getShape());
  if (transposed) std::swap(shape[0], shape[1]);
  const int k_dim = is_a ? 1 : 0;
  const bool k_fast = (transposed ? 1 - type.getFast() : type.getFast()) == k_dim;
  const LinearLayout& fragment = is_a ? plan.a : plan.b;
  const int64_t tiles = is_a ? plan.tiles_m() : plan.tiles_n(), extent = is_a ? plan.m : plan.n;
  const bool by_matrix = (k_fast || plan.element_bytes == 2) && plan.element_bytes <= 4 && extent >= (is_a ? 16 : 8);
  if (!by_matrix) {
    // The whole fragment of one k step.
    return [=, &plan](int64_t batch, int64_t step) {
      const StagePlace place = PlaceOf(map, fragment);
      Registers values(fragment.registers());
      const int64_t per = plan.element_bytes >= 4 ? 1 : 4 / plan.element_bytes;
      const int64_t k_parts = plan.instruction_k / (4 * per), first = step * plan.instruction_k;
      std::vector<llvm::SmallVector<Value, 4>> words(tiles);
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int64_t part = 0; part < k_parts; ++part)
          for (int64_t half = 0; half < (is_a ? plan.row_parts() : 1); ++half) {
            llvm::SmallVector<Value, 4> elements;
            for (int64_t e = 0; e < per; ++e) {
              const int64_t k = first + 4 * per * part + e, other = is_a ? tile * plan.tile_rows() + 8 * half : tile * 8 * plan.warps_n;
              const int32_t r = is_a ? FragmentRegister(fragment, batch, other, k) : FragmentRegister(fragment, batch, k, other);
              if (!values[r]) {
                Value offset = StageAddress(place.thread, place.mask, map.Offset(fragment.ApplyTo(LinearLayout::kRegister, r)), stage_offset);
                auto load = b_.create<simt::LoadSharedOp>(loc_, Emitted(type.getElementType()), Get(shared)[0], offset, Value());
                MarkOrdered(load, shared);
                values[r] = load;
              }
              elements.push_back(values[r]);
            }
            words[tile].push_back(PackRegister(elements));
          }
      return words;
    };
  }
  // Lane 8 i + r names row r of matrix i. Matrices of a: (rows, k) (rows + 8, k) (rows, k + 16 bytes) (rows + 8, k + 16
  // bytes). Of b: (k, columns) (k + 16 bytes, columns), then the same of the next tile.
  const int64_t k_half = 16 / plan.element_bytes;  // 8 elements of 16 bits
  auto flat = [=](int64_t k, int64_t other) { return int32_t(is_a ? other * shape[1] + k : k * shape[1] + other); };
  const bool pairs = !is_a && tiles % 2 == 0;  // two tiles at a time
  LinearLayout::Bases lanes, warps(fragment.bases(LinearLayout::kWarp));
  for (int64_t step : {1, 2, 4}) lanes.push_back(k_fast ? flat(0, step) : flat(step, 0));
  if (is_a) {
    lanes.push_back(flat(0, 8));
    lanes.push_back(flat(k_half, 0));
  } else {
    lanes.push_back(flat(k_half, 0));
    lanes.push_back(pairs ? flat(0, 8 * plan.warps_n) : 0);
  }
  const LinearLayout addresses(shape, {LinearLayout::Bases(), lanes, warps, LinearLayout::Bases()});
  return [=, &plan](int64_t, int64_t step) {
    const StagePlace place = PlaceOf(map, addresses);
    std::vector<llvm::SmallVector<Value, 4>> words(tiles);
    for (int64_t tile = 0; tile < tiles; tile += pairs ? 2 : 1) {
      const int32_t at = map.Offset(flat(step * plan.instruction_k, is_a ? tile * plan.tile_rows() : tile * 8 * plan.warps_n));
      Value offset = StageAddress(place.thread, place.mask, at, stage_offset);
      llvm::SmallVector<Type, 4> types(is_a || pairs ? 4 : 2, b_.getI32Type());
      auto load = b_.create<simt::LdmatrixOp>(loc_, types, Get(shared)[0], offset, !k_fast);
      MarkOrdered(load, shared);
      for (auto [i, word] : llvm::enumerate(load.getResult())) words[is_a ? tile : tile + int64_t(i) / 2].push_back(word);
    }
    return words;
  };
}

//===-- wgmma -------------------------------------------------------------------------------------===//

// What a descriptor of the operand says, and where the part of this warp group begins.
Emitter::WgmmaOperand Emitter::DescribeOperand(const MatrixPlan& plan, bool is_a, Value shared, Value stage_offset, bool transposed) {
  auto type = cast<tile::SharedType>(shared.getType());
  WgmmaOperand operand;
  operand.map = StageMap(type, transposed);
  operand.buffer = Get(shared)[0];
  operand.k_major = (transposed ? 1 - type.getFast() : type.getFast()) == (is_a ? 1 : 0);
  const int64_t row = RowBytes(type);
  operand.swizzle = SwizzleOf(row);
  operand.stride = kAtomRows * row;
  operand.leading = operand.k_major ? kChunk : row == kChunk ? kAtomRows * row : Rows(type) * row;
  // Warp groups share the work along m and n; all of a group compute the same offset.
  const int64_t groups = is_a ? plan.groups_m() : plan.warps_n, span = is_a ? 64 : plan.instruction_n;
  operand.start = stage_offset;
  if (groups > 1) {
    Value& warp = thread_bits_[{-2}];
    if (!warp) {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPoint(head_);
      warp = b_.create<simt::WarpIdOp>(source_.getLoc(), b_.getI32Type());
    }
    Value group = Make<arith::ShRUIOp>(warp, I32(2 + (is_a ? llvm::Log2_64(plan.warps_n) : 0)));
    group = Make<arith::AndIOp>(group, I32(groups - 1));
    const int64_t image = operand.map.Offset(int32_t(is_a ? span * plan.k : span));
    operand.start = Make<arith::AddIOp>(operand.start, Make<arith::MulIOp>(group, I32(image)));
  }
  return operand;
}

Registers Emitter::EmitWgmma(tile::SharedDotOp op, const MatrixPlan& plan, Registers c) {
  const bool from_registers = bool(op.getA());
  // What asynchronous copies brought is in shared memory for every reader once it was waited for; what threads stored into
  // a ring is fenced there.
  const bool fenced = IsSynchronized(op.getBBuffer()) && (from_registers || IsSynchronized(op.getABuffer()));
  auto stage_type = [](Value buffer) { return cast<tile::SharedType>(buffer.getType()); };
  WgmmaOperand a, b = DescribeOperand(plan, false, op.getBBuffer(), StageOffset(stage_type(op.getBBuffer()), op.getBStage()), op.getBTransposed());
  FragmentWords words;
  Registers a_values;
  if (from_registers) {
    a_values = Get(op.getA());
    words = WordsOfRegisters(plan, true, a_values, plan.a);
  } else {
    a = DescribeOperand(plan, true, op.getABuffer(), StageOffset(stage_type(op.getABuffer()), op.getAStage()), op.getATransposed());
  }
  Type a_element = from_registers ? op.getA().getType().getElementType() : stage_type(op.getABuffer()).getElementType();
  const simt::MatrixType a_type = MatrixTypeOf(a_element), b_type = MatrixTypeOf(stage_type(op.getBBuffer()).getElementType());
  std::vector<std::vector<llvm::SmallVector<Value, 4>>> a_words(plan.steps_k());
  if (from_registers)
    for (int64_t step = 0; step < plan.steps_k(); ++step) a_words[step] = words(0, step);

  auto places = [&](int64_t tile_m, int64_t tile_n) {
    llvm::SmallVector<int32_t> list;
    for (int64_t i = 0; i < plan.instruction_n / 2; ++i)
      list.push_back(FragmentRegister(plan.c, 0, tile_m * plan.tile_rows() + 8 * (i >> 1 & 1), tile_n * plan.instruction_n * plan.warps_n + 8 * (i >> 2) + (i & 1)));
    return list;
  };
  // Products of steps [first, last) on top of `sums`.
  auto multiply = [&](int64_t first, int64_t last, Registers sums) {
    b_.create<simt::WgmmaFenceOp>(loc_, /*proxy=*/!fenced);
    for (int64_t tile_m = 0; tile_m < plan.tiles_m(); ++tile_m)
      for (int64_t tile_n = 0; tile_n < plan.tiles_n(); ++tile_n) {
        llvm::SmallVector<int32_t> registers = places(tile_m, tile_n);
        llvm::SmallVector<Value> values;
        for (int32_t r : registers) values.push_back(sums[r]);
        llvm::SmallVector<Type> types(values.size(), values[0].getType());
        for (int64_t step = first; step < last; ++step) {
          const int64_t k = step * plan.instruction_k;
          Value a_offset;
          if (!from_registers) a_offset = Make<arith::AddIOp>(a.start, I32(a.map.Offset(int32_t(tile_m * plan.tile_rows() * plan.k + k))));
          Value b_offset = Make<arith::AddIOp>(b.start, I32(b.map.Offset(int32_t(k * plan.n + tile_n * plan.instruction_n * plan.warps_n))));
          auto wgmma = b_.create<simt::WgmmaOp>(loc_, types, a.buffer, a_offset, from_registers ? ValueRange(a_words[step][tile_m]) : ValueRange(), b.buffer, b_offset,
                                                values, uint32_t(plan.instruction_n), uint32_t(plan.instruction_k), a_type, b_type, !from_registers && !a.k_major,
                                                !b.k_major, a.swizzle, uint32_t(a.leading), uint32_t(a.stride), b.swizzle, uint32_t(b.leading), uint32_t(b.stride));
          if (from_registers || IsSynchronized(op.getABuffer())) MarkOrdered(wgmma, op.getBBuffer());
          values.assign(wgmma.getResult().begin(), wgmma.getResult().end());
        }
        for (auto [r, value] : llvm::zip(registers, values)) sums[r] = value;
      }
    b_.create<simt::WgmmaCommitOp>(loc_);
    return sums;
  };
  // The unit adds 8-bit floats with few bits: at most so many products before the sum moves to full precision.
  const int64_t limit = op.getMaxNumImpreciseAcc();
  if (isa<FloatType>(a_element) && plan.element_bytes == 1 && limit > 0 && limit < plan.k) {
    const int64_t steps = std::max<int64_t>(1, limit / plan.instruction_k);
    for (int64_t first = 0; first < plan.steps_k(); first += steps) {
      Registers part(c.size(), Constant(c[0].getType(), 0));
      part = WaitForWgmma(0, multiply(first, std::min(first + steps, plan.steps_k()), part));
      for (size_t r = 0; r < c.size(); ++r) c[r] = b_.create<arith::AddFOp>(loc_, c[r], part[r]);
    }
    return c;
  }
  c = multiply(0, plan.steps_k(), c);
  return op.getAsynchronous() ? c : WaitForWgmma(0, c);
}

Registers Emitter::WaitForWgmma(int32_t pending, const Registers& values) {
  llvm::SmallVector<Type> types;
  for (Value value : values) types.push_back(value.getType());
  auto wait = b_.create<simt::WgmmaWaitOp>(loc_, types, pending, values);
  return Registers(wait.getResults().begin(), wait.getResults().end());
}

LogicalResult Emitter::EmitDotWait(tile::DotWaitOp op) {
  Set(op.getResult(), WaitForWgmma(op.getPending(), Get(op.getSource())));
  return success();
}

LogicalResult Emitter::EmitSharedDot(tile::SharedDotOp op) {
  Type a_type = op.getA() ? Type(op.getA().getType()) : OperandType(op.getABuffer(), op.getATransposed());
  Type b_type = OperandType(op.getBBuffer(), op.getBTransposed());
  std::optional<MatrixPlan> plan = PlanOf(op, options_);
  if (!plan || (op.getA() && LayoutOf(op.getA()) != plan->a)) return op.emitOpError("the operands are not in the fragments of the matrix unit");
  if (plan->unit == MatrixUnit::kWgmma) {
    Set(op.getResult(), EmitWgmma(op, *plan, Get(op.getC())));
    return success();
  }
  auto words = [&](bool is_a, Value tensor, Value buffer, Value stage, bool transposed) {
    if (tensor) return WordsOfRegisters(*plan, is_a, Get(tensor), plan->a);
    return WordsOfStage(*plan, is_a, buffer, StageOffset(cast<tile::SharedType>(buffer.getType()), stage), transposed);
  };
  Set(op.getResult(), EmitMma(*plan, plan->c, Get(op.getC()), MatrixTypeOf(cast<RankedTensorType>(a_type).getElementType()),
                              MatrixTypeOf(cast<RankedTensorType>(b_type).getElementType()),
                              words(true, op.getA(), op.getABuffer(), op.getAStage(), op.getATransposed()),
                              words(false, Value(), op.getBBuffer(), op.getBStage(), op.getBTransposed())));
  return success();
}

}  // namespace tessera::compiler
