// Shared memory: buffers, offsets without bank conflicts, and the conversion between any two layouts.
#include "compiler/conversion/tile_to_simt/emitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

constexpr int64_t kWidestAccess = 16;     // bytes
constexpr int kFirstBankBit = 2;          // of a byte offset: banks are words of 4 bytes,
constexpr int kBankBits = 7;              // and there are 32 of them
constexpr int64_t kConversionBytes = 32768;  // larger blocks are converted piece by piece

// Each basis is zero or one bit of its own.
bool IsPermutation(const LinearLayout& layout) {
  if (!layout.IsDisjoint()) return false;
  for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp})
    for (int32_t basis : layout.bases(input))
      if (basis & (basis - 1)) return false;
  return true;
}

}  // namespace

Type Emitter::SharedType(Type element) { return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : Emitted(element); }

Value Emitter::ToShared(Value value) {
  return value.getType().isInteger(1) ? b_.create<arith::ExtUIOp>(loc_, b_.getI8Type(), value).getResult() : value;
}

Value Emitter::FromShared(Value value, Type element) {
  return element.isInteger(1) ? b_.create<arith::TruncIOp>(loc_, b_.getI1Type(), value).getResult() : value;
}

Value Emitter::Allocate(int64_t bytes, int64_t alignment) {
  return b_.create<simt::AllocSharedOp>(loc_, static_cast<int32_t>(std::max<int64_t>(bytes, 4)), static_cast<int32_t>(alignment));
}

void Emitter::Free(Value buffer) { b_.create<simt::FreeSharedOp>(loc_, buffer); }

SharedMap Emitter::PlanShared(const LinearLayout& from, const LinearLayout& to, int64_t element_bytes) {
  SharedMap map;
  int bits = llvm::Log2_64(from.elements());
  map.images.assign(bits, 0);
  map.bytes = from.elements() * element_bytes;
  int first = llvm::Log2_64(element_bytes);
  auto is_in = [](ArrayRef<int32_t> bases, int bit) { return llvm::is_contained(bases, int32_t{1} << bit); };
  llvm::SmallVector<int32_t, 16>& order = map.by_position;  // flat bits by position, from the element's size on
  llvm::SmallVector<bool, 32> placed(bits, false);
  auto place = [&](int bit) {
    placed[bit] = true;
    order.push_back(bit);
  };
  if (!IsPermutation(from) || !IsPermutation(to)) {
    for (int bit = 0; bit < bits; ++bit) {
      map.images[bit] = static_cast<int32_t>(element_bytes << bit);
      place(bit);
    }
    return map;
  }
  bool lanes_write = llvm::any_of(from.bases(LinearLayout::kLane), [](int32_t basis) { return basis != 0; });
  // What both hold in registers is moved as vectors; where one lane of a warp writes, only readers count.
  for (int32_t basis : to.bases(LinearLayout::kRegister)) {
    if (element_bytes << (order.size() + 1) > kWidestAccess) break;
    int bit = llvm::Log2_32(basis);
    if (!lanes_write || is_in(from.bases(LinearLayout::kRegister), bit)) place(bit);
  }
  int vector_bits = first + static_cast<int>(order.size());
  // Neighbouring readers reach different banks.
  for (int32_t basis : to.bases(LinearLayout::kLane))
    if (basis != 0 && first + int(order.size()) < kBankBits) place(llvm::Log2_32(basis));
  for (int32_t basis : from.bases(LinearLayout::kLane))
    if (basis != 0 && first + int(order.size()) < kBankBits && !placed[llvm::Log2_32(basis)]) place(llvm::Log2_32(basis));
  // What both hold in registers comes last: conversions in pieces cut there.
  for (int held = 0; held <= 2; ++held)
    for (int bit = 0; bit < bits; ++bit)
      if (!placed[bit] && int(is_in(from.bases(LinearLayout::kRegister), bit)) + int(is_in(to.bases(LinearLayout::kRegister), bit)) == held)
        place(bit);
  llvm::SmallVector<int, 32> position(bits);
  for (auto [i, bit] : llvm::enumerate(order)) {
    position[bit] = first + static_cast<int>(i);
    map.images[bit] = int32_t{1} << position[bit];
  }
  // Neighbouring writers too: their bits far up are XORed into bank bits that no other of them moves.
  int lowest = std::max(kFirstBankBit, vector_bits);
  int32_t used = 0;
  llvm::SmallVector<int, 8> far;
  for (auto [i, basis] : llvm::enumerate(from.bases(LinearLayout::kLane))) {
    if (int(i) >= kBankBits - lowest || basis == 0) continue;
    int bit = llvm::Log2_32(basis);
    if (position[bit] < kBankBits) used |= 1 << position[bit];
    else far.push_back(bit);
  }
  for (int bit : far) {
    for (int bank = lowest; bank < kBankBits && bank < first + bits; ++bank) {
      if (used >> bank & 1) continue;
      used |= 1 << bank;
      map.images[bit] |= 1 << bank;
      break;
    }
  }
  return map;
}

LinearLayout::Vector Emitter::VectorIn(const SharedMap& map, const LinearLayout& layout, int64_t element_bytes) {
  LinearLayout::Vector vector;
  while (vector.size * 2 * element_bytes <= kWidestAccess) {
    int32_t step = static_cast<int32_t>(vector.size * element_bytes);
    int found = -1, movers = 0;
    for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp}) {
      for (auto [i, basis] : llvm::enumerate(layout.bases(input))) {
        int32_t image = map.Offset(basis);
        if (image & step) ++movers;
        if (image == step && input == LinearLayout::kRegister) found = static_cast<int>(i);
      }
    }
    if (found < 0 || movers != 1) break;
    vector.register_bits.push_back(found);
    vector.size *= 2;
  }
  return vector;
}

void Emitter::StoreShared(Value buffer, const SharedMap& map, const LinearLayout& layout, const Registers& values, const Filter& filter) {
  Type element = SharedType(values[0].getType());
  int64_t bytes = BytesOf(element);
  LinearLayout::Vector vector = VectorIn(map, layout, bytes);
  Registers offsets = Indices(layout, [&](int32_t flat) { return map.Offset(flat); });
  Value owner = Owner(layout);
  for (int32_t r = 0; r < layout.registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value predicate = owner;
    if (filter) {
      std::optional<Value> taken = filter(r);
      if (!taken) continue;
      predicate = And(predicate, *taken);
    }
    Value value = ToShared(values[r]);
    if (vector.size > 1) {
      llvm::SmallVector<Value> parts;
      for (int64_t i = 0; i < vector.size; ++i) parts.push_back(ToShared(values[vector.Register(r, i)]));
      value = b_.create<vector::FromElementsOp>(loc_, VectorType::get({vector.size}, element), parts);
    }
    b_.create<simt::StoreSharedOp>(loc_, buffer, offsets[r], value, predicate);
  }
}

Registers Emitter::LoadShared(Value buffer, const SharedMap& map, const LinearLayout& layout, Type element, const Filter& filter,
                              const Registers* otherwise, Value moved, int32_t moved_mask) {
  element = Emitted(element);
  Type stored = SharedType(element);
  int64_t bytes = BytesOf(stored);
  LinearLayout::Vector vector = VectorIn(map, layout, bytes);
  Registers offsets = Indices(layout, [&](int32_t flat) { return map.Offset(flat); }, moved, moved_mask);
  Registers results = otherwise ? *otherwise : Registers(layout.registers());
  for (int32_t r = 0; r < layout.registers(); ++r) {
    if (r & vector.Mask()) continue;
    Value predicate;
    if (filter) {
      std::optional<Value> taken = filter(r);
      if (!taken) continue;
      predicate = *taken;
    }
    Type type = vector.size == 1 ? stored : Type(VectorType::get({vector.size}, stored));
    Value loaded = b_.create<simt::LoadSharedOp>(loc_, type, buffer, offsets[r], predicate);
    for (int64_t i = 0; i < vector.size; ++i) {
      Value part = vector.size == 1 ? loaded : b_.create<vector::ExtractOp>(loc_, loaded, i).getResult();
      part = FromShared(part, element);
      Value& result = results[vector.Register(r, i)];
      result = predicate && result ? Make<arith::SelectOp>(predicate, part, result) : part;
    }
  }
  return results;
}

void Emitter::RemoveBit(SharedMap* map, int flat_bit) {
  int position = llvm::Log2_32(map->images[flat_bit]);
  for (int32_t& image : map->images) image = (image & ((1 << position) - 1)) | (image >> (position + 1) << position);
  map->images[flat_bit] = 0;
  map->by_position.erase(llvm::find(map->by_position, flat_bit));
  map->bytes /= 2;
}

// Whether a register belongs to a piece is known here, or follows from the thread's number.
Emitter::Filter Emitter::PieceFilter(const LinearLayout& layout, ArrayRef<int32_t> bits, int32_t piece) {
  if (bits.empty()) return nullptr;
  return [this, &layout, bits = llvm::SmallVector<int32_t, 8>(bits), piece](int32_t r) -> std::optional<Value> {
    int32_t flat = layout.ApplyTo(LinearLayout::kRegister, r);
    Value predicate;
    for (auto [i, bit] : llvm::enumerate(bits)) {
      llvm::SmallVector<int32_t, 8> lanes, warps;
      for (int32_t basis : layout.bases(LinearLayout::kLane)) lanes.push_back(basis >> bit & 1);
      for (int32_t basis : layout.bases(LinearLayout::kWarp)) warps.push_back(basis >> bit & 1);
      int32_t wanted = (piece >> i ^ flat >> bit) & 1;
      bool by_thread = llvm::is_contained(lanes, 1) || llvm::is_contained(warps, 1);
      if (!by_thread && wanted) return std::nullopt;
      if (by_thread) predicate = And(predicate, Make<arith::CmpIOp>(arith::CmpIPredicate::eq, ThreadBits(lanes, warps), I32(wanted)));
    }
    return predicate;
  };
}

Registers Emitter::Convert(const Registers& values, const LinearLayout& from, const LinearLayout& to) {
  if (auto registers = MapRegisters(to, from)) {
    Registers result;
    for (int32_t r : *registers) result.push_back(values[r]);
    return result;
  }
  if (std::optional<Registers> moved = ConvertAmongLanes(values, from, to)) return *std::move(moved);
  return ConvertThroughShared(values, from, to);
}

// Where each thread's elements lie in the same registers of one other lane of its warp: a shuffle a register.
std::optional<Registers> Emitter::ConvertAmongLanes(const Registers& values, const LinearLayout& from, const LinearLayout& to) {
  if (from.bases(LinearLayout::kWarp) != to.bases(LinearLayout::kWarp)) return std::nullopt;
  llvm::SmallVector<int32_t, 8> lanes, registers;
  for (int32_t basis : to.bases(LinearLayout::kLane)) {
    int32_t lane = 0;
    while (lane < 32 && from.ApplyTo(LinearLayout::kLane, lane) != basis) ++lane;
    if (lane == 32) return std::nullopt;
    lanes.push_back(lane);
  }
  for (int32_t basis : to.bases(LinearLayout::kRegister)) {
    std::optional<int32_t> reg = from.FindRegister(basis);
    if (!reg) return std::nullopt;
    registers.push_back(*reg);
  }
  Value lane = ThreadBits(lanes, {});
  Registers results;
  for (int32_t r = 0; r < to.registers(); ++r) {
    int32_t source = 0;
    for (auto [i, reg] : llvm::enumerate(registers))
      if (r >> i & 1) source ^= reg;
    results.push_back(Shuffle(simt::ShuffleKind::INDEX, values[source], lane));
  }
  return results;
}

Registers Emitter::ConvertThroughShared(const Registers& values, const LinearLayout& from, const LinearLayout& to) {
  Type element = values[0].getType();
  int64_t bytes = SharedBytes(element);
  SharedMap map = PlanShared(from, to, bytes);
  llvm::SmallVector<int32_t, 8> cut;  // flat bits that number the pieces
  while (map.bytes > kConversionBytes) {
    cut.push_back(map.by_position.back());
    RemoveBit(&map, cut.back());
  }
  Value buffer = Allocate(map.bytes);
  Registers results(to.registers());
  for (int32_t piece = 0; piece < 1 << cut.size(); ++piece) {
    StoreShared(buffer, map, from, values, PieceFilter(from, cut, piece));
    results = LoadShared(buffer, map, to, element, PieceFilter(to, cut, piece), &results);
  }
  Free(buffer);
  return results;
}

//===-- blocks that are read in slices --------------------------------------------------------------===//

LogicalResult Emitter::EmitSharedPut(tile::SharedPutOp op) {
  const LinearLayout from = LayoutOf(op.getValue());
  // Readers take one slice after the other, as if other warps held them.
  LinearLayout to = from;
  for (Operation* user : op->getUsers()) {
    auto reader = dyn_cast<tile::SharedSliceOp>(user);
    if (!reader) continue;
    const LinearLayout slice = LayoutOf(reader.getResult());
    std::array<LinearLayout::Bases, LinearLayout::kInputs> bases;
    for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp, LinearLayout::kBlock})
      bases[input].append(slice.bases(input).begin(), slice.bases(input).end());
    for (int64_t first = slice.elements(); first < from.elements(); first *= 2) bases[LinearLayout::kWarp].push_back(int32_t(first));
    to = LinearLayout(from.shape(), std::move(bases));
  }
  const Registers& values = Get(op.getValue());
  const SharedMap map = PlanShared(from, to, SharedBytes(values[0].getType()));
  Value buffer = Allocate(map.bytes);
  StoreShared(buffer, map, from, values);
  b_.create<simt::BarrierOp>(loc_);  // in front of the loop that reads
  Set(op.getResult(), {buffer});
  put_[op.getResult()] = map;
  return success();
}

LogicalResult Emitter::EmitSharedSlice(tile::SharedSliceOp op) {
  const SharedMap& map = put_[op.getBuffer()];
  const LinearLayout layout = LayoutOf(op.getResult());
  llvm::SmallVector<int32_t, 8> images(map.images.begin() + llvm::Log2_64(layout.elements()), map.images.end());
  int32_t mask = 0;
  for (int32_t image : images) mask |= image;
  Value moved = images.empty() ? Value() : SpreadBits(Scalar(op.getIndex()), images, int(images.size()));
  Set(op.getResult(), LoadShared(Scalar(op.getBuffer()), map, layout, Emitted(op.getResult().getType()), nullptr, nullptr, moved, mask));
  return success();
}

}  // namespace tessera::compiler
