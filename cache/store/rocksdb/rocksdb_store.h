// Keeps modules, artifacts, tunings and usage in one RocksDB database on disk.
//
// Put HotEntriesStore in front of it for the launch path and BestEffortStore where a lost write may not fail a request.
// This header names no RocksDB type; only this folder and cache/family include RocksDB.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STORE_H_
#define TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

struct RocksdbStoreOptions {
  // Uncompressed blocks kept in memory, all families together.
  uint64_t block_cache_bytes = 32 << 20;
  // Bound on what is held in memory while the disk refuses writes; the oldest entries go first.
  uint64_t degraded_bytes = 256 << 20;
  // How often buffered usage is written, and how often a failed disk is tried again.
  absl::Duration maintenance_interval = absl::Seconds(5);
  // Recorded in `meta`, for people.
  std::string compiler_build;
  // Called with one sentence for each thing an operator should read: a database set aside, a disk that fails or
  // works again, a damaged entry. From any thread; may not call the store.
  std::function<void(absl::string_view)> note;
};

// Opens, or creates, the database below directory `path` (created too, mode 0700).
//
// FAILED_PRECONDITION: another process holds `path` (the message names it and the holder's pid), or a newer Tessera
// wrote the database (it is left as it is). INVALID_ARGUMENT: `path` is empty or is no directory.
// Anything else still gives a store: a database that does not open is set aside under a name with a time stamp and a
// fresh one is used; where not even that works, the store is in memory. Stats().state says so, and `note` why.
//
// While the disk refuses writes, Put... keeps the entry in memory and returns the disk's error: lookups find it, but
// it is not durable. What was kept so is written when the disk works again.
absl::StatusOr<std::unique_ptr<CacheStore>> OpenRocksdbStore(absl::string_view path,
                                                             const RocksdbStoreOptions& options = {});

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STORE_H_
