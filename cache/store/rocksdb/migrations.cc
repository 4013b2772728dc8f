#include "cache/store/rocksdb/migrations.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/store/rocksdb/database.h"
#include "cache/store/rocksdb/rocksdb_status.h"
#include "cache/store/rocksdb/stored_value.h"
#include "cache/store/rocksdb/tolerant_scan.h"

namespace tessera::cache {

const Schema& CurrentSchema() {
  static const auto* const schema = new Schema{
      2,
      {
          {1, "keeps an inventory of artifacts, and compiles that failed", /*additive=*/true, CompleteInventory},
      }};
  return *schema;
}

absl::Status CompleteInventory(Database* database) {
  rocksdb::DB* db = database->db();
  rocksdb::ColumnFamilyHandle* inventory = database->handle(InventoryFamily());
  rocksdb::Status written;
  const auto visit = [&](absl::string_view key, absl::string_view value) {
    const DecodedValue decoded = DecodeValue(ArtifactsFamily(), key, value);
    storage::ArtifactRecord artifact;
    if (decoded.reason != MissReason::kFound ||
        !artifact.ParseFromArray(decoded.payload.data(), static_cast<int>(decoded.payload.size()))) {
      return true;  // nobody will be served it either
    }
    const rocksdb::Slice raw_key(key.data(), key.size());
    std::string there;
    if (db->Get(rocksdb::ReadOptions(), inventory, raw_key, &there).ok() &&
        DecodeValue(InventoryFamily(), key, there).reason == MissReason::kFound) {
      return true;
    }
    const std::string payload = InventoryOf(artifact, key.size() + decoded.payload.size()).SerializeAsString();
    written = db->Put(rocksdb::WriteOptions(), inventory, raw_key, EncodeValue(InventoryFamily(), key, payload));
    return written.ok();
  };
  RETURN_IF_ERROR(TolerantScan(db, database->handle(ArtifactsFamily()), "", visit,
                               [](absl::string_view, const rocksdb::Status&) { return true; }));
  RETURN_IF_ERROR(FromRocksdb(written, "writing the inventory of artifacts"));
  return FromRocksdb(db->FlushWAL(/*sync=*/true), "writing the inventory of artifacts");
}

}  // namespace tessera::cache
