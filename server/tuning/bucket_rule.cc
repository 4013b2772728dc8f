#include "server/tuning/bucket_rule.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/bits.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr int64_t kExactUpTo = 16;
constexpr size_t kMaxEdges = 256;

absl::Status BadRule(absl::string_view text, absl::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_BUCKET_RULE",
               absl::StrCat("bucket rule '", text, "': ", what,
                            "; accepted: exact, pow2, geometric:STEP (1.05 to 16), edges:A,B,..."));
}

int64_t GeometricBound(double step, int64_t value) {
  int64_t bound = kExactUpTo;
  while (bound < value) {
    double next = std::max(static_cast<double>(bound) + 1, std::floor(static_cast<double>(bound) * step));
    if (next >= 9.2e18) return INT64_MAX;
    bound = static_cast<int64_t>(next);
  }
  return bound;
}

}  // namespace

absl::StatusOr<BucketRule> BucketRule::Parse(absl::string_view text) {
  BucketRule rule;
  absl::string_view rest = text;
  if (text == "exact") return rule;
  if (text == "pow2") {
    rule.kind = Kind::kPow2;
    return rule;
  }
  if (absl::ConsumePrefix(&rest, "geometric:")) {
    rule.kind = Kind::kGeometric;
    if (!absl::SimpleAtod(rest, &rule.step) || !(rule.step >= 1.05 && rule.step <= 16))
      return BadRule(text, "the step is no number from 1.05 to 16");
    return rule;
  }
  if (absl::ConsumePrefix(&rest, "edges:")) {
    rule.kind = Kind::kEdges;
    for (absl::string_view part : absl::StrSplit(rest, ',')) {
      int64_t edge = 0;
      if (!absl::SimpleAtoi(part, &edge)) return BadRule(text, absl::StrCat("'", part, "' is no integer"));
      if (!rule.edges.empty() && edge <= rule.edges.back()) return BadRule(text, "edges must ascend");
      rule.edges.push_back(edge);
    }
    if (rule.edges.size() > kMaxEdges) return BadRule(text, absl::StrCat("more than ", kMaxEdges, " edges"));
    return rule;
  }
  return BadRule(text, "unknown");
}

std::string BucketRule::ToString() const {
  switch (kind) {
    case Kind::kExact:
      return "exact";
    case Kind::kPow2:
      return "pow2";
    case Kind::kGeometric:
      return absl::StrCat("geometric:", step);
    case Kind::kEdges:
      return absl::StrCat("edges:", absl::StrJoin(edges, ","));
  }
  return "exact";
}

std::string BucketRule::Label(int64_t value) const {
  switch (kind) {
    case Kind::kExact:
      break;
    case Kind::kPow2:
      if (value > kExactUpTo && value <= (int64_t{1} << 62))
        return absl::StrCat("pow2:", absl::bit_ceil(static_cast<uint64_t>(value)));
      break;
    case Kind::kGeometric:
      if (value > kExactUpTo) return absl::StrCat("geo:", GeometricBound(step, value));
      break;
    case Kind::kEdges: {
      auto edge = std::lower_bound(edges.begin(), edges.end(), value);
      if (edge != edges.end()) return absl::StrCat("to:", *edge);
      return absl::StrCat("above:", edges.back());
    }
  }
  return absl::StrCat(value);
}

bool LabelValue(absl::string_view label, int64_t* value) {
  size_t colon = label.rfind(':');
  if (colon != absl::string_view::npos) label.remove_prefix(colon + 1);
  return absl::SimpleAtoi(label, value);
}

}  // namespace tessera::server
