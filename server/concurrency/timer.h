// Calls functions later, on one thread, by the monotonic clock: a wall clock that jumps changes
// nothing.
//
// Thread-safe. Functions must be short and must not block.
#ifndef TESSERA_SERVER_CONCURRENCY_TIMER_H_
#define TESSERA_SERVER_CONCURRENCY_TIMER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace tessera::server {

class Timer {
 public:
  using Id = std::pair<std::chrono::steady_clock::time_point, uint64_t>;

  Timer();
  ~Timer();  // Stop

  // Functions whose time has not come are dropped; those given later never run.
  void Stop();

  Id After(absl::Duration delay, std::function<void()> function);
  // No effect if the function has run; it may be running.
  void Cancel(Id id);
  // Calls `function` again and again until the timer goes.
  void Every(absl::Duration period, std::function<void()> function);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Id, std::function<void()>> pending_;
  uint64_t next_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONCURRENCY_TIMER_H_
