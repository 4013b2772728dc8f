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
  // Changes the open database in place. Killed half way, it is run again from the start: make it idempotent.
  std::function<absl::Status(Database* database)> run;
};

struct Schema {
  uint32_t version;
  std::vector<Migration> migrations;
};

// The schema that this build reads and writes.
const Schema& CurrentSchema();

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_MIGRATIONS_H_
