#include "server/device/measurement_gate.h"

#include <algorithm>

namespace tessera::server {

void MeasurementGate::WaitForMeasurement() {
  Clock::time_point start = Clock::now();
  held_up_.fetch_add(1, std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mutex_);
    absl::Time deadline = absl::Now() + std::max(absl::FromChrono(give_way_ - start), absl::ZeroDuration());
    auto over = [this] { return !measuring_.load(std::memory_order_seq_cst); };
    if (!mutex_.AwaitWithDeadline(absl::Condition(&over), deadline)) {
      void_.store(true, std::memory_order_seq_cst);
      overruns_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  held_up_ns_.fetch_add(static_cast<uint64_t>((Clock::now() - start).count()), std::memory_order_relaxed);
}

bool MeasurementGate::TryBegin(absl::Duration bound) {
  absl::MutexLock lock(&mutex_);
  if (measuring_.load(std::memory_order_relaxed) || !idle()) return false;
  give_way_ = Clock::now() + absl::ToChronoNanoseconds(bound);
  void_.store(false, std::memory_order_relaxed);
  measuring_.store(true, std::memory_order_seq_cst);
  // A launch that came in between either saw `measuring_` or is seen here.
  if (launches_.load(std::memory_order_seq_cst) == 0) return true;
  measuring_.store(false, std::memory_order_seq_cst);
  return false;
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
