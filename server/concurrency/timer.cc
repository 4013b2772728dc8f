#include "server/concurrency/timer.h"

namespace tessera::server {

Timer::Timer() : thread_([this] { Loop(); }) {}

Timer::~Timer() { Stop(); }

void Timer::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Timer::Id Timer::After(absl::Duration delay, std::function<void()> function) {
  // A hundred years is for ever, and does not overflow the clock.
  if (delay > absl::Hours(24 * 36500)) delay = absl::Hours(24 * 36500);
  std::lock_guard<std::mutex> lock(mutex_);
  Id id(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay), next_++);
  bool first = pending_.empty() || id < pending_.begin()->first;
  pending_.emplace(id, std::move(function));
  if (first) wake_.notify_all();
  return id;
}

void Timer::Cancel(Id id) {
  std::function<void()> dropped;
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = pending_.find(id);
  if (found == pending_.end()) return;
  dropped = std::move(found->second);
  pending_.erase(found);
}

void Timer::Every(absl::Duration period, std::function<void()> function) {
  After(period, [this, period, function = std::move(function)] {
    function();
    Every(period, function);
  });
}

void Timer::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (pending_.empty()) {
      wake_.wait(lock);
      continue;
    }
    auto first = pending_.begin();
    if (first->first.first > std::chrono::steady_clock::now()) {
      wake_.wait_until(lock, first->first.first);
      continue;
    }
    std::function<void()> function = std::move(first->second);
    pending_.erase(first);
    lock.unlock();
    function();
    function = nullptr;
    lock.lock();
  }
}

}  // namespace tessera::server
