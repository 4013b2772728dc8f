// Inclusive scans, in the order of the axis. The bits of the axis are taken from the lowest up, a group of one kind
// (registers, lanes, warps) at a time; before each group
//   values[r]  is the scan inside the blocks that the bits so far span,
//   totals[c]  the result over a whole such block, known to all threads of the block (c: register, axis bits so far clear).
#include "compiler/conversion/tile_to_simt/emitter.h"

namespace tessera::compiler {

using namespace mlir;

namespace {

struct AxisBit {
  LinearLayout::Input kind;
  int index = 0;  // bit of the register, lane or warp number
};

// The places of the bits of `axis`, lowest first; nothing where they are not one each.
std::optional<std::vector<AxisBit>> BitsOfAxis(const LinearLayout& layout, int axis) {
  std::vector<AxisBit> bits;
  if (!layout.IsDisjoint()) return std::nullopt;
  for (int64_t step = 1; step < layout.shape()[axis]; step *= 2) {
    int32_t flat = static_cast<int32_t>(step * layout.Stride(axis));
    bool found = false;
    for (auto input : {LinearLayout::kRegister, LinearLayout::kLane, LinearLayout::kWarp}) {
      for (auto [i, basis] : llvm::enumerate(layout.bases(input))) {
        if (basis != flat) continue;
        bits.push_back({input, static_cast<int>(i)});
        found = true;
      }
    }
    if (!found) return std::nullopt;
  }
  return bits;
}

}  // namespace

LogicalResult Emitter::EmitScan(tile::ScanOp op) {
  int axis = static_cast<int>(op.getAxis());
  bool reverse = op.getReverse();
  Region& region = op.getCombine();
  LinearLayout home = LayoutOf(op.getSources()[0]), layout = home;
  size_t n = op.getSources().size();
  std::vector<Registers> sources;
  for (Value source : op.getSources()) sources.push_back(Get(source));
  std::optional<std::vector<AxisBit>> bits = BitsOfAxis(layout, axis);
  if (!bits) {
    layout = PlainLayout(layout.shape());
    for (Registers& source : sources) source = Convert(source, home, layout);
    bits = BitsOfAxis(layout, axis);
  }
  // One tuple a register.
  std::vector<Registers> values(layout.registers()), totals;
  for (int32_t r = 0; r < layout.registers(); ++r)
    for (const Registers& source : sources) values[r].push_back(source[r]);
  totals = values;
  auto prefix_all = [&](int32_t klass, int32_t done, const Registers& prefix, Value where) {
    // Every register of the class, whatever its axis bits so far.
    for (int32_t r = 0; r < layout.registers(); ++r) {
      if ((r & ~done) != klass) continue;
      Registers joined = Combine(region, prefix, values[r]);
      for (size_t i = 0; i < n; ++i) values[r][i] = where ? Make<arith::SelectOp>(where, joined[i], values[r][i]) : joined[i];
    }
  };

  int32_t done_registers = 0, done_lanes = 0, done_warps = 0;
  int32_t done_flat = 0;  // flat bits of the axis so far
  for (size_t first = 0; first < bits->size();) {
    LinearLayout::Input kind = (*bits)[first].kind;
    std::vector<int> group;
    int32_t mask = 0, flat_mask = 0;
    for (; first < bits->size() && (*bits)[first].kind == kind; ++first) {
      group.push_back((*bits)[first].index);
      mask |= 1 << (*bits)[first].index;
      flat_mask |= static_cast<int32_t>((int64_t{1} << first) * layout.Stride(axis));
    }
    // The member of the group at place `v` in the order of the scan.
    auto member = [&](int32_t v) {
      int32_t number = 0;
      for (auto [i, bit] : llvm::enumerate(group))
        if ((v >> i & 1) != int(reverse)) number |= 1 << bit;
      return number;
    };
    int32_t count = 1 << group.size();
    if (kind == LinearLayout::kRegister) {
      for (int32_t klass = 0; klass < layout.registers(); ++klass) {
        if (klass & (done_registers | mask)) continue;
        Registers prefix = totals[klass | member(0)];
        for (int32_t v = 1; v < count; ++v) {
          int32_t at = klass | member(v);
          if (done_flat == 0) {
            values[at] = prefix = Combine(region, prefix, values[at]);
            continue;
          }
          prefix_all(at, done_registers, prefix, nullptr);
          prefix = Combine(region, prefix, totals[at]);
        }
        totals[klass] = prefix;
      }
      done_registers |= mask;
    } else if (kind == LinearLayout::kLane) {
      for (int32_t klass = 0; klass < layout.registers(); ++klass) {
        if (klass & done_registers) continue;
        Registers inclusive = totals[klass], before;
        int32_t lower = 0;
        for (int bit : group) {
          // The last lane, in the order of the scan, of the half before mine.
          Value lane = Make<arith::AndIOp>(LaneId(), I32(31 & ~(lower | 1 << bit)));
          int32_t set = reverse ? 1 << bit : lower;
          if (set) lane = Make<arith::OrIOp>(lane, I32(set));
          Value second = ThreadTest(1 << bit), not_first = lower ? ThreadTest(lower, reverse) : nullptr;
          if (reverse) second = Not(second);
          Registers half;
          for (size_t i = 0; i < n; ++i) half.push_back(Shuffle(simt::ShuffleKind::INDEX, inclusive[i], lane));
          Registers joined = Combine(region, half, inclusive);
          if (before.empty()) {
            before = half;
          } else {
            Registers longer = Combine(region, half, before);
            for (size_t i = 0; i < n; ++i) {
              Value mine = Make<arith::SelectOp>(not_first, longer[i], half[i]);
              before[i] = Make<arith::SelectOp>(second, mine, before[i]);
            }
          }
          for (size_t i = 0; i < n; ++i) inclusive[i] = Make<arith::SelectOp>(second, joined[i], inclusive[i]);
          lower |= 1 << bit;
        }
        prefix_all(klass, done_registers, before, ThreadTest(mask, reverse));
        Value last = Make<arith::AndIOp>(LaneId(), I32(31 & ~mask));
        if (!reverse) last = Make<arith::OrIOp>(last, I32(mask));
        for (size_t i = 0; i < n; ++i) totals[klass][i] = Shuffle(simt::ShuffleKind::INDEX, inclusive[i], last);
      }
      done_lanes |= mask;
    } else {
      // All totals of the group come to each thread. Flat indices without the bits so far number them.
      auto compress = [&](int32_t flat) {
        int32_t result = 0;
        for (int bit = 0, next = 0; bit < 31; ++bit) {
          if ((done_flat | flat_mask) >> bit & 1) continue;
          if (flat >> bit & 1) result |= 1 << next;
          ++next;
        }
        return result;
      };
      int32_t elements = static_cast<int32_t>(layout.elements() >> llvm::popcount(static_cast<uint32_t>(done_flat | flat_mask)));
      std::array<LinearLayout::Bases, LinearLayout::kInputs> from;
      std::vector<int32_t> classes;
      for (int32_t klass = 0; klass < layout.registers(); ++klass)
        if (!(klass & done_registers)) classes.push_back(klass);
      for (auto [i, basis] : llvm::enumerate(layout.bases(LinearLayout::kRegister)))
        if (!(done_registers >> i & 1)) from[LinearLayout::kRegister].push_back(compress(basis));
      for (int32_t basis : layout.bases(LinearLayout::kLane)) from[LinearLayout::kLane].push_back(compress(basis));
      for (int32_t basis : layout.bases(LinearLayout::kWarp)) from[LinearLayout::kWarp].push_back(compress(basis));
      auto to = from;
      for (auto [i, bit] : llvm::enumerate(group)) {
        from[LinearLayout::kWarp][bit] = elements << i;
        to[LinearLayout::kRegister].push_back(elements << i);
      }
      LinearLayout::Coordinates shape = {count, elements};
      LinearLayout from_layout(shape, from), to_layout(shape, to);
      std::vector<Registers> all;
      for (size_t i = 0; i < n; ++i) {
        Registers mine;
        for (int32_t klass : classes) mine.push_back(totals[klass][i]);
        all.push_back(ConvertThroughShared(mine, from_layout, to_layout));
      }
      llvm::SmallVector<int32_t, 5> images(layout.bits(LinearLayout::kWarp), 0);
      for (auto [i, bit] : llvm::enumerate(group)) images[bit] = 1 << i;
      Value place = ThreadBits({}, images);
      for (size_t c = 0; c < classes.size(); ++c) {
        int32_t klass = classes[c];
        auto total = [&](int32_t v) {
          int32_t w = reverse ? count - 1 - v : v;
          Registers tuple;
          for (size_t i = 0; i < n; ++i) tuple.push_back(all[i][w * classes.size() + c]);
          return tuple;
        };
        Registers prefix = total(0), mine = prefix;
        for (int32_t v = 1; v < count; ++v) {
          if (v > 1) {
            Value here = Make<arith::CmpIOp>(arith::CmpIPredicate::eq, place, I32(reverse ? count - 1 - v : v));
            for (size_t i = 0; i < n; ++i) mine[i] = Make<arith::SelectOp>(here, prefix[i], mine[i]);
          }
          prefix = Combine(region, prefix, total(v));
        }
        Value not_first = Make<arith::CmpIOp>(arith::CmpIPredicate::ne, place, I32(reverse ? count - 1 : 0));
        prefix_all(klass, done_registers, mine, not_first);
        totals[klass] = prefix;
      }
      done_warps |= mask;
    }
    done_flat |= flat_mask;
  }
  if (combine_failed_) return failure();
  for (auto [i, result] : llvm::enumerate(op.getResult())) {
    Registers registers;
    for (const Registers& tuple : values) registers.push_back(tuple[i]);
    Set(result, Convert(registers, layout, LayoutOf(result)));
  }
  return success();
}

}  // namespace tessera::compiler
