#include "cache/family/tunings/tunings_family.h"

#include "cache/family/family_options.h"
#include "cache/family/tunings/tuning_key.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // Up to a million records of some 100 bytes to 4 KiB; also scanned by kernel, module and device to find the nearest
  // bucket, which the order of the key makes one short range.
  TuneForPointLookups(resources, options);
  options->write_buffer_size = 8 << 20;
}

std::string Check(absl::string_view key, absl::string_view payload) {
  storage::TuningRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "is no TuningRecord";
  std::string kernel, module, bucket, device;
  if (!DecodeTuningKey(key, &kernel, &module, &bucket, &device)) return "is stored under what is no tuning key";
  return "";
}

}  // namespace

const Family& TuningsFamily() {
  static constexpr Family family = {"tunings", 1, Tune, Check, DumpTunings};
  return family;
}

}  // namespace tessera::cache
