#include "cache/store/eviction.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace tessera::cache {
namespace {

constexpr double kHalfLifeSeconds = 7 * 24 * 3600;
// Of an artifact that came with a bundle: what a usual kernel takes.
constexpr double kUnknownCompileSeconds = 0.3;

}  // namespace

double UtilityOf(const EvictionCandidate& candidate, int64_t now_unix_seconds) {
  const double age = std::max<double>(0, now_unix_seconds - candidate.last_use_unix_seconds);
  const double cost = candidate.compile_seconds > 0 ? candidate.compile_seconds : kUnknownCompileSeconds;
  const double launches = 1 + static_cast<double>(candidate.launches);
  return cost * launches * std::exp2(-age / kHalfLifeSeconds) / std::max<double>(1, candidate.bytes);
}

std::vector<Eviction> PlanEviction(const std::vector<EvictionCandidate>& candidates, const EvictionBudget& budget,
                                   uint64_t other_bytes, int64_t now_unix_seconds) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> utility;
  for (const EvictionCandidate& candidate : candidates) utility.push_back(UtilityOf(candidate, now_unix_seconds));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return utility[a] != utility[b] ? utility[a] < utility[b] : candidates[a].key < candidates[b].key;
  });
  std::vector<Eviction> evictions;
  std::vector<bool> gone(candidates.size(), false);
  uint64_t bytes = other_bytes;
  std::unordered_map<std::string, uint64_t> entries;
  for (const EvictionCandidate& candidate : candidates) {
    bytes += candidate.bytes;
    ++entries[candidate.kernel];
  }
  const auto evict = [&](size_t i, const char* reason) {
    evictions.push_back({i, reason});
    gone[i] = true;
    bytes -= candidates[i].bytes;
    --entries[candidates[i].kernel];
  };
  if (budget.max_entries_per_kernel != 0) {
    for (size_t i : order) {
      if (!candidates[i].in_use && entries[candidates[i].kernel] > budget.max_entries_per_kernel) {
        evict(i, "over the kernel's limit");
      }
    }
  }
  if (budget.max_bytes == 0 || bytes <= budget.max_bytes) return evictions;
  const uint64_t aim = budget.max_bytes / 10 * 9;
  for (size_t i : order) {
    if (bytes <= aim) break;
    if (!candidates[i].in_use && !gone[i]) evict(i, "over the budget");
  }
  return evictions;
}

}  // namespace tessera::cache
