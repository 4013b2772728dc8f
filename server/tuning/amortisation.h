// Whether tuning a kernel for a bucket repays its cost. Pure.
#ifndef TESSERA_SERVER_TUNING_AMORTISATION_H_
#define TESSERA_SERVER_TUNING_AMORTISATION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::server {

// What is known of a bucket, all times in seconds.
struct TuningEconomics {
  uint64_t calls = 0;         // seen so far
  double observed = 0;        // since the first of them
  double call_seconds = 0;    // of one launch on the device, with the configuration in force
  double gain = 0;            // expected share of `call_seconds` that the best configuration saves
  bool gain_is_measured = false;  // from other buckets of the kernel, or from a part of the candidates
  int candidates = 0;         // left to measure
  int to_compile = 0;         // of these
  double compile_seconds = 0;  // of one
  double runs = 0;            // launches to measure one candidate, the check of its result included
  double horizon = 0;         // how far ahead a rate may be trusted
  // Other buckets of the kernel run the same compiled variants: how many of them would save more than
  // measuring there costs, and how much.
  int others = 0;
  double others_saving = 0;
};

struct AmortisationVerdict {
  bool tune = false;
  double expected_calls = 0, saving = 0, cost = 0;  // seconds
  std::string reason;  // with the figures
};

// As many calls are expected as were seen (a bucket that has been asked for n times is, with no other knowledge, half
// way through its life), but no more than its rate gives within the horizon. Tunes when these calls times the
// expected saving exceed compiling and measuring: at worst, if the guess of the gain is right, twice the cost of knowing
// the future (the rent-or-buy bound). Compiles are paid once for all buckets that run them; measuring must repay in
// the bucket itself.
AmortisationVerdict WeighTuning(const TuningEconomics& economics);

// Calls at which the verdict would turn, if others grow alike and nothing else changes; UINT64_MAX: never.
uint64_t CallsToTune(const TuningEconomics& economics);

// Share of the best of `times` that `more` candidates are expected to save: as if the logarithms of all came from one
// uniform distribution, whose smallest of n lies 1/(n + 1) of its width above its end. 0 for fewer than two times.
double GainOfMore(const std::vector<double>& times, int more);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_AMORTISATION_H_
