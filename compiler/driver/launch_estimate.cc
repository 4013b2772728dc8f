#include "compiler/driver/launch_estimate.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/launch_evaluator.h"

namespace tessera::compiler {
namespace {

using storage::LaunchFacts;

constexpr int kPoints = 8192;

// Corners of the first and the last programs, for the span of addresses, then points drawn evenly.
std::vector<LaunchPoint> MakePoints(const uint32_t grid[3], int corners) {
  std::vector<LaunchPoint> points;
  for (int corner = 0; corner < corners; ++corner) {
    LaunchPoint point;
    for (int axis = 0; axis < 3; ++axis) point.pid[axis] = corner >> axis & 1 ? grid[axis] - 1 : 0;
    for (int d = 0; d < LaunchPoint::kMaxRank; ++d) point.lane[d] = corner >> (3 + std::min(d, 1)) & 1;
    point.iteration = corner >> 5 & 1;
    points.push_back(point);
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<double> fraction(0, 1);
  while (points.size() < kPoints) {
    LaunchPoint point;
    for (int axis = 0; axis < 3; ++axis) point.pid[axis] = static_cast<uint32_t>(ScaleFraction(fraction(random), grid[axis]));
    for (double& lane : point.lane) lane = fraction(random);
    point.iteration = fraction(random);
    points.push_back(point);
  }
  return points;
}
constexpr int kCorners = 64;

const char* NameOf(LaunchFacts::Access::Kind kind) {
  return kind == LaunchFacts::Access::LOAD ? "load" : kind == LaunchFacts::Access::STORE ? "store" : "atomic";
}

class Estimator {
 public:
  Estimator(const LaunchFacts& facts, std::vector<uint64_t> scalars, const uint32_t grid[3])
      : facts_(facts), programs_(double(grid[0]) * grid[1] * grid[2]), points_(MakePoints(grid, kCorners)), values_(facts, std::move(scalars), grid, points_) {}

  LaunchEstimate Run() {
    for (const LaunchFacts::Access& access : facts_.accesses()) Count(access);
    for (const LaunchFacts::Work& work : facts_.works()) {
      values_.SetShape({});
      const double operations = Mean([&](size_t p) { return Reached(work, p) ? Times(work, p) : 0; }) * programs_ * double(work.operations());
      (work.matrix_unit() ? total_.matrix_operations : total_.vector_operations) += operations;
    }
    for (const auto& [base, span] : spans_) total_.distinct_bytes += std::min(span.bytes, std::max(0.0, span.last - span.first));
    return std::move(total_);
  }

 private:
  // The drawn points alone: corners are no sample.
  template <typename Value>
  double Mean(const Value& value) {
    double sum = 0;
    for (size_t p = kCorners; p < points_.size(); ++p) sum += value(p);
    return sum / double(points_.size() - kCorners);
  }
  template <typename Fact>
  double Times(const Fact& fact, size_t p) {
    double times = 1;
    for (uint32_t loop : fact.loops()) times *= double(values_.Trips(loop)[p]);
    return times;
  }
  template <typename Fact>
  bool Reached(const Fact& fact, size_t p) {
    for (uint32_t condition : fact.conditions())
      if (values_.Of(condition)[p] == 0) return false;
    return true;
  }

  void Count(const LaunchFacts::Access& access) {
    values_.SetShape({access.shape().begin(), access.shape().end()});
    double lanes = programs_;
    for (int64_t extent : access.shape()) lanes *= double(extent);
    LaunchEstimate::Access counted;
    counted.place = access.at().place();
    counted.kind = NameOf(access.kind());
    counted.lanes = lanes * Mean([&](size_t p) { return Times(access, p); });
    counted.inside = lanes * Mean([&](size_t p) { return Reached(access, p) ? Times(access, p) : 0; });
    total_.lanes += counted.lanes;
    total_.inside += counted.inside;
    const double bytes = counted.inside * access.element_bytes();
    if (access.kind() != LaunchFacts::Access::STORE) total_.loaded_bytes += bytes;
    if (access.kind() != LaunchFacts::Access::LOAD) total_.stored_bytes += bytes;
    // Loads and stores of one buffer reach the memory each.
    Span& span = spans_[{access.base(), access.kind() == LaunchFacts::Access::STORE}];
    span.bytes += bytes;
    for (size_t p = 0; p < points_.size(); ++p) {
      if (!Reached(access, p) || Times(access, p) == 0) continue;
      double offset = 0;
      for (const LaunchFacts::Offset& term : access.offsets()) offset += double(values_.Of(term.node())[p]) * term.bytes();
      span.first = span.any ? std::min(span.first, offset) : offset;
      span.last = span.any ? std::max(span.last, offset + access.element_bytes()) : offset + access.element_bytes();
      span.any = true;
    }
    total_.accesses.push_back(std::move(counted));
  }

  struct Span {
    bool any = false;
    double first = 0, last = 0, bytes = 0;
  };
  const LaunchFacts& facts_;
  const double programs_;
  const std::vector<LaunchPoint> points_;
  LaunchEvaluator values_;
  std::map<std::pair<uint32_t, bool>, Span> spans_;  // by buffer, and whether it is written
  LaunchEstimate total_;
};

std::string Amount(double number, const char* unit) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (number < 1000) break;
    number /= 1000;
    prefix = next;
  }
  return absl::StrFormat("%.*f %s%s", number < 10 ? 2 : number < 100 ? 1 : 0, number, prefix, unit);
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

MeasuredRoof RoofOf(const std::string& target) {
  if (absl::StartsWith(target, "sm_90")) return {"H200", 4379e9, 788e12};
  return {};
}

absl::StatusOr<LaunchEstimate> EstimateLaunch(const storage::KernelMetadata& metadata, const std::map<std::string, int64_t>& scalars,
                                              const uint32_t grid[3]) {
  std::vector<uint64_t> bits;
  for (const storage::EntryParameter& parameter : metadata.parameters()) {
    auto given = scalars.find(parameter.name());
    const std::string& type = parameter.type();
    const bool integer = !type.empty() && (type[0] == 'i' || type[0] == 'u');
    if (given == scalars.end() && integer && parameter.path_size() == 0)
      return absl::InvalidArgumentError(absl::StrCat("the launch's value of '", parameter.name(), "' is missing (--arg ", parameter.name(), "=NUMBER)"));
    bits.push_back(given == scalars.end() ? 0 : static_cast<uint64_t>(given->second));
  }
  for (int axis = 0; axis < 3; ++axis)
    if (grid[axis] == 0) return absl::InvalidArgumentError("the grid is empty: nothing runs");
  LaunchEstimate estimate = Estimator(metadata.launch_facts(), std::move(bits), grid).Run();
  estimate.roof = RoofOf(metadata.target());
  return estimate;
}

std::string LaunchEstimate::Text() const {
  std::string text;
  absl::StrAppendFormat(&text, "padding waste     %.1f %% of the lanes of loads and stores are masked off\n", Percent(lanes - inside, lanes));
  for (const Access& access : accesses)
    if (access.inside < 0.995 * access.lanes)
      absl::StrAppendFormat(&text, "                  %s: %s, %.1f %% masked off\n", access.place, access.kind, Percent(access.lanes - access.inside, access.lanes));
  absl::StrAppendFormat(&text, "bytes             %s loaded, %s stored by its threads; at most %s of them distinct\n", Amount(loaded_bytes, "B"),
                        Amount(stored_bytes, "B"), Amount(distinct_bytes, "B"));
  absl::StrAppendFormat(&text, "operations        %s in products of matrices, %s others\n", Amount(matrix_operations, "FLOP"), Amount(vector_operations, "FLOP"));
  if (roof.gpu.empty()) {
    text += "roof              nothing was measured for this target\n";
    return text;
  }
  absl::StrAppendFormat(&text, "roof              %.2f us for the distinct bytes at %s/s, %.2f us for the products at %s/s (measured on one %s): bound by %s\n",
                        memory_seconds() * 1e6, Amount(roof.bytes_per_second, "B"), matrix_seconds() * 1e6, Amount(roof.matrix_operations_per_second, "FLOP"),
                        roof.gpu, memory_seconds() >= matrix_seconds() ? "memory" : "the matrix units");
  return text;
}

}  // namespace tessera::compiler
