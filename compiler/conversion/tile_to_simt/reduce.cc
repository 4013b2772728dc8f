// Reductions: in each thread, then among the lanes of a warp by shuffles, then among warps through shared memory.
//
// Float sums round by their order. It is Triton's: a thread adds its elements from first to last, then lanes and warps
// are folded in halves, the farthest first.
#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

// The bits of a flat index that belong to the axis, and the others.
bool MixesAxis(const LinearLayout& layout, int32_t axis_mask) {
  for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp})
    for (int32_t basis : layout.bases(input))
      if ((basis & axis_mask) && (basis & ~axis_mask)) return true;
  return !layout.IsDisjoint();
}

// The combine region is one operation that does not mind the order of its operands.
bool IsCommutative(Region& region) {
  Block& body = region.front();
  if (body.getOperations().size() != 2) return false;
  Operation& op = body.front();
  return op.hasTrait<OpTrait::IsCommutative>() && op.getNumOperands() == 2 && op.getOperand(0) != op.getOperand(1);
}

bool IsFloatSum(Region& region) { return isa<arith::AddFOp>(region.front().front()) && IsCommutative(region); }

}  // namespace

Registers Emitter::Combine(Region& region, const Registers& left, const Registers& right) {
  Block& body = region.front();
  size_t n = left.size();
  for (size_t i = 0; i < n; ++i) {
    Set(body.getArgument(i), {left[i]});
    Set(body.getArgument(n + i), {right[i]});
  }
  Registers results;
  bool outer = divergent_;
  divergent_ = true;
  for (Operation& op : body.without_terminator())
    if (failed(EmitOp(&op))) combine_failed_ = true;
  divergent_ = outer;
  if (combine_failed_) return left;
  for (Value value : body.getTerminator()->getOperands()) results.push_back(Scalar(value));
  return results;
}

// A layout of the same shape without replication across the axis's bits, for layouts that no other way is known for.
LinearLayout Emitter::PlainLayout(ArrayRef<int64_t> shape) const {
  llvm::SmallVector<int32_t, 4> order;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) order.push_back(d);
  return LinearLayout::Coalesced(shape, 1, options_.num_warps, order);
}

LogicalResult Emitter::EmitReduce(tile::ReduceOp op) {
  int axis = static_cast<int>(op.getAxis());
  LinearLayout layout = LayoutOf(op.getSources()[0]);
  std::vector<Registers> sources;
  for (Value source : op.getSources()) sources.push_back(Get(source));
  std::vector<Registers> results = ReduceValues(op.getCombine(), sources, &layout, axis, op.getOrdered());
  if (combine_failed_) return failure();
  LinearLayout reduced = layout.Sliced(axis);
  for (auto [result, registers] : llvm::zip(op.getResult(), results)) {
    auto wanted = tile::LayoutOf(result.getType());
    Set(result, wanted ? Convert(registers, reduced, *wanted) : Registers{registers[0]});
  }
  return success();
}

std::vector<Registers> Emitter::ReduceValues(Region& region, std::vector<Registers> sources, LinearLayout* layout, int axis, bool ordered) {
  size_t n = sources.size();
  int32_t axis_mask = layout->DimMask(axis);
  auto move_to = [&](const LinearLayout& to) {
    for (Registers& source : sources) source = Convert(source, *layout, to);
    *layout = to;
  };
  if (ordered) {
    // The whole axis in each thread.
    LinearLayout::Coordinates one(layout->rank(), 1), per_thread(layout->rank(), 1), lanes(layout->rank(), 1), warps(layout->rank(), 1);
    llvm::SmallVector<int32_t, 4> order;
    for (int d = layout->rank() - 1; d >= 0; --d) order.push_back(d);
    per_thread[axis] = layout->shape()[axis];
    int other = layout->rank() == 1 ? 0 : (axis == 0 ? 1 : 0);
    lanes[other] *= 32;
    warps[other] *= options_.num_warps;
    move_to(LinearLayout::Blocked(layout->shape(), per_thread, lanes, warps, order));
  } else if (MixesAxis(*layout, axis_mask)) {
    move_to(PlainLayout(layout->shape()));
  }
  bool commutative = IsCommutative(region);

  // In the thread: neighbours in a tree, or one after the other.
  std::map<int32_t, std::vector<std::pair<int32_t, int32_t>>> groups;  // rest of the flat index: (place along the axis, register)
  for (int32_t r = 0; r < layout->registers(); ++r) {
    int32_t flat = layout->ApplyTo(LinearLayout::kRegister, r);
    groups[flat & ~axis_mask].push_back({flat & axis_mask, r});
  }
  LinearLayout reduced = layout->Sliced(axis);
  int64_t stride = layout->Stride(axis), extent = layout->shape()[axis];
  auto without_axis = [=](int32_t flat) { return static_cast<int32_t>(flat / (stride * extent) * stride + flat % stride); };
  std::vector<Registers> values(n, Registers(reduced.registers()));
  for (auto& [rest, members] : groups) {
    llvm::sort(members);
    std::vector<Registers> tree;
    for (auto [place, r] : members) {
      Registers tuple;
      for (const Registers& source : sources) tuple.push_back(source[r]);
      tree.push_back(std::move(tuple));
    }
    if (ordered || IsFloatSum(region)) {
      for (size_t i = 1; i < tree.size(); ++i) tree[0] = Combine(region, tree[0], tree[i]);
      tree.resize(1);
    }
    while (tree.size() > 1) {
      std::vector<Registers> next;
      for (size_t i = 0; i + 1 < tree.size(); i += 2) next.push_back(Combine(region, tree[i], tree[i + 1]));
      tree = std::move(next);
    }
    int32_t reg = *reduced.FindRegister(without_axis(rest));
    for (size_t i = 0; i < n; ++i) values[i][reg] = tree[0][i];
  }

  // Among lanes.
  llvm::SmallVector<std::pair<int32_t, int>, 5> lanes;  // place along the axis, lane bit
  for (auto [bit, basis] : llvm::enumerate(layout->bases(LinearLayout::kLane)))
    if (basis & axis_mask) lanes.push_back({basis, static_cast<int>(bit)});
  if (commutative) llvm::sort(lanes, std::greater<>());
  for (auto [place, bit] : lanes) {
    Value upper = commutative ? nullptr : ThreadTest(1 << bit);
    for (int32_t r = 0; r < reduced.registers(); ++r) {
      Registers own, other;
      for (size_t i = 0; i < n; ++i) {
        own.push_back(values[i][r]);
        other.push_back(Shuffle(simt::ShuffleKind::XOR, values[i][r], I32(1 << bit)));
      }
      Registers left = own, right = other;
      if (upper) {
        for (size_t i = 0; i < n; ++i) {
          left[i] = Make<arith::SelectOp>(upper, other[i], own[i]);
          right[i] = Make<arith::SelectOp>(upper, own[i], other[i]);
        }
      }
      Registers both = Combine(region, left, right);
      for (size_t i = 0; i < n; ++i) values[i][r] = both[i];
    }
  }

  // Among warps: all partial results of the axis come to each thread.
  llvm::SmallVector<std::pair<int32_t, int>, 5> along;  // place along the axis, warp bit
  for (auto [bit, basis] : llvm::enumerate(layout->bases(LinearLayout::kWarp)))
    if (basis & axis_mask) along.push_back({basis, static_cast<int>(bit)});
  if (along.empty()) return values;
  llvm::sort(along);
  int32_t elements = static_cast<int32_t>(reduced.elements());
  auto bases_of = [&](LinearLayout::Input input) { return LinearLayout::Bases(reduced.bases(input).begin(), reduced.bases(input).end()); };
  std::array<LinearLayout::Bases, LinearLayout::kInputs> from = {bases_of(LinearLayout::kRegister), bases_of(LinearLayout::kLane), bases_of(LinearLayout::kWarp), {}};
  auto to = from;
  for (auto [i, place_bit] : llvm::enumerate(along)) {
    from[LinearLayout::kWarp][place_bit.second] = elements << i;
    to[LinearLayout::kRegister].push_back(elements << i);
  }
  LinearLayout::Coordinates shape = {int64_t{1} << along.size(), elements};
  LinearLayout from_layout(shape, from), to_layout(shape, to);
  for (Registers& registers : values) registers = ConvertThroughShared(registers, from_layout, to_layout);
  int32_t count = reduced.registers();
  std::vector<Registers> results(n, Registers(count));
  for (int32_t r = 0; r < count; ++r) {
    std::vector<Registers> partial(size_t{1} << along.size());
    for (auto [w, tuple] : llvm::enumerate(partial))
      for (size_t i = 0; i < n; ++i) tuple.push_back(values[i][w * count + r]);
    if (commutative) {
      for (; partial.size() > 1; partial.resize(partial.size() / 2))
        for (size_t w = 0; w < partial.size() / 2; ++w) partial[w] = Combine(region, partial[w], partial[w + partial.size() / 2]);
    }
    for (size_t w = 1; w < partial.size(); ++w) partial[0] = Combine(region, partial[0], partial[w]);
    for (size_t i = 0; i < n; ++i) results[i][r] = partial[0][i];
  }
  return results;
}

}  // namespace tessera::compiler
