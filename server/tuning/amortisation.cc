#include "server/tuning/amortisation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tessera::server {
namespace {

double CompileCost(const TuningEconomics& e) { return e.to_compile * e.compile_seconds; }
double MeasuringCost(const TuningEconomics& e) { return e.candidates * e.runs * e.call_seconds; }

}  // namespace

AmortisationVerdict WeighTuning(const TuningEconomics& e) {
  AmortisationVerdict verdict;
  verdict.expected_calls = static_cast<double>(e.calls);
  if (e.observed > 0 && e.horizon > 0)
    verdict.expected_calls = std::min(verdict.expected_calls, static_cast<double>(e.calls) / e.observed * e.horizon);
  verdict.saving = verdict.expected_calls * e.call_seconds * e.gain;
  verdict.cost = CompileCost(e) + MeasuringCost(e);
  verdict.tune = e.candidates > 0 && verdict.saving > MeasuringCost(e) &&
                 verdict.saving + e.others_saving > verdict.cost;
  verdict.reason = absl::StrFormat(
      "%s: %.0f calls expected x %.3g ms x %.0f %% (%s) save %.3g s; %d candidates cost %.3g s (%d compiles of %.3g s, %.0f runs each)",
      verdict.tune ? "repays" : "does not repay", verdict.expected_calls, e.call_seconds * 1e3, e.gain * 100,
      e.gain_is_measured ? "measured" : "assumed", verdict.saving, e.candidates, verdict.cost, e.to_compile,
      e.compile_seconds, e.runs);
  if (e.others > 0)
    absl::StrAppendFormat(&verdict.reason, "; the same compiles save %.3g s in %d other buckets",
                          e.others_saving, e.others);
  return verdict;
}

uint64_t CallsToTune(const TuningEconomics& e) {
  double saving_each = e.call_seconds * e.gain;
  if (!(saving_each > 0) || e.candidates == 0) return UINT64_MAX;
  double others_each = e.calls == 0 ? 0 : e.others_saving / static_cast<double>(e.calls);
  double calls = std::max(MeasuringCost(e) / saving_each,
                          (CompileCost(e) + MeasuringCost(e)) / (saving_each + others_each));
  calls = std::ceil(calls) + 1;
  return calls >= 1e18 ? UINT64_MAX : static_cast<uint64_t>(calls);
}

double GainOfMore(const std::vector<double>& times, int more) {
  if (times.size() < 2) return 0;
  auto [low, high] = std::minmax_element(times.begin(), times.end());
  if (!(*low > 0)) return 0;
  double n = static_cast<double>(times.size());
  double width = std::log(*high / *low) * (n + 1) / (n - 1);
  return 1 - std::exp(-width * (1 / (n + 1) - 1 / (n + more + 1)));
}

}  // namespace tessera::server
