// One database for modules, artifacts, tunings and usage.
//
// Implementations: RocksdbStore (on disk), MemoryStore (tests, and when the disk fails). All are thread-safe.
#ifndef TESSERA_CACHE_STORE_CACHE_STORE_H_
#define TESSERA_CACHE_STORE_CACHE_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/key/compile_key.h"
#include "cache/store/eviction.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/storage/failures.pb.h"
#include "proto/storage/modules.pb.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {

// Why a lookup found nothing; metrics tell cold from stale from damaged.
enum class MissReason { kFound, kAbsent, kDamaged, kOtherFormat, kHashCollision };

template <typename Record>
struct Lookup {
  MissReason reason = MissReason::kAbsent;
  Record record;  // only with kFound
  bool found() const { return reason == MissReason::kFound; }
};

struct FamilyStats {
  std::string name;
  uint64_t entries = 0;
  uint64_t bytes = 0;
};

struct StoreStats {
  std::vector<FamilyStats> families;
  uint64_t hits = 0, misses = 0, corrupt_entries = 0, evictions = 0, disk_bytes = 0;
  std::string path;   // empty: in memory
  std::string state;  // "ok", or why it is degraded
};

struct ListedEntry {
  std::string key;      // hex
  std::string summary;  // one line for people
  uint64_t bytes = 0;
};

struct CollectRequest {
  EvictionBudget budget;
  bool dry_run = false;  // says what would go, and touches nothing
  int64_t now_unix_seconds = 0;
  // Are they loaded, or named by a manifest? Then they stay, whatever the budget says. Unset: nothing is.
  std::function<bool(absl::string_view hash)> artifact_in_use;
  std::function<bool(absl::string_view id)> module_in_use;
};

struct CollectReport {
  uint64_t entries = 0, bytes = 0;            // that went, or would
  uint64_t kept_entries = 0, kept_bytes = 0;  // artifacts and modules that stay
  std::vector<ListedEntry> evicted;           // the first thousand of them, each summary with its reason
};

// An entry brought from elsewhere: `family` is modules, artifacts or tunings, key and payload as ForEach shows them.
struct ForeignEntry {
  std::string family, key, payload;
};

struct ImportReport {
  uint64_t imported = 0;       // durable when Import returns
  uint64_t already_there = 0;  // and left as they are
  uint64_t rejected = 0;
  std::vector<std::string> findings;  // why each was rejected, with family and key
};

class CacheStore {
 public:
  virtual ~CacheStore() = default;

  // A miss is not an error. A damaged entry is dropped, counted and reported as kDamaged, never returned.
  virtual absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) = 0;
  // Durable when it returns OK.
  virtual absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) = 0;

  virtual absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) = 0;
  virtual absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) = 0;
  virtual absl::StatusOr<std::vector<std::string>> ListModules() = 0;

  // Tunings are keyed by kernel, module, bucket and device.
  virtual absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) = 0;
  virtual absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) = 0;
  virtual absl::Status EraseTuning(absl::string_view key) = 0;
  virtual absl::StatusOr<std::vector<storage::TuningRecord>> ListTunings() = 0;

  // Adds launches of a variant; not durable at once, never blocks on disk.
  virtual void AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module, uint64_t launches,
                        int64_t unix_seconds) = 0;

  // Compiles that failed. A record that has expired at `now_unix_seconds` is kAbsent, and dropped.
  virtual absl::StatusOr<Lookup<storage::FailureRecord>> FindFailure(const CompileKey& key, int64_t now_unix_seconds) = 0;
  virtual absl::Status PutFailure(const CompileKey& key, const storage::FailureRecord& record) = 0;

  // Brings artifacts and modules within the budget (eviction.h says in which order), and drops what has expired.
  // Blocks nobody who looks something up.
  virtual absl::StatusOr<CollectReport> Collect(const CollectRequest& request) = 0;

  // The sound entries of a family whose stored key starts with `key_prefix`, as they are stored, in the order of keys.
  using VisitEntry = absl::FunctionRef<bool(absl::string_view key, absl::string_view payload)>;  // false: stop
  virtual absl::Status ForEach(absl::string_view family, absl::string_view key_prefix, VisitEntry visit) = 0;
  // Checks each entry as Verify does and stores the sound ones, all in one transaction. Those that are there already
  // stay as they are unless `replace`.
  virtual absl::StatusOr<ImportReport> Import(const std::vector<ForeignEntry>& entries, bool replace) = 0;

  virtual StoreStats Stats() = 0;
  // Entries of a family ("modules", "artifacts", ... see cache/family/registry.cc) whose hex key starts with `prefix`.
  virtual absl::StatusOr<std::vector<ListedEntry>> List(absl::string_view family, absl::string_view prefix, uint32_t limit) = 0;
  // Reads and checks every entry. Findings name family and key.
  virtual absl::StatusOr<std::vector<std::string>> Verify(uint64_t* checked) = 0;
};

// The key of a tuning, unambiguous.
std::string TuningKey(absl::string_view kernel, absl::string_view module, absl::string_view bucket, absl::string_view device);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_CACHE_STORE_H_
