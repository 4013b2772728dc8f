// A CacheStore in memory: for tests, and for a daemon whose disk fails.
#ifndef TESSERA_CACHE_STORE_MEMORY_MEMORY_STORE_H_
#define TESSERA_CACHE_STORE_MEMORY_MEMORY_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "cache/store/cache_store.h"

namespace tessera::cache {

// Holds at most `max_bytes` (keys and values; 0: no bound): beyond it the entry written longest ago goes first.
// `state` is what Stats().state says.
std::unique_ptr<CacheStore> NewMemoryStore(uint64_t max_bytes = 0, std::string state = "ok");

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_MEMORY_MEMORY_STORE_H_
