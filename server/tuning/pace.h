// When a measurement may use the device: the tuner's budget.
//
// A share of the device's time accrues with the clock, up to a burst; a measurement spends what it
// took. It runs in a gap between clients' launches, or makes one, and holds launches up by no more
// than the latency bound (MeasurementGate). What runs longer is cut down to a part of its grid, or
// waits until the device has been idle for a while.
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
  absl::Duration idle_window = absl::Milliseconds(5);    // idle for this long counts as idle
  absl::Duration burst = absl::Milliseconds(200);        // of device time that may be saved up
  // How long to wait for a turn.
  absl::Duration patience = absl::Seconds(10);
  // What runs longer than the bound goes ahead after this wait, idle or not.
  absl::Duration patience_for_idle = absl::InfiniteDuration();
  // Candidates yield to launches by themselves (a CPU, at a lower priority): what need not be timed
  // runs beside them.
  bool yields = false;
};

// Not thread-safe, but for the figures: one tuning at a time.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  using Run = std::function<absl::StatusOr<double>()>;  // returns seconds on the device
  // `gate` must outlive it.
  Pace(MeasurementGate* gate, PaceOptions options) : gate_(gate), options_(options) {}

  // No client has launched anything for a while.
  bool idle() const { return gate_->IdleFor() >= options_.idle_window; }

  // What share of a launch of `seconds` fits now: 1, or less while clients are busy.
  double FittingShare(double seconds) const;

  // Waits for its turn, then calls `run`; again if a client's launch went on before its end.
  // DEADLINE_EXCEEDED: the turn did not come in time, or every run was void.
  absl::StatusOr<double> Measure(Clock::time_point deadline, const Run& run);

  // Waits for its turn, then calls `run` once, whatever launches do meanwhile: for runs whose time
  // does not matter. `seconds`: how long it will take.
  absl::StatusOr<double> RunOnce(Clock::time_point deadline, double seconds, const Run& run);

  // Device time spent over what the share would have allowed since the pace was made.
  double used_ratio() const;
  double spent_seconds() const { return spent_.load(std::memory_order_relaxed); }
  const PaceOptions& options() const { return options_; }

 private:
  double Allowance();  // device seconds that may be spent now
  // Half the bound is for making the gap and for the way to the device and back.
  double LongestRun() const { return absl::ToDoubleSeconds(options_.latency_bound) / 2; }
  absl::Status AwaitAllowance(Clock::time_point deadline);
  absl::Status AwaitGap(Clock::time_point deadline);
  void Spend(Clock::time_point begin);

  MeasurementGate* const gate_;
  const PaceOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<double> spent_{0};
  double lost_ = 0;  // allowance that ran over the burst
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_PACE_H_
