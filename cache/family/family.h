// A column family as the stores see it: its name, its options, and how an entry is checked and printed.
//
// Names no RocksDB type in full, so that stores without RocksDB can use it.
#ifndef TESSERA_CACHE_FAMILY_FAMILY_H_
#define TESSERA_CACHE_FAMILY_FAMILY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocksdb {
class Cache;
struct ColumnFamilyOptions;
}  // namespace rocksdb

namespace tessera::cache {

// What all families of one database share.
struct FamilyResources {
  std::shared_ptr<rocksdb::Cache> block_cache;
};

struct Family {
  // Its identity, on disk and on the command line.
  const char* name;
  // Of its records. A reader treats any other version as a miss; raise it with a migration step.
  uint16_t format_version;
  void (*tune)(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options);
  // What is wrong with an undamaged payload under `key`; "" when nothing is.
  std::string (*check)(absl::string_view key, absl::string_view payload);
  // The entry in one line for people, without its key.
  std::string (*dump)(absl::string_view key, absl::string_view payload);
};

// All families, in the order in which they are printed (registry.cc).
const std::vector<const Family*>& AllFamilies();

// nullptr: there is none of that name.
const Family* FindFamily(absl::string_view name);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_FAMILY_H_
