// Launches of a session that were answered when the device had them, and have not ended yet.
#ifndef TESSERA_SERVER_SESSION_DETACHED_LAUNCHES_H_
#define TESSERA_SERVER_SESSION_DETACHED_LAUNCHES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "proto/tessera/v1/launch.pb.h"

namespace tessera::server {

// Thread-safe.
class DetachedLaunches {
 public:
  static constexpr size_t kMaxFailures = 1024;  // kept for Await; older ones are only counted

  // A launch begins; End wants what this returns.
  uint64_t Begin();
  // `failure` null: it succeeded, or its failure was answered.
  void End(uint64_t generation, const tessera::v1::LaunchResponse* failure);

  // Runs once, on the thread of an End or on the caller's; must not block.
  using Done = std::function<void(tessera::v1::SynchronizeResponse)>;
  // Calls `done` when every launch that had begun before this call has ended, with the failures
  // since the last time.
  void Await(Done done);

 private:
  tessera::v1::SynchronizeResponse TakeFailures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Done> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;               // a new one with every Await
  std::map<uint64_t, uint64_t> running_ ABSL_GUARDED_BY(mutex_);  // launches by generation
  std::map<uint64_t, Done> waiting_ ABSL_GUARDED_BY(mutex_);      // by the last generation awaited
  std::deque<tessera::v1::LaunchResponse> failures_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_DETACHED_LAUNCHES_H_
