#include "server/tuning/pace.h"

#include <algorithm>
#include <thread>

#include "base/status_macros.h"

namespace tessera::server {
namespace {

constexpr int kMaxVoidRuns = 20;
constexpr std::chrono::microseconds kPoll(50);
constexpr std::chrono::milliseconds kAllowancePoll(1);
// Without a gap for so long, one is made; and so long after that did not work.
constexpr std::chrono::milliseconds kNoGap(10);

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

double Pace::FittingShare(double seconds) const {
  if (seconds <= LongestRun() || idle()) return 1;
  return LongestRun() / seconds;
}

absl::Status Pace::AwaitAllowance(Clock::time_point deadline) {
  while (options_.device_share < 1 && Allowance() < 0) {
    if (Clock::now() > deadline)
      return absl::DeadlineExceededError("the tuner's share of the device is used up");
    std::this_thread::sleep_for(kAllowancePoll);
  }
  return absl::OkStatus();
}

absl::Status Pace::AwaitGap(Clock::time_point deadline) {
  deadline = std::min(deadline, Clock::now() + absl::ToChronoNanoseconds(options_.patience));
  Clock::time_point make_one = Clock::now() + kNoGap;
  while (!gate_->TryBegin(options_.latency_bound)) {
    Clock::time_point now = Clock::now();
    if (now > deadline)
      return absl::DeadlineExceededError("the device was never free for a measurement");
    if (now < make_one) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    if (gate_->TryBegin(options_.latency_bound, options_.latency_bound / 2)) break;
    make_one = Clock::now() + kNoGap;
  }
  return absl::OkStatus();
}

void Pace::Spend(Clock::time_point begin) {
  spent_.store(spent_seconds() + Seconds(Clock::now() - begin), std::memory_order_relaxed);
}

absl::StatusOr<double> Pace::RunOnce(Clock::time_point deadline, double seconds, const Run& run) {
  RETURN_IF_ERROR(AwaitAllowance(deadline));
  bool is_long = seconds > LongestRun();
  if (is_long && options_.yields) {
    Clock::time_point begin = Clock::now();
    absl::StatusOr<double> ran = run();
    Spend(begin);
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
  gate_->End();
  Spend(begin);
  return ran;
}

absl::StatusOr<double> Pace::Measure(Clock::time_point deadline, const Run& run) {
  for (int i = 0; i < kMaxVoidRuns; ++i) {
    RETURN_IF_ERROR(AwaitAllowance(deadline));
    RETURN_IF_ERROR(AwaitGap(deadline));
    Clock::time_point begin = Clock::now();
    absl::StatusOr<double> seconds = run();
    bool valid = gate_->End();
    Spend(begin);
    if (!seconds.ok() || valid) return seconds;
  }
  return absl::DeadlineExceededError("every measurement was interrupted by launches");
}

double Pace::used_ratio() const {
  double allowed = options_.device_share * Seconds(Clock::now() - start_);
  return allowed > 0 ? spent_seconds() / allowed : 0;
}

}  // namespace tessera::server
