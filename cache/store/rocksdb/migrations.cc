#include "cache/store/rocksdb/migrations.h"

namespace tessera::cache {

const Schema& CurrentSchema() {
  // Version 1 is the first: there is nothing to migrate from. The next one raises `version` and adds its step here.
  static const auto* const schema = new Schema{1, {}};
  return *schema;
}

}  // namespace tessera::cache
