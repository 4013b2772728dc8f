#include "server/tuning/pace.h"

#include <algorithm>
#include <thread>

#include "base/status_macros.h"

namespace tessera::server {
namespace {

constexpr int kMaxVoidRuns = 20;
constexpr std::chrono::milliseconds kPoll(1);
// A device that had no launch for so long is taken at once; else launches have it to themselves for a
// while after each measurement.
constexpr absl::Duration kRest = absl::Milliseconds(1);
constexpr std::chrono::milliseconds kBetweenTurns(10);
// Of a shorter part the fixed cost of a launch would be most; and be counted as often as it goes into the whole.
constexpr absl::Duration kShortestPart = absl::Microseconds(100);
// Of a launch among those that take longer than the bound.
constexpr double kPartOfLaunch = 0.125;
// Of the bound, but no more than half of it: for draining the device, and the way there and back.
constexpr absl::Duration kWay = absl::Microseconds(500);

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

double Pace::Allowance() {
  double left = options_.device_share * Seconds(Clock::now() - start_) - spent_seconds() - lost_;
  double burst = absl::ToDoubleSeconds(options_.burst);
  if (left > burst) {
    lost_ += left - burst;
    left = burst;
  }
  return left;
}

double Pace::LongestRun() const { 
  return absl::ToDoubleSeconds(latency_bound() - std::min(latency_bound() / 2, kWay));
}

void Pace::FitBound() {
  const absl::Duration typical = absl::Seconds(gate_->TypicalSeconds());
  absl::Duration bound = options_.latency_bound;
  // As much runs before it, with cold caches.
  longest_part_ = std::max((bound - std::min(bound / 2, kWay)) / 3, kShortestPart);
  if (options_.bound_in_launches > 0 && typical > bound) {
    bound = std::max(bound, options_.bound_in_launches * typical);
    longest_part_ = std::max(longest_part_, kPartOfLaunch * typical);
  }
  bound_ns_.store(absl::ToInt64Nanoseconds(bound), std::memory_order_relaxed);
}

double Pace::PartOf(double seconds) const {
  const double longest = options_.yields ? absl::ToDoubleSeconds(longest_part_) : LongestRun();
  return seconds <= longest ? 1 : longest / seconds;
}

absl::Status Pace::AwaitAllowance(Clock::time_point deadline) {
  while (options_.device_share < 1 && Allowance() < 0) {
    if (Clock::now() > deadline)
      return absl::DeadlineExceededError("the tuner's share of the device is used up");
    std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

absl::Status Pace::AwaitGap(Clock::time_point deadline) {
  deadline = std::min(deadline, Clock::now() + absl::ToChronoNanoseconds(options_.patience));
  const absl::Duration bound = latency_bound();
  for (;;) {
    if (gate_->IdleFor() >= kRest && gate_->TryBegin(bound)) return absl::OkStatus();
    const Clock::time_point now = Clock::now();
    if (now > deadline)
      return absl::DeadlineExceededError("the device was never free for a measurement");
    if (now < next_turn_) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    if (gate_->Begin(bound, std::min(bound / 2, kWay), absl::FromChrono(deadline - now)))
      return absl::OkStatus();
    next_turn_ = Clock::now() + kBetweenTurns;
  }
}

void Pace::Spend(double seconds) {
  spent_.store(spent_seconds() + seconds, std::memory_order_relaxed);
}

bool Pace::EndTurn(Clock::time_point begin) {
  const bool valid = gate_->End();
  Spend(Seconds(Clock::now() - begin));
  next_turn_ = Clock::now() + kBetweenTurns;
  return valid;
}

absl::StatusOr<double> Pace::RunOnce(Clock::time_point deadline, double seconds, const Run& run) {
  RETURN_IF_ERROR(AwaitAllowance(deadline));
  bool is_long = seconds > LongestRun();
  if (options_.yields && !idle() && seconds > absl::ToDoubleSeconds(longest_part_)) {
    // A launch that it would hold up waits longer than one that it gives way to. So it takes long: what it does is no more
    // than what it does alone.
    absl::StatusOr<double> ran = run();
    Spend(seconds);
    return ran;
  }
  Clock::time_point now = Clock::now();
  Clock::time_point enough = options_.patience_for_idle < options_.patience
                                 ? now + absl::ToChronoNanoseconds(options_.patience_for_idle)
                                 : deadline;
  Clock::time_point given_up =
      std::min(deadline, now + absl::ToChronoNanoseconds(options_.patience));
  while (is_long && !idle() && Clock::now() < enough) {
    if (Clock::now() > given_up)
      return absl::DeadlineExceededError(
          "the device was never idle for a launch longer than the latency bound");
    std::this_thread::sleep_for(kPoll);
  }
  RETURN_IF_ERROR(AwaitGap(deadline));
  Clock::time_point begin = Clock::now();
  absl::StatusOr<double> ran = run();
  EndTurn(begin);
  return ran;
}

absl::StatusOr<double> Pace::Measure(Clock::time_point deadline, const Run& run) {
  for (int i = 0; i < kMaxVoidRuns; ++i) {
    RETURN_IF_ERROR(AwaitAllowance(deadline));
    RETURN_IF_ERROR(AwaitGap(deadline));
    Clock::time_point begin = Clock::now();
    absl::StatusOr<double> seconds = run();
    bool valid = EndTurn(begin);
    if (!seconds.ok() || valid) return seconds;
  }
  return absl::DeadlineExceededError("every measurement was interrupted by launches");
}

double Pace::used_ratio() const {
  double allowed = options_.device_share * Seconds(Clock::now() - start_);
  return allowed > 0 ? spent_seconds() / allowed : 0;
}

}  // namespace tessera::server
