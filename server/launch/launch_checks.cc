#include "server/launch/launch_checks.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/launch_evaluator.h"

namespace tessera::server {
namespace {

using storage::LaunchFacts;
using Point = LaunchPoint;
using Wide = LaunchEvaluator::Wide;

constexpr int kPoints = 384;
constexpr int kMaxRank = LaunchPoint::kMaxRank;
// A block's mask is looked at lane by lane up to this many lanes, else at so many of them.
constexpr int64_t kMaxTailLanes = 4096;
constexpr int64_t kMinTailLanes = 128;
constexpr double kFewLanes = 0.55;
constexpr int64_t kLargeBlock = 1024;
constexpr uint64_t kManyPrograms = 8;

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
      point.pid[axis] = static_cast<uint32_t>(ScaleFraction(fraction(), grid[axis]));
    for (double& lane : point.lane) lane = fraction();
    point.iteration = fraction();
    points.push_back(point);
  }
  return points;
}

std::vector<uint64_t> ScalarsOf(const std::vector<CheckedParameter>& parameters) {
  std::vector<uint64_t> scalars;
  for (const CheckedParameter& parameter : parameters) scalars.push_back(parameter.bits);
  return scalars;
}

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
        values_(facts, ScalarsOf(parameters), grid, points_) {}

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
              static_cast<uint32_t>(ScaleFraction(program * (program == 3 ? 1.0 : 0.34), grid_[axis]));
        point.lane[0] = (static_cast<double>(i) + 0.5) / static_cast<double>(lanes);
      }
      LaunchEvaluator values(facts_, ScalarsOf(parameters_), grid_, points);
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
  LaunchEvaluator values_;
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
