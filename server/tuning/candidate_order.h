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

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_CANDIDATE_ORDER_H_
