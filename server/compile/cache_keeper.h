// Keeps the cache within its budget, and what is in use out of eviction's way.
#ifndef TESSERA_SERVER_COMPILE_CACHE_KEEPER_H_
#define TESSERA_SERVER_COMPILE_CACHE_KEEPER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/store/cache_store.h"

namespace tessera::server {

class CacheKeeper {
 public:
  struct InUse {
    absl::flat_hash_set<std::string> artifacts;  // hashes of compile keys
    absl::flat_hash_set<std::string> modules;    // ids
  };
  // Adds what is loaded. May be called from any thread.
  using AddInUse = std::function<void(InUse*)>;
  // Whether a manifest names the artifact. May be called from any thread.
  using IsNamed = std::function<bool(absl::string_view hash)>;

  // `store` must outlive this object.
  CacheKeeper(cache::CacheStore* store, cache::EvictionBudget budget, AddInUse add_in_use,
              IsNamed is_named)
      : store_(store),
        budget_(budget),
        add_in_use_(std::move(add_in_use)),
        is_named_(std::move(is_named)) {}

  // Blocks. One at a time.
  absl::StatusOr<cache::CollectReport> Collect(bool dry_run, absl::Time now);

  // Whether a round is due: entries came (`entries_so_far` counts them since the start), and the
  // last round is a while ago.
  bool Due(uint64_t entries_so_far, std::chrono::steady_clock::time_point now);

  const cache::EvictionBudget& budget() const { return budget_; }

 private:
  cache::CacheStore* const store_;
  const cache::EvictionBudget budget_;
  const AddInUse add_in_use_;
  const IsNamed is_named_;
  std::mutex collecting_;
  std::mutex mutex_;
  bool began_ = false;
  uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_CACHE_KEEPER_H_
