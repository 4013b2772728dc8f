#include "cache/store/rocksdb/rocksdb_store.h"

#include <utility>

#include "base/status_macros.h"
#include "cache/store/rocksdb/rocksdb_record_store.h"

namespace tessera::cache {

absl::StatusOr<std::unique_ptr<CacheStore>> OpenRocksdbStore(absl::string_view path,
                                                             const RocksdbStoreOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<CacheStore> store, RocksdbRecordStore::Open(path, options));
  return store;
}

}  // namespace tessera::cache
