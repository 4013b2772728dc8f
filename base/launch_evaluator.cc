#include "base/launch_evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

using storage::IndexNode;
using storage::LaunchFacts;

int64_t SignExtend(int64_t value, unsigned bits) {
  if (bits >= 64) return value;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}

}  // namespace

int64_t ScaleFraction(double fraction, int64_t extent) {
  return std::clamp<int64_t>(static_cast<int64_t>(fraction * static_cast<double>(extent)), 0,
                             std::max<int64_t>(extent - 1, 0));
}

uint64_t ZeroExtend(int64_t value, unsigned bits) {
  return bits >= 64 ? static_cast<uint64_t>(value)
                    : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

LaunchEvaluator::LaunchEvaluator(const LaunchFacts& facts, std::vector<uint64_t> scalars,
                                 const uint32_t grid[3], const std::vector<LaunchPoint>& points)
    : facts_(facts),
      scalars_(std::move(scalars)),
      grid_{grid[0], grid[1], grid[2]},
      points_(points),
      values_(facts.nodes_size()),
      trips_(facts.loops_size()) {
  by_lane_.resize(facts.nodes_size());
  for (int i = 0; i < facts.nodes_size(); ++i) {
    const IndexNode& node = facts.nodes(i);
    by_lane_[i] = node.kind() == IndexNode::LANE;
    for (uint32_t operand : node.operands()) by_lane_[i] = by_lane_[i] || by_lane_[operand];
  }
}

void LaunchEvaluator::SetShape(std::vector<int64_t> shape) {
  shape_ = std::move(shape);
  for (size_t i = 0; i < values_.size(); ++i)
    if (by_lane_[i]) values_[i].clear();
}

const std::vector<int64_t>& LaunchEvaluator::Of(uint32_t node) {
  std::vector<int64_t>& values = values_[node];
  if (values.empty()) {
    values.resize(points_.size());
    Fill(facts_.nodes(node), &values);
  }
  return values_[node];
}

const std::vector<int64_t>& LaunchEvaluator::Trips(uint32_t loop) {
  std::vector<int64_t>& trips = trips_[loop];
  if (trips.empty()) {
    trips.resize(points_.size());
    const std::vector<int64_t>& lower = Of(facts_.loops(loop).lower());
    const std::vector<int64_t>& upper = Of(facts_.loops(loop).upper());
    const std::vector<int64_t>& step = Of(facts_.loops(loop).step());
    for (size_t p = 0; p < trips.size(); ++p) {
      Wide distance = Wide{upper[p]} - lower[p];
      trips[p] = step[p] <= 0 || distance <= 0
                     ? 0
                     : static_cast<int64_t>((distance + step[p] - 1) / step[p]);
    }
  }
  return trips_[loop];
}

int64_t LaunchEvaluator::Lane(size_t point, int dimension) const {
  return dimension < static_cast<int>(shape_.size()) && dimension < LaunchPoint::kMaxRank
             ? ScaleFraction(points_[point].lane[dimension], shape_[dimension])
             : 0;
}

LaunchEvaluator::Wide LaunchEvaluator::Exact(uint32_t node, size_t point, bool is_unsigned) {
  const IndexNode& at = facts_.nodes(node);
  auto operand = [&](int i) -> Wide {
    int64_t value = Of(at.operands(i))[point];
    return is_unsigned ? Wide{ZeroExtend(value, at.bits())} : Wide{value};
  };
  switch (at.kind()) {
    case IndexNode::ADD:
      return operand(0) + operand(1);
    case IndexNode::SUB:
      return operand(0) - operand(1);
    case IndexNode::MUL:
      return operand(0) * operand(1);
    case IndexNode::SHIFT_LEFT: {
      int64_t by = Of(at.operands(1))[point];
      return by >= 0 && by < static_cast<int64_t>(at.bits()) ? operand(0) * (Wide{1} << by)
                                                             : Wide{0};
    }
    default:
      return Of(node)[point];
  }
}

std::string LaunchEvaluator::Operation(uint32_t node, size_t point, bool is_unsigned) {
  const IndexNode& at = facts_.nodes(node);
  const char* symbol = at.kind() == IndexNode::ADD   ? " + "
                       : at.kind() == IndexNode::SUB ? " - "
                       : at.kind() == IndexNode::MUL ? " * "
                                                     : " << ";
  auto text = [&](int i) {
    int64_t value = Of(at.operands(i))[point];
    return is_unsigned ? absl::StrCat(ZeroExtend(value, at.bits())) : absl::StrCat(value);
  };
  return absl::StrCat(text(0), symbol, text(1));
}

void LaunchEvaluator::Fill(const IndexNode& node, std::vector<int64_t>* values) {
  const unsigned bits = node.bits();
  auto set = [&](auto value_at) {
    for (size_t p = 0; p < points_.size(); ++p)
      (*values)[p] = SignExtend(static_cast<int64_t>(value_at(p)), bits);
  };
  switch (node.kind()) {
    case IndexNode::CONSTANT:
      return set([&](size_t) { return node.value(); });
    case IndexNode::PARAMETER: {
      uint64_t slot =
          node.value() < static_cast<int64_t>(scalars_.size()) ? scalars_[node.value()] : 0;
      return set([&](size_t) { return slot; });
    }
    case IndexNode::PROGRAM_ID:
      return set([&](size_t p) { return points_[p].pid[node.value() % 3]; });
    case IndexNode::NUM_PROGRAMS:
      return set([&](size_t) { return grid_[node.value() % 3]; });
    case IndexNode::LANE:
      return set([&](size_t p) { return Lane(p, static_cast<int>(node.value())); });
    case IndexNode::ITERATION: {
      const std::vector<int64_t> trips = Trips(static_cast<uint32_t>(node.value()));
      return set([&](size_t p) { return ScaleFraction(points_[p].iteration, trips[p]); });
    }
    default:
      break;
  }
  // Copies would cost more than this: Of() of an operand never moves a vector that is filled.
  const std::vector<int64_t>& a = Of(node.operands(0));
  const std::vector<int64_t>& b = Of(node.operands(std::min(1, node.operands_size() - 1)));
  const unsigned operand_bits = facts_.nodes(node.operands(0)).bits();
  auto unsigned_a = [&](size_t p) { return ZeroExtend(a[p], operand_bits); };
  auto unsigned_b = [&](size_t p) { return ZeroExtend(b[p], operand_bits); };
  auto shift = [&](size_t p) {
    return b[p] >= 0 && b[p] < static_cast<int64_t>(bits) ? b[p] : 0;
  };
  switch (node.kind()) {
    case IndexNode::ADD:
      return set(
          [&](size_t p) { return static_cast<uint64_t>(a[p]) + static_cast<uint64_t>(b[p]); });
    case IndexNode::SUB:
      return set(
          [&](size_t p) { return static_cast<uint64_t>(a[p]) - static_cast<uint64_t>(b[p]); });
    case IndexNode::MUL:
      return set(
          [&](size_t p) { return static_cast<uint64_t>(a[p]) * static_cast<uint64_t>(b[p]); });
    case IndexNode::SHIFT_LEFT:
      return set([&](size_t p) { return static_cast<uint64_t>(a[p]) << shift(p); });
    case IndexNode::SHIFT_RIGHT_SIGNED:
      return set([&](size_t p) { return a[p] >> shift(p); });
    case IndexNode::SHIFT_RIGHT_UNSIGNED:
      return set([&](size_t p) { return unsigned_a(p) >> shift(p); });
    case IndexNode::DIV_SIGNED:
      return set([&](size_t p) {
        if (b[p] == 0 || b[p] == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a[p]));
        return a[p] / b[p];
      });
    case IndexNode::DIV_UNSIGNED:
      return set(
          [&](size_t p) { return unsigned_b(p) == 0 ? 0 : unsigned_a(p) / unsigned_b(p); });
    case IndexNode::REM_SIGNED:
      return set([&](size_t p) { return b[p] == 0 || b[p] == -1 ? 0 : a[p] % b[p]; });
    case IndexNode::REM_UNSIGNED:
      return set(
          [&](size_t p) { return unsigned_b(p) == 0 ? 0 : unsigned_a(p) % unsigned_b(p); });
    case IndexNode::MIN_SIGNED:
      return set([&](size_t p) { return std::min(a[p], b[p]); });
    case IndexNode::MAX_SIGNED:
      return set([&](size_t p) { return std::max(a[p], b[p]); });
    case IndexNode::MIN_UNSIGNED:
      return set([&](size_t p) { return std::min(unsigned_a(p), unsigned_b(p)); });
    case IndexNode::MAX_UNSIGNED:
      return set([&](size_t p) { return std::max(unsigned_a(p), unsigned_b(p)); });
    case IndexNode::AND:
      return set([&](size_t p) { return a[p] & b[p]; });
    case IndexNode::OR:
      return set([&](size_t p) { return a[p] | b[p]; });
    case IndexNode::XOR:
      return set([&](size_t p) { return a[p] ^ b[p]; });
    case IndexNode::SIGN_EXTEND:
    case IndexNode::TRUNCATE:
      return set([&](size_t p) { return a[p]; });
    case IndexNode::ZERO_EXTEND:
      return set(unsigned_a);
    case IndexNode::EQUAL:
      return set([&](size_t p) { return a[p] == b[p]; });
    case IndexNode::NOT_EQUAL:
      return set([&](size_t p) { return a[p] != b[p]; });
    case IndexNode::LESS_SIGNED:
      return set([&](size_t p) { return a[p] < b[p]; });
    case IndexNode::LESS_EQUAL_SIGNED:
      return set([&](size_t p) { return a[p] <= b[p]; });
    case IndexNode::LESS_UNSIGNED:
      return set([&](size_t p) { return unsigned_a(p) < unsigned_b(p); });
    case IndexNode::LESS_EQUAL_UNSIGNED:
      return set([&](size_t p) { return unsigned_a(p) <= unsigned_b(p); });
    case IndexNode::SELECT: {
      const std::vector<int64_t>& c = Of(node.operands(2));
      return set([&](size_t p) { return a[p] != 0 ? b[p] : c[p]; });
    }
    default:
      return;
  }
}

}  // namespace tessera
