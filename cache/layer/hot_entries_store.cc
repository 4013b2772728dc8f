#include "cache/layer/hot_entries_store.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "cache/layer/forwarding_store.h"
#include "cache/layer/recent_records.h"

namespace tessera::cache {
namespace {

class HotEntriesStore : public ForwardingStore {
 public:
  HotEntriesStore(std::unique_ptr<CacheStore> behind, uint64_t max_bytes)
      : ForwardingStore(std::move(behind)), artifacts_(max_bytes / 2), modules_(max_bytes / 4), tunings_(max_bytes / 4) {}

  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override {
    const auto hot = artifacts_.Find(key.hash);
    // Another full key under the same hash: the store behind tells the collision.
    if (hot != nullptr && absl::string_view(hot->key()) == key.canonical) {
      artifact_hits_.fetch_add(1, std::memory_order_relaxed);
      return Lookup<storage::ArtifactRecord>{MissReason::kFound, *hot};
    }
    return FindBehind(key.hash, &artifacts_, [&] { return behind_->FindArtifact(key); });
  }

  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return Write(key.hash, &artifacts_, [&] { return behind_->PutArtifact(key, record); });
  }

  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    return Find(id, &modules_, [&] { return behind_->FindModule(id); });
  }

  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return Write(id, &modules_, [&] { return behind_->PutModule(id, record); });
  }

  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override {
    return Find(key, &tunings_, [&] { return behind_->FindTuning(key); });
  }

  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return Write(key, &tunings_, [&] { return behind_->PutTuning(key, record); });
  }

  absl::Status EraseTuning(absl::string_view key) override {
    return Write(key, &tunings_, [&] { return behind_->EraseTuning(key); });
  }

  absl::StatusOr<ImportReport> Import(const std::vector<ForeignEntry>& entries, bool replace) override {
    Invalidate(entries);
    absl::StatusOr<ImportReport> report = behind_->Import(entries, replace);
    Invalidate(entries);
    return report;
  }

  StoreStats Stats() override {
    StoreStats stats = behind_->Stats();
    stats.hits += artifact_hits_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  template <typename Record, typename FindFn>
  absl::StatusOr<Lookup<Record>> Find(absl::string_view key, RecentRecords<Record>* recent, const FindFn& find) {
    if (const auto hot = recent->Find(key)) return Lookup<Record>{MissReason::kFound, *hot};
    return FindBehind(key, recent, find);
  }

  template <typename Record, typename FindFn>
  absl::StatusOr<Lookup<Record>> FindBehind(absl::string_view key, RecentRecords<Record>* recent, const FindFn& find) {
    const auto ticket = recent->TakeTicket(key);
    absl::StatusOr<Lookup<Record>> lookup = find();
    if (lookup.ok() && lookup->found()) recent->PutIfCurrent(key, lookup->record, ticket);
    return lookup;
  }

  void Invalidate(const std::vector<ForeignEntry>& entries) {
    for (const ForeignEntry& entry : entries) {
      if (entry.family == "artifacts") artifacts_.Invalidate(entry.key);
      if (entry.family == "modules") modules_.Invalidate(absl::BytesToHexString(entry.key));
      if (entry.family == "tunings") tunings_.Invalidate(entry.key);
    }
  }

  // What was written is not put in front at once: the next lookup brings it, complete as the store behind made it.
  template <typename Record, typename WriteFn>
  absl::Status Write(absl::string_view key, RecentRecords<Record>* recent, const WriteFn& write) {
    recent->Invalidate(key);
    const absl::Status status = write();
    recent->Invalidate(key);
    return status;
  }

  RecentRecords<storage::ArtifactRecord> artifacts_;
  RecentRecords<storage::ModuleRecord> modules_;
  RecentRecords<storage::TuningRecord> tunings_;
  std::atomic<uint64_t> artifact_hits_{0};
};

}  // namespace

std::unique_ptr<CacheStore> NewHotEntriesStore(std::unique_ptr<CacheStore> behind, uint64_t max_bytes) {
  return std::make_unique<HotEntriesStore>(std::move(behind), max_bytes);
}

}  // namespace tessera::cache
