// Makes a database of the previous schema, as the release before left it behind. For tests.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_SCHEMA_ONE_H_
#define TESSERA_CACHE_STORE_ROCKSDB_SCHEMA_ONE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "cache/family/family.h"
#include "rocksdb/db.h"

namespace tessera::cache {

// `directory` holds a closed database of schema 2.
inline void MakeSchemaOne(const std::string& directory) {
  std::filesystem::rename(directory + "/db.v2", directory + "/db.v1");
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {{rocksdb::kDefaultColumnFamilyName, {}}};
  for (const Family* family : AllFamilies()) {
    rocksdb::ColumnFamilyOptions options;
    family->tune(FamilyResources{}, &options);
    descriptors.emplace_back(family->name, options);
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  rocksdb::DBOptions db_options;
  db_options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;  // as database.cc
  db_options.avoid_flush_during_recovery = true;
  const rocksdb::Status opened = rocksdb::DB::Open(db_options, directory + "/db.v1", descriptors, &handles, &raw);
  TESSERA_CHECK(opened.ok(), "a database of schema 2 must open");
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (handle->GetName() == "inventory" || handle->GetName() == "failures") {
      TESSERA_CHECK(db->DropColumnFamily(handle).ok(), "the families that schema 1 did not have must go");
    }
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
}

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_SCHEMA_ONE_H_
