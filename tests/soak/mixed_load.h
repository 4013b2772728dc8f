// A mixed load on a daemon, the same each time for one seed: kernels, fused ops, new and old
// shapes, tunings, mistakes, memory and sessions that come and go.
#ifndef TESSERA_TESTS_SOAK_MIXED_LOAD_H_
#define TESSERA_TESTS_SOAK_MIXED_LOAD_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tessera {

struct MixedLoadOptions {
  std::string address;
  std::string kernels;  // the text of tests/integration/kernels/fused.py
  uint64_t seed = 1;
  int clients = 2;                                 // threads, each with a session of its own
  absl::Duration duration = absl::ZeroDuration();  // 0: `rounds` decides
  int rounds = 20;                                 // of each client
  double launches_per_second = 0;                  // of each client; 0: as fast as they go
  bool tune = true;                                // one kernel, once
  bool mistakes = true;                            // launches that must be refused
  bool churn = true;                               // sessions and memory that come and go
};

struct MixedLoadReport {
  uint64_t launches = 0, compiled = 0, refused_as_expected = 0, sessions = 0, tunings = 0;
  std::map<std::string, uint64_t> errors;  // what should not have happened, and how often
};

// UNAVAILABLE: there is no daemon. Checks the results of a part of the launches.
absl::StatusOr<MixedLoadReport> RunMixedLoad(const MixedLoadOptions& options);

}  // namespace tessera

#endif  // TESSERA_TESTS_SOAK_MIXED_LOAD_H_
