// When a measurement may use the device: the tuner's budget.
//
// A share of the device's time accrues with the clock, up to a burst; a measurement spends what it
// took. It runs when no client's launch has for a while, or takes the place of one now and then, and
// holds launches up by no more than the latency bound (MeasurementGate). What runs longer is cut down
// to a part of its grid, or waits until the device has been idle for a while.
#ifndef TESSERA_SERVER_TUNING_PACE_H_
#define TESSERA_SERVER_TUNING_PACE_H_

#include <atomic>
#include <chrono>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/device/measurement_gate.h"

namespace tessera::server {

struct PaceOptions {
  double device_share = 0.1;                             // 1: no limit
  absl::Duration latency_bound = absl::Microseconds(200);  // added to a launch
  // Where the device's launches typically take longer than that, by the median: so many of them is
  // the bound. They are in each other's way for as long anyhow, and a device that is busy with them
  // has no idle time. 0: the bound holds for any launches.
  double bound_in_launches = 0;
  absl::Duration idle_window = absl::Milliseconds(5);    // idle for this long counts as idle
  absl::Duration burst = absl::Milliseconds(200);        // of device time that may be saved up
  // How long to wait for a turn.
  absl::Duration patience = absl::Seconds(10);
  // What runs longer than the bound goes ahead after this wait, idle or not.
  absl::Duration patience_for_idle = absl::InfiniteDuration();
  // Candidates yield to launches by themselves (a CPU, at a lower priority): what is longer
  // than a part and need not be timed runs beside them. What is timed is a part of the grid, where it can be
  // cut so small: so long that it fits into `latency_bound` twice, or an eighth of a launch, but no less
  // than 100 us. As much runs before it in its turn, for launches leave nothing of its memory in the caches.
  bool yields = false;
};

// Not thread-safe, but for the figures: one tuning at a time.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  using Run = std::function<absl::StatusOr<double>()>;  // returns seconds on the device
  // `gate` must outlive it.
  Pace(MeasurementGate* gate, PaceOptions options)
      : gate_(gate), options_(options) {
    FitBound();
  }

  // Fits the latency bound to the launches of late. It stays until the next call.
  void FitBound();
  absl::Duration latency_bound() const {
    return absl::Nanoseconds(bound_ns_.load(std::memory_order_relaxed));
  }

  // No client has launched anything for a while.
  bool idle() const { return gate_->IdleFor() >= options_.idle_window; }

  // Whether a launch of `seconds` may run whole now, in a turn.
  bool Fits(double seconds) const { return seconds <= LongestRun() || idle(); }
  // What share of it is to be timed: 1, or less while clients are busy (PartOf).
  double FittingShare(double seconds) const { return idle() ? 1 : PartOf(seconds); }
  double PartOf(double seconds) const;

  // Waits for its turn, then calls `run`; again if a client's launch went on before its end.
  // DEADLINE_EXCEEDED: the turn did not come in time, or every run was void.
  absl::StatusOr<double> Measure(Clock::time_point deadline, const Run& run);

  // Waits for its turn, then calls `run` once, whatever launches do meanwhile: for runs whose time
  // does not matter, or is processor time. `seconds`: how long it will take.
  absl::StatusOr<double> RunOnce(Clock::time_point deadline, double seconds, const Run& run);

  // Device time spent over what the share would have allowed since the pace was made.
  double used_ratio() const;
  double spent_seconds() const { return spent_.load(std::memory_order_relaxed); }
  const PaceOptions& options() const { return options_; }

 private:
  double Allowance();  // device seconds that may be spent now
  double LongestRun() const;
  absl::Status AwaitAllowance(Clock::time_point deadline);
  absl::Status AwaitGap(Clock::time_point deadline);
  void Spend(double seconds);
  bool EndTurn(Clock::time_point begin);  // whether what was measured counts

  MeasurementGate* const gate_;
  const PaceOptions options_;
  std::atomic<int64_t> bound_ns_;
  absl::Duration longest_part_;  // where candidates yield
  Clock::time_point next_turn_;  // among launches that leave the device no rest
  const Clock::time_point start_ = Clock::now();
  std::atomic<double> spent_{0};
  double lost_ = 0;  // allowance that ran over the burst
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_PACE_H_
