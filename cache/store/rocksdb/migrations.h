// Steps from one schema of the database to the next.
//
// The schema says which families there are, how their keys are encoded and what their records mean. It is the N of the
// directory's name, db.vN, and lies in `meta` for people.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_MIGRATIONS_H_
#define TESSERA_CACHE_STORE_ROCKSDB_MIGRATIONS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace tessera::cache {

class Database;

struct Migration {
  uint32_t from;     // to `from` + 1
  const char* what;  // "splits the bucket of a tuning from its dtype"
  // Its step adds to the records and leaves those it finds as they are: what can be read of a damaged database of schema
  // `from` can be copied into a fresh one of the next.
  bool additive;
  // Changes the open database in place. Killed half way, it is run again from the start: make it idempotent.
  std::function<absl::Status(Database* database)> run;
};

struct Schema {
  uint32_t version;
  std::vector<Migration> migrations;
};

// The schema that this build reads and writes.
const Schema& CurrentSchema();

// Writes the inventory of every artifact that has none. The step from schema 1 to 2, and the end of a salvage.
absl::Status CompleteInventory(Database* database);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_MIGRATIONS_H_
