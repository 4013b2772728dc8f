// Keeps the entries used last in memory, in front of another store.
//
// A hit takes one short lock of its own that nobody holds across disk, compaction or compile. An entry is in front
// only if the store behind acknowledged it or returned it.
//
// Thread-safe.
#ifndef TESSERA_CACHE_LAYER_HOT_ENTRIES_STORE_H_
#define TESSERA_CACHE_LAYER_HOT_ENTRIES_STORE_H_

#include <cstdint>
#include <memory>

#include "cache/store/cache_store.h"

namespace tessera::cache {

// `max_bytes` bounds the records held (their serialised size). Stats() adds the hits in front to those behind.
std::unique_ptr<CacheStore> NewHotEntriesStore(std::unique_ptr<CacheStore> behind, uint64_t max_bytes = 128 << 20);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_HOT_ENTRIES_STORE_H_
