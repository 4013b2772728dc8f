#include "cache/family/quarantine/quarantine_family.h"

#include <vector>

#include "cache/family/family_options.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // Written when something broke, read by people.
  TuneForPointLookups(resources, options);
  options->write_buffer_size = 1 << 20;
  options->compression = rocksdb::kZSTD;
}

std::string Check(absl::string_view, absl::string_view payload) {
  std::vector<CanonicalField> fields;
  return ParseCanonical(payload, &fields) ? "" : "is no quarantine record";
}

}  // namespace

const Family& QuarantineFamily() {
  static constexpr Family family = {"quarantine", 1, Tune, Check, DumpQuarantine};
  return family;
}

}  // namespace tessera::cache
