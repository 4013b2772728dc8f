#include "server/session/detached_launches.h"

namespace tessera::server {

namespace api = ::tessera::v1;

uint64_t DetachedLaunches::Begin() {
  absl::MutexLock lock(&mutex_);
  ++running_[generation_];
  return generation_;
}

void DetachedLaunches::End(uint64_t generation, const api::LaunchResponse* failure) {
  std::vector<std::pair<Done, api::SynchronizeResponse>> answers;
  {
    absl::MutexLock lock(&mutex_);
    if (failure != nullptr) {
      failures_.push_back(*failure);
      if (failures_.size() > kMaxFailures) {
        failures_.pop_front();
        ++dropped_;
      }
    }
    auto running = running_.find(generation);
    if (--running->second == 0) running_.erase(running);
    for (Done& done : TakeReady()) answers.emplace_back(std::move(done), TakeFailures());
  }
  for (auto& [done, response] : answers) done(std::move(response));
}

void DetachedLaunches::Await(Done done) {
  api::SynchronizeResponse response;
  {
    absl::MutexLock lock(&mutex_);
    if (!running_.empty()) {
      waiting_.emplace(generation_++, std::move(done));
      return;
    }
    response = TakeFailures();
  }
  done(std::move(response));
}

std::vector<DetachedLaunches::Done> DetachedLaunches::TakeReady() {
  std::vector<Done> ready;
  while (!waiting_.empty() &&
         (running_.empty() || running_.begin()->first > waiting_.begin()->first)) {
    ready.push_back(std::move(waiting_.begin()->second));
    waiting_.erase(waiting_.begin());
  }
  return ready;
}

api::SynchronizeResponse DetachedLaunches::TakeFailures() {
  api::SynchronizeResponse response;
  for (api::LaunchResponse& failure : failures_) *response.add_failures() = std::move(failure);
  response.set_failures_dropped(dropped_);
  failures_.clear();
  dropped_ = 0;
  return response;
}

}  // namespace tessera::server
