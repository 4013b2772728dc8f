#include "cache/family/meta/meta_family.h"

#include "cache/family/family_options.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // A handful of records, read at open.
  TuneForPointLookups(resources, options);
  options->write_buffer_size = 64 << 10;
}

std::string Check(absl::string_view, absl::string_view payload) {
  storage::MetaRecord record;
  return record.ParseFromArray(payload.data(), payload.size()) ? "" : "is no MetaRecord";
}

}  // namespace

const Family& MetaFamily() {
  static constexpr Family family = {"meta", 1, Tune, Check, DumpMeta};
  return family;
}

}  // namespace tessera::cache
