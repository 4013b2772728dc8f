// The one place that turns RocksDB's errors into absl::Status.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STATUS_H_
#define TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/status.h"

namespace tessera::cache {

// `attempt` says what was tried: "storing artifacts 12ab". DATA_LOSS: damage. RESOURCE_EXHAUSTED: the disk is full.
// UNAVAILABLE: the disk or the directory fails otherwise. NOT_FOUND: no such key or file.
absl::Status FromRocksdb(const rocksdb::Status& status, absl::string_view attempt);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_STATUS_H_
