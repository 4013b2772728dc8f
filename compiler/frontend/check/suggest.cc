#include "compiler/frontend/check/suggest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
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
