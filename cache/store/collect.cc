// Bringing the cache within its budget: what there is, the plan (eviction.h), and the erasing.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/dump_text.h"
#include "cache/family/failures/failures_family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/family/modules/module_key.h"
#include "cache/family/modules/modules_family.h"
#include "cache/family/usage/usage_family.h"
#include "cache/store/record_store.h"

namespace tessera::cache {
namespace {

// Whoever registers a module launches it soon.
constexpr int64_t kModuleGraceSeconds = 3600;
// Usage outlives its artifact: manifests are recorded from it. But not for ever.
constexpr int64_t kUsageKeptSeconds = 90 * 24 * 3600;
// Reading a module again costs little next to compiling a kernel.
constexpr double kDescribeSeconds = 0.01;
constexpr size_t kReportedEvictions = 1000;
// In one transaction, so that writers of the same keys wait for a moment only.
constexpr size_t kChangesAtOnce = 512;

template <typename Record>
bool Parsed(absl::string_view payload, Record* record) {
  return record->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

}  // namespace

struct RecordStore::Candidates {
  std::vector<EvictionCandidate> all;  // artifacts, then modules
  size_t artifacts = 0;
  std::unordered_set<std::string> artifact_keys;
};

absl::Status RecordStore::GatherCandidates(const CollectRequest& request, Candidates* candidates) {
  struct Use {
    uint64_t launches = 0;
    int64_t last = 0;
    void Add(uint64_t more, int64_t when) {
      launches += more;
      last = std::max(last, when);
    }
  };
  std::unordered_map<std::string, Use> by_artifact, by_module;
  RETURN_IF_ERROR(Scan(UsageFamily(), "", [&](const StoredEntry& entry) {
    storage::UsageRecord usage;
    if (entry.reason != MissReason::kFound || !Parsed(entry.payload, &usage)) return true;
    by_artifact[std::string(entry.key)].Add(usage.launches(), usage.last_unix_seconds());
    by_module[usage.module()].Add(usage.launches(), usage.last_unix_seconds());
    return true;
  }));
  RETURN_IF_ERROR(Scan(InventoryFamily(), "", [&](const StoredEntry& entry) {
    storage::InventoryRecord inventory;
    if (entry.reason != MissReason::kFound || !Parsed(entry.payload, &inventory)) return true;
    EvictionCandidate candidate;
    candidate.key = std::string(entry.key);
    candidate.kernel = absl::StrCat(inventory.target(), " ", inventory.kernel(), " ", inventory.source());
    candidate.bytes = inventory.bytes();
    candidate.compile_seconds = inventory.compile_seconds();
    const Use& use = by_artifact[candidate.key];
    candidate.launches = use.launches;
    candidate.last_use_unix_seconds = std::max(use.last, inventory.created_unix_seconds());
    candidate.in_use = request.artifact_in_use && request.artifact_in_use(candidate.key);
    candidates->artifact_keys.insert(candidate.key);
    candidates->all.push_back(std::move(candidate));
    return true;
  }));
  candidates->artifacts = candidates->all.size();
  return Scan(ModulesFamily(), "", [&](const StoredEntry& entry) {
    storage::ModuleRecord module;
    if (entry.reason != MissReason::kFound || !Parsed(entry.payload, &module)) return true;
    const std::string id = DecodeModuleKey(entry.key);
    EvictionCandidate candidate;
    candidate.key = std::string(entry.key);
    candidate.kernel = absl::StrCat("module ", id);
    candidate.bytes = entry.bytes;
    candidate.compile_seconds = kDescribeSeconds;
    const Use& use = by_module[id];
    candidate.launches = use.launches;
    candidate.last_use_unix_seconds = std::max<int64_t>(use.last, module.registered_unix_seconds());
    candidate.in_use = request.now_unix_seconds - module.registered_unix_seconds() < kModuleGraceSeconds ||
                       (request.module_in_use && request.module_in_use(id));
    candidates->all.push_back(std::move(candidate));
    return true;
  });
}

void RecordStore::GatherExpired(const CollectRequest& request, const Candidates& candidates,
                                std::vector<Change>* changes) {
  Scan(FailuresFamily(), "", [&](const StoredEntry& entry) {
    storage::FailureRecord failure;
    if (entry.reason == MissReason::kFound && Parsed(entry.payload, &failure) &&
        Expired(failure, request.now_unix_seconds)) {
      changes->push_back({&FailuresFamily(), std::string(entry.key), std::nullopt});
    }
    return true;
  }).IgnoreError();
  Scan(UsageFamily(), "", [&](const StoredEntry& entry) {
    storage::UsageRecord usage;
    if (entry.reason == MissReason::kFound && Parsed(entry.payload, &usage) &&
        candidates.artifact_keys.count(std::string(entry.key)) == 0 &&
        request.now_unix_seconds - usage.last_unix_seconds() > kUsageKeptSeconds) {
      changes->push_back({&UsageFamily(), std::string(entry.key), std::nullopt});
    }
    return true;
  }).IgnoreError();
}

absl::StatusOr<CollectReport> RecordStore::Collect(const CollectRequest& request) {
  FlushUsage();
  Candidates candidates;
  RETURN_IF_ERROR(GatherCandidates(request, &candidates));
  const std::vector<Eviction> plan =
      PlanEviction(candidates.all, request.budget, /*other_bytes=*/0, request.now_unix_seconds);
  CollectReport report;
  for (const EvictionCandidate& candidate : candidates.all) report.kept_bytes += candidate.bytes;
  report.kept_entries = candidates.all.size();
  std::vector<Change> changes;
  if (!request.dry_run) GatherExpired(request, candidates, &changes);
  const auto apply = [&]() -> absl::Status {
    const absl::Status applied = changes.empty() ? absl::OkStatus() : Apply(changes, /*durable=*/false);
    changes.clear();
    return applied;
  };
  RETURN_IF_ERROR(apply());
  for (const Eviction& eviction : plan) {
    const EvictionCandidate& gone = candidates.all[eviction.candidate];
    const bool is_artifact = eviction.candidate < candidates.artifacts;
    // It may have been loaded since.
    if (is_artifact && request.artifact_in_use && request.artifact_in_use(gone.key)) continue;
    ++report.entries;
    report.bytes += gone.bytes;
    if (report.evicted.size() < kReportedEvictions) {
      report.evicted.push_back({absl::BytesToHexString(gone.key),
                                absl::StrCat(is_artifact ? "artifact" : "module", ": ", eviction.reason, ", ",
                                             gone.launches, " launches, last used at ",
                                             TimeText(gone.last_use_unix_seconds)),
                                gone.bytes});
    }
    if (request.dry_run) continue;
    if (is_artifact) {
      changes.push_back({&ArtifactsFamily(), gone.key, std::nullopt});
      changes.push_back({&InventoryFamily(), gone.key, std::nullopt});
    } else {
      changes.push_back({&ModulesFamily(), gone.key, std::nullopt});
    }
    if (changes.size() >= kChangesAtOnce) RETURN_IF_ERROR(apply());
  }
  RETURN_IF_ERROR(apply());
  report.kept_entries -= report.entries;
  report.kept_bytes -= report.bytes;
  if (!request.dry_run && report.entries > 0) {
    evictions_.fetch_add(report.entries, std::memory_order_relaxed);
    Reclaim({&ArtifactsFamily(), &InventoryFamily(), &ModulesFamily()});
  }
  return report;
}

absl::StatusOr<uint64_t> RecordStore::CompleteInventory() {
  std::unordered_set<std::string> counted;
  RETURN_IF_ERROR(Scan(InventoryFamily(), "", [&](const StoredEntry& entry) {
    if (entry.reason == MissReason::kFound) counted.insert(std::string(entry.key));
    return true;
  }));
  std::vector<Change> changes;
  uint64_t completed = 0;
  absl::Status status;
  RETURN_IF_ERROR(Scan(ArtifactsFamily(), "", [&](const StoredEntry& entry) {
    storage::ArtifactRecord artifact;
    if (entry.reason != MissReason::kFound || counted.count(std::string(entry.key)) != 0 ||
        !Parsed(entry.payload, &artifact)) {
      return true;
    }
    const uint64_t bytes = entry.key.size() + entry.payload.size();
    changes.push_back({&InventoryFamily(), std::string(entry.key), InventoryOf(artifact, bytes).SerializeAsString()});
    ++completed;
    return true;
  }));
  if (!changes.empty()) RETURN_IF_ERROR(Apply(changes, /*durable=*/true));
  return completed;
}

}  // namespace tessera::cache
