#include "cache/family/failures/failures_family.h"

#include "cache/family/family_options.h"
#include "cache/key/blake2b.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // Few and short-lived; read after a miss in `artifacts`, when the bloom filter answers for nearly all.
  TuneForPointLookups(resources, options);
  options->write_buffer_size = 1 << 20;
}

std::string Check(absl::string_view key, absl::string_view payload) {
  storage::FailureRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "is no FailureRecord";
  if (Blake2b({record.key()}, 32) != key) return "holds another key than the one it is stored under";
  return "";
}

}  // namespace

const Family& FailuresFamily() {
  static constexpr Family family = {"failures", 1, Tune, Check, DumpFailures};
  return family;
}

bool Expired(const storage::FailureRecord& record, int64_t now_unix_seconds) {
  return now_unix_seconds >= record.expires_unix_seconds() || now_unix_seconds < record.created_unix_seconds();
}

}  // namespace tessera::cache
