#include "cache/store/record_store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/family/artifacts/artifact_key.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/failures/failures_family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/family/modules/module_key.h"
#include "cache/family/modules/modules_family.h"
#include "cache/family/quarantine/quarantine_family.h"
#include "cache/family/tunings/tunings_family.h"
#include "cache/family/usage/usage_family.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tessera::cache {
namespace {

// Protobuf's own limit is 2 GiB; nothing that belongs here comes near this one.
constexpr size_t kMaxPayloadBytes = size_t{1} << 30;
constexpr uint32_t kDefaultListLimit = 1000;

template <typename Record>
absl::StatusOr<std::string> Payload(const Family& family, Record record) {
  record.set_format_version(family.format_version);
  if (record.ByteSizeLong() > kMaxPayloadBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a record of ", record.ByteSizeLong(), " bytes is more than ", family.name, " can hold (1 GiB)"));
  }
  std::string payload;
  {
    google::protobuf::io::StringOutputStream stream(&payload);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // the same content, the same bytes
    record.SerializeToCodedStream(&coded);
  }
  return payload;
}

// `accept` has the last word on a record that parses.
template <typename Record, typename Load, typename Accept>
absl::StatusOr<Lookup<Record>> Find(const Load& load, const Accept& accept) {
  Lookup<Record> lookup;
  const auto parse = [&](absl::string_view payload) {
    if (!lookup.record.ParseFromArray(payload.data(), payload.size())) return MissReason::kDamaged;
    return accept(lookup.record);
  };
  ASSIGN_OR_RETURN(lookup.reason, load(parse));
  if (!lookup.found()) lookup.record.Clear();
  return lookup;
}

const auto kAcceptAll = [](const auto&) { return MissReason::kFound; };

absl::Status NoKey(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("what was given is no key of ", what));
}

}  // namespace

absl::StatusOr<Lookup<storage::ArtifactRecord>> RecordStore::FindArtifact(const CompileKey& key) {
  std::string stored_key;
  if (!EncodeArtifactKey(key, &stored_key)) return NoKey("an artifact");
  auto lookup = Find<storage::ArtifactRecord>(
      [&](auto parse) { return Load(ArtifactsFamily(), stored_key, parse); },
      [&](const storage::ArtifactRecord& record) {
        return absl::string_view(record.key()) == key.canonical ? MissReason::kFound : MissReason::kHashCollision;
      });
  (lookup.ok() && lookup->found() ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
  return lookup;
}

absl::Status RecordStore::PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) {
  std::string stored_key;
  if (!EncodeArtifactKey(key, &stored_key)) return NoKey("an artifact");
  storage::ArtifactRecord with_key = record;
  with_key.set_key(key.canonical);
  storage::InventoryRecord inventory = InventoryOf(with_key, 0);
  ASSIGN_OR_RETURN(std::string payload, Payload(ArtifactsFamily(), std::move(with_key)));
  inventory.set_bytes(stored_key.size() + payload.size());
  ASSIGN_OR_RETURN(std::string counted, Payload(InventoryFamily(), std::move(inventory)));
  return Apply({{&ArtifactsFamily(), stored_key, std::move(payload)},
                {&InventoryFamily(), stored_key, std::move(counted)}},
               /*durable=*/true);
}

absl::StatusOr<Lookup<storage::ModuleRecord>> RecordStore::FindModule(absl::string_view id) {
  std::string stored_key;
  if (!EncodeModuleKey(id, &stored_key)) return Lookup<storage::ModuleRecord>();  // nobody can have stored it
  return Find<storage::ModuleRecord>([&](auto parse) { return Load(ModulesFamily(), stored_key, parse); }, kAcceptAll);
}

absl::Status RecordStore::PutModule(absl::string_view id, const storage::ModuleRecord& record) {
  std::string stored_key;
  if (!EncodeModuleKey(id, &stored_key)) return NoKey("a module (64 hex digits)");
  ASSIGN_OR_RETURN(std::string payload, Payload(ModulesFamily(), record));
  return Apply({{&ModulesFamily(), stored_key, std::move(payload)}}, /*durable=*/true);
}

absl::StatusOr<std::vector<std::string>> RecordStore::ListModules() {
  std::vector<std::string> ids;
  RETURN_IF_ERROR(Scan(ModulesFamily(), "", [&](const StoredEntry& entry) {
    if (entry.reason == MissReason::kFound) ids.push_back(DecodeModuleKey(entry.key));
    return true;
  }));
  return ids;
}

absl::StatusOr<Lookup<storage::TuningRecord>> RecordStore::FindTuning(absl::string_view key) {
  if (key.empty()) return NoKey("a tuning");
  return Find<storage::TuningRecord>([&](auto parse) { return Load(TuningsFamily(), key, parse); }, kAcceptAll);
}

absl::Status RecordStore::PutTuning(absl::string_view key, const storage::TuningRecord& record) {
  if (key.empty()) return NoKey("a tuning");
  ASSIGN_OR_RETURN(std::string payload, Payload(TuningsFamily(), record));
  return Apply({{&TuningsFamily(), std::string(key), std::move(payload)}}, /*durable=*/true);
}

absl::Status RecordStore::EraseTuning(absl::string_view key) {
  if (key.empty()) return NoKey("a tuning");
  return Apply({{&TuningsFamily(), std::string(key), std::nullopt}}, /*durable=*/true);
}

absl::StatusOr<std::vector<storage::TuningRecord>> RecordStore::ListTunings() {
  std::vector<storage::TuningRecord> tunings;
  RETURN_IF_ERROR(Scan(TuningsFamily(), "", [&](const StoredEntry& entry) {
    storage::TuningRecord record;
    if (entry.reason == MissReason::kFound && record.ParseFromArray(entry.payload.data(), entry.payload.size())) {
      tunings.push_back(std::move(record));
    }
    return true;
  }));
  return tunings;
}

absl::StatusOr<Lookup<storage::FailureRecord>> RecordStore::FindFailure(const CompileKey& key,
                                                                       int64_t now_unix_seconds) {
  std::string stored_key;
  if (!EncodeArtifactKey(key, &stored_key)) return NoKey("a compile");
  bool expired = false;
  auto lookup = Find<storage::FailureRecord>(
      [&](auto parse) { return Load(FailuresFamily(), stored_key, parse); },
      [&](const storage::FailureRecord& record) {
        if (absl::string_view(record.key()) != key.canonical) return MissReason::kHashCollision;
        expired = Expired(record, now_unix_seconds);
        return expired ? MissReason::kAbsent : MissReason::kFound;
      });
  // Not durably: if it comes back, it is as expired as before.
  if (expired) Apply({{&FailuresFamily(), stored_key, std::nullopt}}, /*durable=*/false).IgnoreError();
  return lookup;
}

absl::Status RecordStore::PutFailure(const CompileKey& key, const storage::FailureRecord& record) {
  std::string stored_key;
  if (!EncodeArtifactKey(key, &stored_key)) return NoKey("a compile");
  storage::FailureRecord with_key = record;
  with_key.set_key(key.canonical);
  ASSIGN_OR_RETURN(std::string payload, Payload(FailuresFamily(), std::move(with_key)));
  return Apply({{&FailuresFamily(), stored_key, std::move(payload)}}, /*durable=*/true);
}

absl::Status RecordStore::ForEach(absl::string_view family_name, absl::string_view key_prefix, VisitEntry visit) {
  const Family* family = FindFamily(family_name);
  if (family == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no family \"", family_name, "\""));
  if (family == &UsageFamily()) FlushUsage();
  return Scan(*family, key_prefix, [&](const StoredEntry& entry) {
    return entry.reason != MissReason::kFound || visit(entry.key, entry.payload);
  });
}

void RecordStore::AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module,
                           uint64_t launches, int64_t unix_seconds) {
  std::string stored_key;
  if (!EncodeArtifactKey(key, &stored_key)) return;
  absl::MutexLock lock(&usage_mutex_);
  PendingUsage& pending = usage_[stored_key];
  if (pending.launches == 0) {
    pending.kernel = std::string(kernel);
    pending.module = std::string(module);
  }
  pending.launches += launches;
  pending.last_unix_seconds = std::max(pending.last_unix_seconds, unix_seconds);
}

void RecordStore::FlushUsage() {
  absl::MutexLock flush_lock(&flush_mutex_);
  std::map<std::string, PendingUsage> pending;
  {
    absl::MutexLock lock(&usage_mutex_);
    pending.swap(usage_);
  }
  if (pending.empty()) return;
  std::vector<Change> changes;
  for (const auto& [key, usage] : pending) {
    const std::string& stored_key = key;
    // Damaged or unreadable counts start again from what was gathered.
    const auto before = Find<storage::UsageRecord>(
        [&](auto parse) { return Load(UsageFamily(), stored_key, parse); }, kAcceptAll);
    storage::UsageRecord record;
    if (before.ok()) record = before->record;
    record.set_launches(record.launches() + usage.launches);
    // A clock that was set back does not make a variant look old.
    record.set_last_unix_seconds(std::max<int64_t>(record.last_unix_seconds(), usage.last_unix_seconds));
    record.set_kernel(usage.kernel);
    record.set_module(usage.module);
    absl::StatusOr<std::string> payload = Payload(UsageFamily(), std::move(record));
    if (payload.ok()) changes.push_back({&UsageFamily(), stored_key, *std::move(payload)});
  }
  // The store has kept in memory what the disk refused, and has said so.
  Apply(changes, /*durable=*/false).IgnoreError();
}

StoreStats RecordStore::Stats() {
  StoreStats stats;
  Describe(&stats);
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.misses = misses_.load(std::memory_order_relaxed);
  stats.corrupt_entries = corrupt_entries_.load(std::memory_order_relaxed);
  stats.evictions += evictions_.load(std::memory_order_relaxed);
  return stats;
}

absl::StatusOr<std::vector<ListedEntry>> RecordStore::List(absl::string_view family_name, absl::string_view prefix,
                                                           uint32_t limit) {
  const Family* family = FindFamily(family_name);
  if (family == nullptr) {
    std::string names;
    for (const Family* known : AllFamilies()) absl::StrAppend(&names, names.empty() ? "" : ", ", known->name);
    return absl::InvalidArgumentError(absl::StrCat("there is no family \"", family_name, "\"; there are ", names));
  }
  const std::string hex = absl::AsciiStrToLower(prefix);
  if (hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("a key prefix is hex digits, not \"", prefix, "\""));
  }
  if (limit == 0) limit = kDefaultListLimit;
  if (family == &UsageFamily()) FlushUsage();
  std::vector<ListedEntry> listed;
  // An odd last digit narrows the keys that share the whole bytes before it.
  const std::string whole_bytes = absl::HexStringToBytes(hex.substr(0, hex.size() / 2 * 2));
  RETURN_IF_ERROR(Scan(*family, whole_bytes, [&](const StoredEntry& entry) {
    if (entry.unreadable) return true;
    std::string key = absl::BytesToHexString(entry.key);
    if (!absl::StartsWith(key, hex)) return true;
    std::string summary = "of another format version";
    if (entry.reason == MissReason::kFound) summary = family->dump(entry.key, entry.payload);
    if (entry.reason == MissReason::kDamaged) summary = "damaged";
    listed.push_back({std::move(key), std::move(summary), entry.bytes});
    return listed.size() < limit;
  }));
  return listed;
}

absl::StatusOr<std::vector<std::string>> RecordStore::Verify(uint64_t* checked) {
  FlushUsage();
  uint64_t entries = 0;
  std::vector<std::string> findings;
  for (const Family* family : AllFamilies()) {
    if (family == &QuarantineFamily()) continue;
    std::vector<std::string> damaged;
    RETURN_IF_ERROR(Scan(*family, "", [&](const StoredEntry& entry) {
      const std::string key = absl::BytesToHexString(entry.key);
      if (entry.unreadable) {
        findings.push_back(absl::StrCat(family->name, " after ", key.empty() ? "the start" : key,
                                        ": unreadable: ", entry.payload));
        return true;
      }
      ++entries;
      std::string fault;
      if (entry.reason == MissReason::kFound) fault = family->check(entry.key, entry.payload);
      if (entry.reason == MissReason::kDamaged) fault = "its checksum or header is wrong";
      if (!fault.empty()) {
        findings.push_back(absl::StrCat(family->name, " ", key, ": ", fault));
        damaged.emplace_back(entry.key);
      }
      return true;
    }));
    for (const std::string& key : damaged) {
      // Looking it up again drops it, unless somebody has put a good one there meanwhile.
      const auto again = Load(*family, key, [&](absl::string_view payload) {
        return family->check(key, payload).empty() ? MissReason::kFound : MissReason::kDamaged;
      });
      RETURN_IF_ERROR(again.status());
    }
  }
  RETURN_IF_ERROR(CompleteInventory().status());
  if (checked != nullptr) *checked = entries;
  return findings;
}

}  // namespace tessera::cache
