#include "server/device/measurement_gate.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace tessera::server {

void MeasurementGate::HandOverLocked() {
  // Who came in between hands over itself: see WaitForMeasurement.
  if (state_.load(std::memory_order_relaxed) != State::kWanted || !idle()) return;
  held_from_ = std::min(held_from_, absl::Now());
  state_.store(State::kMeasuring, std::memory_order_seq_cst);
}

void MeasurementGate::HandOver() {
  absl::MutexLock lock(&mutex_);
  HandOverLocked();
}

void MeasurementGate::WaitForMeasurement() {
  if (void_.load(std::memory_order_seq_cst)) return;  // its bound has passed
  Clock::time_point start = Clock::now();
  {
    absl::MutexLock lock(&mutex_);
    if (state_.load(std::memory_order_relaxed) == State::kFree) return;
    launches_.fetch_sub(1, std::memory_order_seq_cst);
    held_up_.fetch_add(1, std::memory_order_relaxed);
    held_from_ = std::min(held_from_, absl::Now());
    ++waiting_;
    HandOverLocked();
    auto is_free = [this] { return state_.load(std::memory_order_relaxed) == State::kFree; };
    if (!mutex_.AwaitWithDeadline(absl::Condition(&is_free), held_from_ + bound_) &&
        !void_.exchange(true, std::memory_order_seq_cst))
      overruns_.fetch_add(1, std::memory_order_relaxed);
    --waiting_;
    // Under the lock: the next measurement sees it.
    launches_.fetch_add(1, std::memory_order_seq_cst);
  }
  held_up_ns_.fetch_add(static_cast<uint64_t>((Clock::now() - start).count()),
                        std::memory_order_relaxed);
}

bool MeasurementGate::TryBegin(absl::Duration bound) {
  return idle() && Begin(bound, absl::ZeroDuration(), absl::ZeroDuration());
}

bool MeasurementGate::Begin(absl::Duration bound, absl::Duration drain, absl::Duration patience) {
  const absl::Time give_up = absl::Now() + patience;
  absl::MutexLock lock(&mutex_);
  // Whom the last measurement held up comes first.
  if (state_.load(std::memory_order_relaxed) != State::kFree || waiting_ > 0) return false;
  bound_ = bound;
  held_from_ = absl::InfiniteFuture();
  void_.store(false, std::memory_order_relaxed);
  state_.store(State::kWanted, std::memory_order_seq_cst);
  // A launch that comes in between either sees the state or is seen here.
  HandOverLocked();
  // Wakes up when launches are held up, too: the time to drain the device begins.
  auto changed = [this] {
    return state_.load(std::memory_order_relaxed) != State::kWanted ||
           held_from_ != absl::InfiniteFuture();
  };
  auto begun = [this] { return state_.load(std::memory_order_relaxed) != State::kWanted; };
  if (mutex_.AwaitWithDeadline(absl::Condition(&changed), give_up))
    mutex_.AwaitWithDeadline(absl::Condition(&begun), std::min(held_from_ + drain, give_up));
  if (begun()) return true;
  state_.store(State::kFree, std::memory_order_seq_cst);
  return false;
}

bool MeasurementGate::End() {
  absl::MutexLock lock(&mutex_);
  state_.store(State::kFree, std::memory_order_seq_cst);
  return !void_.load(std::memory_order_seq_cst);
}

double MeasurementGate::TypicalSeconds() const {
  if (count_.load(std::memory_order_relaxed) < kRecent) return 0;
  std::array<float, kRecent> seconds;
  std::transform(recent_.begin(), recent_.end(), seconds.begin(),
                 [](const std::atomic<float>& one) { return one.load(std::memory_order_relaxed); });
  std::nth_element(seconds.begin(), seconds.begin() + kRecent / 2, seconds.end());
  return seconds[kRecent / 2];
}

absl::Duration MeasurementGate::IdleFor() const {
  if (!idle()) return absl::ZeroDuration();
  Clock::time_point since{Clock::duration(idle_since_.load(std::memory_order_relaxed))};
  return absl::FromChrono(Clock::now() - since);
}

}  // namespace tessera::server
