#include "cache/family/usage/usage_family.h"

#include "cache/family/family_options.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // Small, and each record is rewritten every few seconds while its kernel runs: a small buffer, so that what is
  // written over again and again is merged in memory and seldom reaches a file.
  TuneForPointLookups(resources, options);
}

std::string Check(absl::string_view, absl::string_view payload) {
  storage::UsageRecord record;
  return record.ParseFromArray(payload.data(), payload.size()) ? "" : "is no UsageRecord";
}

}  // namespace

const Family& UsageFamily() {
  static constexpr Family family = {"usage", 1, Tune, Check, DumpUsage};
  return family;
}

}  // namespace tessera::cache
