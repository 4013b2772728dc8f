// The part of a CacheStore that all implementations share: records in and out of payload bytes, keys compared on a hit,
// usage gathered, lists, statistics, verification.
//
// An implementation keeps bytes by family and key, and says what is damaged. StoreStats.hits and .misses count lookups
// of artifacts alone: they tell whether a kernel had to be compiled.
#ifndef TESSERA_CACHE_STORE_RECORD_STORE_H_
#define TESSERA_CACHE_STORE_RECORD_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "cache/family/family.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

class RecordStore : public CacheStore {
 public:
  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override;
  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override;
  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override;
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override;
  absl::StatusOr<std::vector<std::string>> ListModules() override;
  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override;
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override;
  absl::Status EraseTuning(absl::string_view key) override;
  absl::StatusOr<std::vector<storage::TuningRecord>> ListTunings() override;
  void AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module, uint64_t launches,
                int64_t unix_seconds) override;
  absl::StatusOr<Lookup<storage::FailureRecord>> FindFailure(const CompileKey& key, int64_t now_unix_seconds) override;
  absl::Status PutFailure(const CompileKey& key, const storage::FailureRecord& record) override;
  absl::StatusOr<CollectReport> Collect(const CollectRequest& request) override;  // collect.cc
  absl::Status ForEach(absl::string_view family, absl::string_view key_prefix, VisitEntry visit) override;
  absl::StatusOr<ImportReport> Import(const std::vector<ForeignEntry>& entries, bool replace) override;  // import.cc
  StoreStats Stats() override;
  absl::StatusOr<std::vector<ListedEntry>> List(absl::string_view family, absl::string_view prefix,
                                                uint32_t limit) override;
  absl::StatusOr<std::vector<std::string>> Verify(uint64_t* checked) override;

 protected:
  // Gets an undamaged payload, valid during the call. Answers kDamaged when the payload is none of its family.
  using ParseFn = absl::FunctionRef<MissReason(absl::string_view payload)>;
  struct StoredEntry {
    absl::string_view key;  // with `unreadable`: the last key before the unreadable place
    MissReason reason = MissReason::kFound;
    absl::string_view payload;  // only with kFound
    uint64_t bytes = 0;         // of key and value, as they are stored
    bool unreadable = false;    // nothing is known of what lies here, `payload` says why
  };
  using VisitFn = absl::FunctionRef<bool(const StoredEntry& entry)>;  // false: stop

  // Finds the entry and lets `parse` read it. What is damaged, by its checksum or by the answer of `parse`, is dropped,
  // put into quarantine where there is one, counted with CountDamaged(), and answered as kDamaged.
  virtual absl::StatusOr<MissReason> Load(const Family& family, absl::string_view key, ParseFn parse) = 0;
  struct Change {
    const Family* family;
    std::string key;
    std::optional<std::string> payload;  // none: the entry is erased
  };
  // All of them or, where the store is killed, none. `durable`: they will survive when it returns OK; else soon.
  virtual absl::Status Apply(const std::vector<Change>& changes, bool durable) = 0;
  // In the order of the keys. Damaged entries are shown, not dropped.
  virtual absl::Status Scan(const Family& family, absl::string_view key_prefix, VisitFn visit) = 0;
  // Everything but hits, misses and corrupt_entries.
  virtual void Describe(StoreStats* stats) = 0;

  // Many entries of these families were erased: their space may be given back. Blocks nobody else.
  virtual void Reclaim(const std::vector<const Family*>&) {}

  // Makes the inventory of artifacts that have none, or have lost it. Returns how many.
  absl::StatusOr<uint64_t> CompleteInventory();

  // Writes the gathered usage, not durably. Destructors of implementations call it first.
  void FlushUsage() ABSL_LOCKS_EXCLUDED(flush_mutex_, usage_mutex_);

  void CountDamaged() { corrupt_entries_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct PendingUsage {
    uint64_t launches = 0;
    int64_t last_unix_seconds = 0;
    std::string kernel, module;
  };

  struct Candidates;
  absl::Status GatherCandidates(const CollectRequest& request, Candidates* candidates);
  void GatherExpired(const CollectRequest& request, const Candidates& candidates, std::vector<Change>* changes);

  std::atomic<uint64_t> hits_{0}, misses_{0}, corrupt_entries_{0}, evictions_{0};
  absl::Mutex flush_mutex_;  // one flush at a time: it reads, adds and writes
  absl::Mutex usage_mutex_;  // held for map operations only
  std::map<std::string, PendingUsage> usage_ ABSL_GUARDED_BY(usage_mutex_);
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_RECORD_STORE_H_
