#include "cache/family/inventory/inventory_family.h"

#include <vector>

#include "cache/family/family_options.h"
#include "cache/key/blake2b.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {
namespace {

void Tune(const FamilyResources& resources, rocksdb::ColumnFamilyOptions* options) {
  // Small, never looked up on a launch, scanned as a whole when the cache is over its budget. The default buffer of
  // point lookups suits it; LZ4 halves the repeated kernel names.
  TuneForPointLookups(resources, options);
}

std::string Check(absl::string_view, absl::string_view payload) {
  storage::InventoryRecord record;
  return record.ParseFromArray(payload.data(), payload.size()) ? "" : "is no InventoryRecord";
}

}  // namespace

const Family& InventoryFamily() {
  static constexpr Family family = {"inventory", 1, Tune, Check, DumpInventory};
  return family;
}

storage::InventoryRecord InventoryOf(const storage::ArtifactRecord& artifact, uint64_t bytes) {
  storage::InventoryRecord record;
  record.set_format_version(InventoryFamily().format_version);
  record.set_bytes(bytes);
  record.set_compile_seconds(artifact.compile_seconds());
  record.set_created_unix_seconds(artifact.created_unix_seconds());
  record.set_kernel(artifact.artifact().metadata().kernel());
  record.set_target(artifact.artifact().metadata().target());
  std::vector<CanonicalField> fields;
  if (ParseCanonical(artifact.key(), &fields)) {
    for (const CanonicalField& field : fields) {
      if (field.name == "closure") record.set_source(Blake2b({field.value}, 16).substr(0, 8));
    }
  }
  return record;
}

}  // namespace tessera::cache
