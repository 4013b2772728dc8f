// Keeps launches of clients and measurements of the tuner apart on one device.
//
// A measurement begins while no client's launch is in flight; a launch that comes meanwhile waits
// for its end, but no longer than until the bound has passed since its begin: then it runs, and the
// measurement is void. Thread-safe; without a measurement a launch costs two atomic operations and
// a look at the clock.
#ifndef TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_
#define TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera::server {

class MeasurementGate {
 public:
  using Clock = std::chrono::steady_clock;

  // A client's launch goes to the device, and has ended. Enter waits at most the bound of a
  // measurement under way.
  void Enter() {
    launches_.fetch_add(1, std::memory_order_seq_cst);
    if (measuring_.load(std::memory_order_seq_cst)) WaitForMeasurement();
  }
  void Leave() {
    if (launches_.fetch_sub(1, std::memory_order_seq_cst) == 1)
      idle_since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }

  // False: clients use the device, or another measurement runs. `bound`: how long launches may be
  // held up by it. `drain`, a part of the bound: how long to wait for launches in flight to end,
  // while new ones are held up already; where there is no gap between them, this makes one. Blocks
  // that long.
  bool TryBegin(absl::Duration bound, absl::Duration drain = absl::ZeroDuration());
  // False: launches went on before its end, so that its time says nothing.
  bool End();

  bool idle() const { return launches_.load(std::memory_order_relaxed) == 0; }
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
  void WaitForMeasurement();

  std::atomic<int64_t> launches_{0};  // on the device; those that wait do not count
  std::atomic<bool> measuring_{false};
  std::atomic<bool> void_{false};
  std::atomic<int64_t> idle_since_{0};
  std::atomic<uint64_t> held_up_{0}, held_up_ns_{0}, overruns_{0};
  absl::Mutex mutex_;
  Clock::time_point give_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_DEVICE_MEASUREMENT_GATE_H_
