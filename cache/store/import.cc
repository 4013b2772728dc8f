// Entries from elsewhere: checked one by one, stored together.
#include <unordered_set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/family/modules/modules_family.h"
#include "cache/family/tunings/tunings_family.h"
#include "cache/key/compile_key.h"
#include "cache/store/record_store.h"

namespace tessera::cache {
namespace {

template <typename Record>
std::string VersionFault(const Family& family, absl::string_view payload) {
  Record record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return "is no record of its family";
  if (record.format_version() == family.format_version) return "";
  return absl::StrCat("has format ", record.format_version(), "; this build reads ", family.format_version);
}

// A module's id is the hash of its files: nobody can pass one off as another.
std::string ModuleFault(absl::string_view key, absl::string_view payload) {
  storage::ModuleRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return "is no ModuleRecord";
  return ModuleId(record) == absl::BytesToHexString(key) ? "" : "holds other files than its id says";
}

// "" if `entry` may enter.
std::string FaultOf(const Family& family, const ForeignEntry& entry) {
  std::string fault = family.check(entry.key, entry.payload);
  if (!fault.empty()) return fault;
  if (&family == &ArtifactsFamily()) return VersionFault<storage::ArtifactRecord>(family, entry.payload);
  if (&family == &TuningsFamily()) return VersionFault<storage::TuningRecord>(family, entry.payload);
  fault = VersionFault<storage::ModuleRecord>(family, entry.payload);
  return fault.empty() ? ModuleFault(entry.key, entry.payload) : fault;
}

}  // namespace

absl::StatusOr<ImportReport> RecordStore::Import(const std::vector<ForeignEntry>& entries, bool replace) {
  ImportReport report;
  std::vector<Change> changes;
  for (const ForeignEntry& entry : entries) {
    const Family* family = FindFamily(entry.family);
    std::string fault = "is of a family that is not imported";
    if (family == &ArtifactsFamily() || family == &TuningsFamily() || family == &ModulesFamily()) {
      fault = FaultOf(*family, entry);
    }
    if (!fault.empty()) {
      ++report.rejected;
      report.findings.push_back(absl::StrCat(entry.family, " ", absl::BytesToHexString(entry.key), " ", fault));
      continue;
    }
    if (!replace) {
      ASSIGN_OR_RETURN(const MissReason there, Load(*family, entry.key, [&](absl::string_view payload) {
                         return family->check(entry.key, payload).empty() ? MissReason::kFound : MissReason::kDamaged;
                       }));
      if (there == MissReason::kFound) {
        ++report.already_there;
        continue;
      }
    }
    if (family == &ArtifactsFamily()) {
      storage::ArtifactRecord artifact;
      artifact.ParseFromString(entry.payload);
      changes.push_back({&InventoryFamily(), entry.key,
                         InventoryOf(artifact, entry.key.size() + entry.payload.size()).SerializeAsString()});
    }
    changes.push_back({family, entry.key, entry.payload});
    ++report.imported;
  }
  if (!changes.empty()) RETURN_IF_ERROR(Apply(changes, /*durable=*/true));
  return report;
}

}  // namespace tessera::cache
