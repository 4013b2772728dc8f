#include "server/tuning/config_selector.h"

#include <algorithm>

namespace tessera::server {
namespace {

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

bool Measured(const storage::TuningRecord::Trial& trial) {
  return trial.failure().empty() && trial.samples() > 0;
}

}  // namespace

void Summarise(std::vector<double> seconds, storage::TuningRecord::Trial* trial) {
  trial->set_samples(static_cast<uint32_t>(seconds.size()));
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  trial->set_median_seconds(Quantile(seconds, 0.5));
  trial->set_low_seconds(Quantile(seconds, 0.2));
  trial->set_high_seconds(Quantile(seconds, 0.8));
}

Selection SelectConfig(const std::vector<storage::TuningRecord::Trial>& trials,
                       std::optional<int> incumbent) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(trials.size()); ++i)
    if (Measured(trials[i]) &&
        (best < 0 || trials[i].median_seconds() < trials[best].median_seconds()))
      best = i;
  if (best < 0) return {-1, "no configuration could be measured"};
  if (!incumbent || *incumbent == best) return {best, "lowest median"};
  const storage::TuningRecord::Trial& old = trials[*incumbent];
  if (!Measured(old)) return {best, "lowest median; the configuration in force failed"};
  if (trials[best].high_seconds() < old.median_seconds())
    return {best, "lowest median, clear of the noise"};
  return {*incumbent, "kept: the difference to the lowest median lies inside the noise"};
}

}  // namespace tessera::server
