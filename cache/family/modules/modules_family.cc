#include "cache/family/modules/modules_family.h"

#include "cache/family/family_options.h"
#include "proto/storage/modules.pb.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  TuneForPointLookups(resources, options);
  // Source text compresses well and is read once a registration, never at a launch: ZSTD.
  options->compression = rocksdb::kZSTD;
  KeepLargeValuesApart(4 << 10, rocksdb::kZSTD, options);
}

std::string Check(absl::string_view, absl::string_view payload) {
  storage::ModuleRecord record;
  return record.ParseFromArray(payload.data(), payload.size()) ? "" : "is no ModuleRecord";
}

}  // namespace

const Family& ModulesFamily() {
  static constexpr Family family = {"modules", 1, Tune, Check, DumpModules};
  return family;
}

}  // namespace tessera::cache
