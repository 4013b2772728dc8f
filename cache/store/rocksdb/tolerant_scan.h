// Reads a column family in order, across places that cannot be read.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_TOLERANT_SCAN_H_
#define TESSERA_CACHE_STORE_ROCKSDB_TOLERANT_SCAN_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/db.h"

namespace tessera::cache {

// Calls `visit` for each readable entry whose key starts with `prefix`, and `skip` with the last key before each place
// that is damaged or fails to be read, and why. Either may stop the scan by answering false. After such a place the
// scan goes on at the next entry that can be read, found by bisecting the key space.
//
// An error is returned for what is no damage: a database that closes.
absl::Status TolerantScan(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, absl::string_view prefix,
                          absl::FunctionRef<bool(absl::string_view key, absl::string_view value)> visit,
                          absl::FunctionRef<bool(absl::string_view after, const rocksdb::Status& why)> skip);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_TOLERANT_SCAN_H_
