// Keeps launches of clients and measurements of the tuner apart on one device.
//
// A measurement begins while no client's launch is in flight, or takes the place of the next launch
// when those in flight have ended; launches that come meanwhile wait for its end, but none longer
// than the bound: then it runs, and the measurement is void. Thread-safe; without a measurement a
// launch costs two atomic operations and a look at the clock.
#ifndef TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_
#define TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera::server {

class MeasurementGate {
 public:
  using Clock = std::chrono::steady_clock;

  // A client's launch goes to the device, and has ended. Enter waits at most the bound of a
  // measurement.
  void Enter() {
    launches_.fetch_add(1, std::memory_order_seq_cst);
    if (state_.load(std::memory_order_seq_cst) != State::kFree) WaitForMeasurement();
  }
  // `kernel_seconds`: how long it took on the device; 0: nobody knows.
  void Leave(double kernel_seconds = 0) {
    if (kernel_seconds > 0)
      recent_[count_.fetch_add(1, std::memory_order_relaxed) % kRecent].store(
          static_cast<float>(kernel_seconds), std::memory_order_relaxed);
    if (launches_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
    idle_since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    if (state_.load(std::memory_order_seq_cst) == State::kWanted) HandOver();
  }

  // Begins a measurement if no launch is in flight. False: clients use the device, or another
  // measurement does. `bound`: how long launches may be held up by it.
  bool TryBegin(absl::Duration bound);
  // Begins one when the launches in flight have ended, at most `patience` from now: the device is
  // handed over by the last of them. Launches that come while others are still in flight wait from
  // then on; after a part of the bound, `drain`, they are let through, and it is false.
  bool Begin(absl::Duration bound, absl::Duration drain, absl::Duration patience);
  // False: launches went on before its end, so that its time says nothing.
  bool End();

  bool idle() const { return launches_.load(std::memory_order_relaxed) == 0; }
  // Median of the latest launches' times on the device, seconds; 0 while few have ended.
  double TypicalSeconds() const;
  // Since the last launch ended; zero while one is in flight.
  absl::Duration IdleFor() const;
  // Launches that waited, how long in all, and measurements that went on beyond their bound while
  // launches ran.
  uint64_t held_up() const { return held_up_.load(std::memory_order_relaxed); }
  double held_up_seconds() const {
    return 1e-9 * static_cast<double>(held_up_ns_.load(std::memory_order_relaxed));
  }
  uint64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }

 private:
  enum class State { kFree, kWanted, kMeasuring };
  // Of a launch that is held up: until the device is free again, or the bound has passed.
  void WaitForMeasurement();
  void HandOver();
  void HandOverLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static constexpr size_t kRecent = 64;
  std::atomic<int64_t> launches_{0};  // on the device; those that wait do not count
  std::atomic<State> state_{State::kFree};  // written under the lock
  std::atomic<bool> void_{false};
  std::atomic<int64_t> idle_since_{0};
  std::atomic<uint64_t> count_{0};  // of launches that told their time
  std::array<std::atomic<float>, kRecent> recent_{};
  std::atomic<uint64_t> held_up_{0}, held_up_ns_{0}, overruns_{0};
  absl::Mutex mutex_;
  absl::Duration bound_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // launches that are held up
  // When the first launch was held up, or the measurement began; what is held up waits for the bound
  // from then on.
  absl::Time held_from_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_
