// Decides that a failed cache write is not fatal: it is counted and told, and the request goes on.
//
// Only PutArtifact, PutModule, PutTuning and PutFailure are forgiven. EraseTuning, Collect and Import are a person's
// order, and lookups already turn damage into misses: their errors pass through.
//
// Thread-safe.
#ifndef TESSERA_CACHE_LAYER_BEST_EFFORT_STORE_H_
#define TESSERA_CACHE_LAYER_BEST_EFFORT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

// `on_failure` is called with what was attempted and how it failed, on the writing thread. `failed_writes`, if given,
// counts them and must outlive the store.
std::unique_ptr<CacheStore> NewBestEffortStore(
    std::unique_ptr<CacheStore> behind,
    std::function<void(absl::string_view attempt, const absl::Status& failure)> on_failure,
    std::atomic<uint64_t>* failed_writes = nullptr);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_BEST_EFFORT_STORE_H_
