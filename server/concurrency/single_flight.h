// Many callers of one key share one piece of work; each waits with a deadline of its own.
//
// Thread-safe. Callbacks run exactly once: on the thread that finishes the work, or on the timer's
// when the caller's deadline passes first (DEADLINE_EXCEEDED; the work goes on for the others).
#ifndef TESSERA_SERVER_CONCURRENCY_SINGLE_FLIGHT_H_
#define TESSERA_SERVER_CONCURRENCY_SINGLE_FLIGHT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/concurrency/timer.h"

namespace tessera::server {

template <typename Result>
class SingleFlight {
 public:
  // `led` says whether this caller's Join began the work.
  using Callback = std::function<void(const absl::StatusOr<Result>& result, bool led)>;

  // `what` names the work in deadline messages ("compiling").
  SingleFlight(Timer* timer, std::string what) : timer_(timer), what_(std::move(what)) {}

  // True: nobody works on `key` yet, the caller must, and calls Finish(key, ...) at its end.
  bool Join(const std::string& key, absl::Duration timeout, Callback done) {
    auto waiter = std::make_shared<Waiter>();
    waiter->done = std::move(done);
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Waiter>>& waiters = flights_[key];
    waiter->led = waiters.empty();
    waiters.push_back(waiter);
    if (timeout < absl::InfiniteDuration()) {
      std::weak_ptr<Waiter> weak = waiter;
      waiter->timer = timer_->After(timeout, [weak, timeout, what = what_] {
        if (std::shared_ptr<Waiter> late = weak.lock())
          late->Fire(absl::DeadlineExceededError(
              absl::StrCat(what, " took longer than the ", absl::FormatDuration(timeout),
                           " that the caller allowed; it goes on and its result will be kept")));
      });
    }
    return waiter->led;
  }

  void Finish(const std::string& key, const absl::StatusOr<Result>& result) {
    std::vector<std::shared_ptr<Waiter>> waiters;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto flight = flights_.find(key);
      if (flight == flights_.end()) return;
      waiters = std::move(flight->second);
      flights_.erase(flight);
    }
    for (const std::shared_ptr<Waiter>& waiter : waiters) {
      if (waiter->timer) timer_->Cancel(*waiter->timer);
      waiter->Fire(result);
    }
  }

 private:
  struct Waiter {
    Callback done;
    bool led = false;
    std::optional<Timer::Id> timer;
    std::atomic<bool> fired{false};
    void Fire(const absl::StatusOr<Result>& result) {
      if (!fired.exchange(true)) done(result, led);
    }
  };

  Timer* timer_;
  std::string what_;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::vector<std::shared_ptr<Waiter>>> flights_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONCURRENCY_SINGLE_FLIGHT_H_
