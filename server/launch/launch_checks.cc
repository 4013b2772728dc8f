#include "server/launch/launch_checks.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

using storage::IndexNode;
using storage::LaunchFacts;
using Wide = __int128;

constexpr int kPoints = 384;
constexpr int kMaxRank = 5;
// A block's mask is looked at lane by lane up to this many lanes, else at so many of them.
constexpr int64_t kMaxTailLanes = 4096;
constexpr int64_t kMinTailLanes = 128;
constexpr double kFewLanes = 0.55;
constexpr int64_t kLargeBlock = 1024;
constexpr uint64_t kManyPrograms = 8;

// A lane of a program instance. Fractions stand for what depends on the access: lanes and
// iterations.
struct Point {
  uint32_t pid[3] = {0, 0, 0};
  double lane[kMaxRank] = {0, 0, 0, 0, 0};
  double iteration = 0;
};

int64_t Scale(double fraction, int64_t extent) {
  return std::clamp<int64_t>(static_cast<int64_t>(fraction * static_cast<double>(extent)), 0,
                             std::max<int64_t>(extent - 1, 0));
}

// First the corners, then points in between.
std::vector<Point> MakePoints(const uint32_t grid[3]) {
  std::vector<Point> points;
  constexpr double kLast = 1;
  for (int corner = 0; corner < 128; ++corner) {
    Point point;
    for (int axis = 0; axis < 3; ++axis) point.pid[axis] = corner >> axis & 1 ? grid[axis] - 1 : 0;
    for (int d = 0; d < kMaxRank; ++d)
      point.lane[d] = corner >> (3 + std::min(d, 2)) & 1 ? kLast : 0;
    point.iteration = corner >> 6 & 1 ? kLast : 0;
    points.push_back(point);
  }
  std::mt19937 random(1);
  auto fraction = [&] {
    uint32_t draw = random() % 1024;
    return draw < 256 ? 0.0 : draw < 512 ? kLast : (random() % 65536) / 65536.0;
  };
  while (points.size() < kPoints) {
    Point point;
    for (int axis = 0; axis < 3; ++axis)
      point.pid[axis] = static_cast<uint32_t>(Scale(fraction(), grid[axis]));
    for (double& lane : point.lane) lane = fraction();
    point.iteration = fraction();
    points.push_back(point);
  }
  return points;
}

int64_t SignExtend(int64_t value, unsigned bits) {
  if (bits >= 64) return value;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}
uint64_t ZeroExtend(int64_t value, unsigned bits) {
  return bits >= 64 ? static_cast<uint64_t>(value)
                    : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

// Values of nodes at points. One block shape at a time: lanes are relative to it.
class Evaluator {
 public:
  Evaluator(const LaunchFacts& facts, const std::vector<CheckedParameter>& parameters,
            const uint32_t grid[3], const std::vector<Point>& points)
      : facts_(facts),
        parameters_(parameters),
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

  void SetShape(std::vector<int64_t> shape) {
    shape_ = std::move(shape);
    for (size_t i = 0; i < values_.size(); ++i)
      if (by_lane_[i]) values_[i].clear();
  }

  // Two's complement of the node's width, sign-extended; for each point.
  const std::vector<int64_t>& Of(uint32_t node) {
    std::vector<int64_t>& values = values_[node];
    if (values.empty()) {
      values.resize(points_.size());
      Fill(facts_.nodes(node), &values);
    }
    return values_[node];
  }

  // How often a loop runs, for each point.
  const std::vector<int64_t>& Trips(uint32_t loop) {
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

  int64_t Lane(size_t point, int dimension) const {
    return dimension < static_cast<int>(shape_.size()) && dimension < kMaxRank
               ? Scale(points_[point].lane[dimension], shape_[dimension])
               : 0;
  }

  // The exact result of an addition and so on, from operands as they are.
  Wide Exact(uint32_t node, size_t point, bool is_unsigned) {
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

  std::string Operation(uint32_t node, size_t point, bool is_unsigned) {
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

 private:
  void Fill(const IndexNode& node, std::vector<int64_t>* values) {
    const unsigned bits = node.bits();
    auto set = [&](auto value_at) {
      for (size_t p = 0; p < points_.size(); ++p)
        (*values)[p] = SignExtend(static_cast<int64_t>(value_at(p)), bits);
    };
    switch (node.kind()) {
      case IndexNode::CONSTANT:
        return set([&](size_t) { return node.value(); });
      case IndexNode::PARAMETER: {
        uint64_t slot = node.value() < static_cast<int64_t>(parameters_.size())
                            ? parameters_[node.value()].bits
                            : 0;
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
        return set([&](size_t p) { return Scale(points_[p].iteration, trips[p]); });
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

  const LaunchFacts& facts_;
  const std::vector<CheckedParameter>& parameters_;
  const uint32_t grid_[3];
  const std::vector<Point>& points_;
  std::vector<std::vector<int64_t>> values_;  // empty: not evaluated
  std::vector<bool> by_lane_;
  std::vector<std::vector<int64_t>> trips_;
  std::vector<int64_t> shape_;
};

std::string Note(const storage::SourcePlace& at, absl::string_view text) {
  std::string note = absl::StrCat(at.place(), at.place().empty() ? "" : ": ", "warning: ", text);
  if (!at.source_line().empty()) absl::StrAppend(&note, "\n  ", at.source_line());
  return note;
}

class Checker {
 public:
  Checker(const LaunchFacts& facts, const std::vector<CheckedParameter>& parameters,
          const uint32_t grid[3])
      : facts_(facts),
        parameters_(parameters),
        grid_(grid),
        points_(MakePoints(grid)),
        values_(facts, parameters, grid, points_) {}

  std::vector<LaunchWarning> Run() {
    for (const LaunchFacts::Access& access : facts_.accesses()) Check(access);
    for (const LaunchFacts::Tail& tail : facts_.tails()) Check(tail);
    return std::move(warnings_);
  }

 private:
  void Tell(const storage::SourcePlace& at, LaunchWarning::Kind kind, absl::string_view text) {
    if (told_.insert({at.place(), kind}).second) warnings_.push_back({kind, Note(at, text)});
  }

  bool Reached(const LaunchFacts::Access& access, size_t point) {
    for (uint32_t loop : access.loops())
      if (values_.Trips(loop)[point] == 0) return false;
    for (uint32_t condition : access.conditions())
      if (values_.Of(condition)[point] == 0) return false;
    return true;
  }

  std::string Witness(const LaunchFacts::Access& access, size_t point) {
    const uint32_t* pid = points_[point].pid;
    std::string text = absl::StrCat("program (", pid[0], ", ", pid[1], ", ", pid[2], ")");
    if (access.shape_size() == 0) return text;
    absl::StrAppend(&text, access.shape_size() == 1 ? ", lane " : ", lane (");
    for (int d = 0; d < access.shape_size(); ++d)
      absl::StrAppend(&text, d > 0 ? ", " : "", values_.Lane(point, d));
    return access.shape_size() == 1 ? text : text + ")";
  }

  void Check(const LaunchFacts::Access& access) {
    values_.SetShape({access.shape().begin(), access.shape().end()});
    bool wraps = false;
    for (size_t p = 0; p < points_.size(); ++p) {
      if (!Reached(access, p)) continue;
      for (const LaunchFacts::Wrap& wrap : access.wraps()) wraps |= CheckWrap(access, wrap, p);
      if (wraps || CheckBuffer(access, p)) return;
    }
  }

  bool CheckWrap(const LaunchFacts::Access& access, const LaunchFacts::Wrap& wrap, size_t point) {
    int64_t narrow = values_.Of(wrap.node())[point];
    Wide wrapped = wrap.is_unsigned() ? Wide{ZeroExtend(narrow, 32)} : Wide{narrow};
    Wide exact = values_.Exact(wrap.node(), point, wrap.is_unsigned());
    if (exact == wrapped) return false;
    Tell(wrap.at(), LaunchWarning::Kind::kWrap,
         absl::StrCat("this offset wraps around in 32 bits at this launch's sizes: ",
                      values_.Operation(wrap.node(), point, wrap.is_unsigned()), " gives ",
                      static_cast<int64_t>(wrapped), " (", Witness(access, point),
                      "); convert an operand first: .to(tl.int64)"));
    return true;
  }

  bool CheckBuffer(const LaunchFacts::Access& access, size_t point) {
    if (access.base() >= parameters_.size()) return false;
    const CheckedParameter& buffer = parameters_[access.base()];
    if (!buffer.has_buffer) return false;
    Wide offset = 0;
    for (const LaunchFacts::Offset& term : access.offsets())
      offset += Wide{values_.Of(term.node())[point]} * term.bytes();
    bool before = offset < -Wide{buffer.bytes_before};
    bool behind = offset >= 0 && offset + access.element_bytes() > Wide{buffer.bytes};
    if (!before && !behind) return false;
    const char* verb = access.kind() == LaunchFacts::Access::LOAD    ? "reads"
                       : access.kind() == LaunchFacts::Access::STORE ? "writes"
                                                                     : "updates";
    const uint32_t bytes = std::max(1u, access.element_bytes());
    std::string what = absl::StrCat(Witness(access, point), " ", verb, " element ",
                                    static_cast<int64_t>(offset / bytes), " of '", buffer.name,
                                    "', which has ", buffer.bytes / bytes);
    Tell(access.at(), LaunchWarning::Kind::kBuffer,
         access.masked() ? absl::StrCat("the mask lets accesses outside the buffer through: ", what)
                         : absl::StrCat("no mask on the tail of this launch: ", what));
    return true;
  }

  void Check(const LaunchFacts::Tail& tail) {
    if (tail.extent() < kMinTailLanes) return;
    // Every lane of the first and the last program, and of two between.
    const int64_t lanes = std::min(tail.extent(), kMaxTailLanes);
    std::vector<Point> points;
    int64_t most = 0;
    for (int program = 0; program < 4; ++program) {
      points.assign(lanes, Point());
      for (int64_t i = 0; i < lanes; ++i) {
        Point& point = points[i];
        for (int axis = 0; axis < 3; ++axis)
          point.pid[axis] =
              static_cast<uint32_t>(Scale(program * (program == 3 ? 1.0 : 0.34), grid_[axis]));
        point.lane[0] = (static_cast<double>(i) + 0.5) / static_cast<double>(lanes);
      }
      Evaluator values(facts_, parameters_, grid_, points);
      values.SetShape({tail.extent()});
      bool runs = true;
      for (uint32_t loop : tail.loops()) runs = runs && values.Trips(loop)[0] > 0;
      if (!runs) continue;
      const std::vector<int64_t>& inside = values.Of(tail.inside());
      most = std::max<int64_t>(
          most, std::count_if(inside.begin(), inside.end(), [](int64_t in) { return in != 0; }));
      if (most > lanes * kFewLanes) return;
    }
    if (most == 0) return;
    int64_t active = most * (tail.extent() / lanes), enough = 1;
    while (enough < active) enough *= 2;
    // A small block that is one of few costs nothing that anybody would notice.
    const uint64_t programs = uint64_t{grid_[0]} * grid_[1] * grid_[2];
    if (enough < tail.extent() && tail.extent() < kLargeBlock && programs < kManyPrograms) return;
    std::string text = absl::StrCat("most lanes of this block are masked off: ", active, " of ",
                                    tail.extent(), " are inside, in the fullest program; ");
    absl::StrAppend(
        &text, enough == tail.extent()
                   ? absl::StrCat("it is padded to the next power of two: a loop over blocks of ",
                                  tail.extent() / 4, " would waste less")
                   : absl::StrCat("a block of ", enough, " would do"));
    Tell(tail.at(), LaunchWarning::Kind::kPadding, text);
  }

  const LaunchFacts& facts_;
  const std::vector<CheckedParameter>& parameters_;
  const uint32_t* const grid_;
  const std::vector<Point> points_;
  Evaluator values_;
  std::set<std::pair<std::string, LaunchWarning::Kind>> told_;
  std::vector<LaunchWarning> warnings_;
};

}  // namespace

std::vector<LaunchWarning> CheckLaunch(const LaunchFacts& facts,
                                       const std::vector<CheckedParameter>& parameters,
                                       const uint32_t grid[3]) {
  if (facts.accesses_size() == 0 && facts.tails_size() == 0) return {};
  return Checker(facts, parameters, grid).Run();
}

}  // namespace tessera::server
