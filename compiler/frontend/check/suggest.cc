#include "compiler/frontend/check/suggest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

// Levenshtein distance.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.size() > 100) return "";
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 100) continue;
    size_t distance = Distance(name, candidate);
    if (distance < best_distance || (distance == best_distance && best && candidate < *best)) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? absl::StrCat("; did you mean '", *best, "'?") : "";
}

}  // namespace tessera::frontend
