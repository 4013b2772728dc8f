#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/failures/failures_family.h"
#include "cache/family/family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/family/meta/meta_family.h"
#include "cache/family/modules/modules_family.h"
#include "cache/family/quarantine/quarantine_family.h"
#include "cache/family/tunings/tunings_family.h"
#include "cache/family/usage/usage_family.h"

namespace tessera::cache {

// One line for each family. Removing a line makes databases that have the family unreadable: migrate first.
const std::vector<const Family*>& AllFamilies() {
  static const auto* const families = new std::vector<const Family*>{
      &ModulesFamily(),
      &ArtifactsFamily(),
      &InventoryFamily(),
      &FailuresFamily(),
      &TuningsFamily(),
      &UsageFamily(),
      &MetaFamily(),
      &QuarantineFamily(),
  };
  return *families;
}

const Family* FindFamily(absl::string_view name) {
  for (const Family* family : AllFamilies()) {
    if (name == family->name) return family;
  }
  return nullptr;
}

}  // namespace tessera::cache
