#include "server/compile/cache_keeper.h"

#include <utility>

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

// A round reads the inventory: a tenth of a second at 100,000 artifacts.
constexpr std::chrono::seconds kPause(20);
// What is in use is asked again when the answer is older: variants are loaded meanwhile.
constexpr std::chrono::milliseconds kFresh(100);

}  // namespace

absl::StatusOr<cache::CollectReport> CacheKeeper::Collect(bool dry_run, absl::Time now) {
  std::lock_guard<std::mutex> lock(collecting_);
  InUse in_use;
  Clock::time_point asked{};
  auto fresh = [&]() -> const InUse& {
    Clock::time_point moment = Clock::now();
    if (asked == Clock::time_point{} || moment - asked > kFresh) {
      in_use = InUse{};
      add_in_use_(&in_use);
      asked = moment;
    }
    return in_use;
  };
  cache::CollectRequest request;
  request.budget = budget_;
  request.dry_run = dry_run;
  request.now_unix_seconds = absl::ToUnixSeconds(now);
  request.artifact_in_use = [&](absl::string_view hash) {
    return is_named_(hash) || fresh().artifacts.contains(hash);
  };
  request.module_in_use = [&](absl::string_view id) { return fresh().modules.contains(id); };
  return store_->Collect(request);
}

bool CacheKeeper::Due(uint64_t entries_so_far, Clock::time_point now) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (began_ && (entries_so_far == seen_ || now - last_ < kPause)) return false;
  began_ = true;
  seen_ = entries_so_far;
  last_ = now;
  return true;
}

}  // namespace tessera::server
