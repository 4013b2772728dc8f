#include "cache/family/artifacts/artifacts_family.h"

#include "cache/family/family_options.h"
#include "cache/key/blake2b.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  TuneForPointLookups(resources, options);
  // Machine code is some 4 to 100 KiB. Apart from the keys it is written once and not moved by each compaction, and
  // the keys of 100,000 artifacts stay a few megabytes, so that a lookup reads one small block and one blob.
  KeepLargeValuesApart(4 << 10, rocksdb::kLZ4Compression, options);
  // A warm-up writes hundreds of artifacts in one go.
  options->write_buffer_size = 8 << 20;
}

std::string Check(absl::string_view key, absl::string_view payload) {
  storage::ArtifactRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "is no ArtifactRecord";
  if (Blake2b({record.key()}, 32) != key) return "holds another key than the one it is stored under";
  return "";
}

}  // namespace

const Family& ArtifactsFamily() {
  static constexpr Family family = {"artifacts", 1, Tune, Check, DumpArtifacts};
  return family;
}

}  // namespace tessera::cache
