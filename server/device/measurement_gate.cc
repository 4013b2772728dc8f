#include "server/device/measurement_gate.h"

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"

namespace tessera::server {
namespace {

constexpr std::chrono::microseconds kDrainPoll(10);

}  // namespace

void MeasurementGate::WaitForMeasurement() {
  if (void_.load(std::memory_order_seq_cst)) return;  // its bound has passed
  Clock::time_point start = Clock::now();
  {
    absl::MutexLock lock(&mutex_);
    launches_.fetch_sub(1, std::memory_order_seq_cst);
    held_up_.fetch_add(1, std::memory_order_relaxed);
    absl::Time deadline =
        absl::Now() + std::max(absl::FromChrono(give_way_ - start), absl::ZeroDuration());
    auto over = [this] { return !measuring_.load(std::memory_order_seq_cst); };
    if (!mutex_.AwaitWithDeadline(absl::Condition(&over), deadline) &&
        !void_.exchange(true, std::memory_order_seq_cst))
      overruns_.fetch_add(1, std::memory_order_relaxed);
    // Under the lock: the next measurement sees it.
    launches_.fetch_add(1, std::memory_order_seq_cst);
  }
  held_up_ns_.fetch_add(static_cast<uint64_t>((Clock::now() - start).count()),
                        std::memory_order_relaxed);
}

bool MeasurementGate::TryBegin(absl::Duration bound, absl::Duration drain) {
  Clock::time_point start = Clock::now();
  {
    absl::MutexLock lock(&mutex_);
    if (measuring_.load(std::memory_order_relaxed)) return false;
    if (drain <= absl::ZeroDuration() && !idle()) return false;
    give_way_ = start + absl::ToChronoNanoseconds(bound);
    void_.store(false, std::memory_order_relaxed);
    measuring_.store(true, std::memory_order_seq_cst);
  }
  // A launch that came in between either saw `measuring_` or is seen here.
  while (launches_.load(std::memory_order_seq_cst) != 0) {
    if (absl::FromChrono(Clock::now() - start) >= drain) {
      absl::MutexLock lock(&mutex_);
      measuring_.store(false, std::memory_order_seq_cst);
      return false;
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
  return true;
}

bool MeasurementGate::End() {
  absl::MutexLock lock(&mutex_);
  measuring_.store(false, std::memory_order_seq_cst);
  return !void_.load(std::memory_order_seq_cst);
}

absl::Duration MeasurementGate::IdleFor() const {
  if (!idle()) return absl::ZeroDuration();
  Clock::time_point since{Clock::duration(idle_since_.load(std::memory_order_relaxed))};
  return absl::FromChrono(Clock::now() - since);
}

}  // namespace tessera::server
