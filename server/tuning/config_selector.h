// Chooses among measured configurations. Pure.
#ifndef TESSERA_SERVER_TUNING_CONFIG_SELECTOR_H_
#define TESSERA_SERVER_TUNING_CONFIG_SELECTOR_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/storage/tunings.pb.h"

namespace tessera::server {

// Median and 20 % / 80 % quantiles of `seconds` (seconds a launch; empty: zeros).
void Summarise(std::vector<double> seconds, storage::TuningRecord::Trial* trial);

struct Selection {
  int chosen = -1;  // index into the trials; -1: every one failed
  std::string reason;
};

// The lowest median wins, but the incumbent keeps its place while the difference lies inside the
// noise: the winner's 80 % quantile must lie below the incumbent's median. `incumbent`: index of
// the configuration in force.
Selection SelectConfig(const std::vector<storage::TuningRecord::Trial>& trials,
                       std::optional<int> incumbent);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_CONFIG_SELECTOR_H_
