// In which order configurations are tried. Pure.
#ifndef TESSERA_SERVER_TUNING_CANDIDATE_ORDER_H_
#define TESSERA_SERVER_TUNING_CANDIDATE_ORDER_H_

#include <cstddef>
#include <vector>

#include "proto/storage/modules.pb.h"

namespace tessera::server {

// 0 .. count - 1 by strides that halve: the middle, the quarters, ... The first few are a spread over all.
std::vector<size_t> SpreadOut(size_t count);

// How unlike two configurations are: a doubling of a block, of the warps or of the stages counts 1, so does any value that
// is no number and differs, or is missing.
double ConfigDistance(const storage::TuneConfig& a, const storage::TuneConfig& b);

struct MeasuredConfig {
  const storage::TuneConfig* config;
  double seconds;
};

// How much is hoped for of `config`, 0 to 1, from what was measured: the square of the best time over the one predicted
// for it. Times mostly vary smoothly with blocks, so the prediction is the geometric mean of the measured ones, each weighing a
// quarter as much for every doubling that lies in between (inverse distance weighting; Shepard, 1968). 1: nothing was measured.
double Promise(const storage::TuneConfig& config, const std::vector<MeasuredConfig>& measured);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_CANDIDATE_ORDER_H_
