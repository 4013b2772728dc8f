// The store behind OpenRocksdbStore, with what its own tests need to reach.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_RECORD_STORE_H_
#define TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_RECORD_STORE_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cache/store/memory/entry_map.h"
#include "cache/store/record_store.h"
#include "cache/store/rocksdb/database.h"
#include "cache/store/rocksdb/directory_lock.h"
#include "cache/store/rocksdb/rocksdb_store.h"

namespace tessera::cache {

// A lookup shares one lock with all others; only closing and reopening a database that failed takes it alone. Neither
// flush nor compaction nor a write holds anything over I/O that a lookup waits for. Writers of one key follow each
// other; writers of different keys share one sync of the log (RocksDB's group commit).
class RocksdbRecordStore : public RecordStore {
 public:
  // As OpenRocksdbStore. `env` (nullptr: the default) and `schema` are for tests.
  static absl::StatusOr<std::unique_ptr<RocksdbRecordStore>> Open(absl::string_view path,
                                                                  const RocksdbStoreOptions& options,
                                                                  rocksdb::Env* env = nullptr,
                                                                  const Schema& schema = CurrentSchema());
  ~RocksdbRecordStore() override;

  // One round of what the background thread does: writes usage, tries a failed disk again, replaces a database that
  // has unreadable places by what can be read of it.
  void Maintain();

 private:
  RocksdbRecordStore(std::string path, const RocksdbStoreOptions& options);

  absl::StatusOr<MissReason> Load(const Family& family, absl::string_view key, ParseFn parse) override;
  absl::Status Apply(const std::vector<Change>& changes, bool durable) override;
  absl::Status Scan(const Family& family, absl::string_view key_prefix, VisitFn visit) override;
  void Describe(StoreStats* stats) override;
  void Reclaim(const std::vector<const Family*>& families) override;
  // If enough of at least `least_bytes` of blob files is garbage.
  void RewriteBlobFiles(const Family& family, uint64_t least_bytes) ABSL_SHARED_LOCKS_REQUIRED(database_mutex_);

  // Drops `key` if it is still what was found damaged: `bytes`, or unreadable where that is null.
  void Quarantine(const Family& family, absl::string_view key, const std::string* bytes, absl::string_view why);
  void TrimQuarantine();
  // The disk refused: from now on lookups look into memory first.
  void KeepInMemory(const std::vector<Change>& changes, const absl::Status& why);
  void Degrade(const std::string& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  void Recover();
  // False: the disk still refuses.
  bool WriteBackWhatIsInMemory(uint64_t* written);
  void Salvage();
  void LookForMissingFiles();
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status OpenDatabase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status ScanDatabase(const Family& family, absl::string_view key_prefix, VisitFn visit);
  FamilyStats CountFamily(const Family& family);
  void Note(absl::string_view sentence) const;
  void RunMaintenance();

  // Writers of one key, in whatever family, follow each other. Always locked in the order of their places.
  static constexpr size_t kWriters = 64;
  size_t WriterOf(absl::string_view key) const;
  class WritersLock;

  const std::string path_;
  const RocksdbStoreOptions options_;
  DatabaseOptions database_options_;
  absl::Mutex database_mutex_;  // shared by all who use the database
  std::unique_ptr<DirectoryLock> lock_ ABSL_GUARDED_BY(database_mutex_);
  std::unique_ptr<Database> database_ ABSL_GUARDED_BY(database_mutex_);  // null: in memory alone
  std::array<absl::Mutex, kWriters> writers_;

  EntryMap in_memory_;
  std::atomic<bool> degraded_{false};  // in_memory_ may hold something
  std::atomic<bool> background_error_{false};  // RocksDB refuses writes until it is resumed or opened again
  std::atomic<bool> writable_{false};          // the database is open for writing
  std::atomic<bool> read_error_noted_{false};
  std::atomic<bool> salvage_requested_{false};
  std::atomic<bool> replacing_{false};  // somebody waits for database_mutex_ alone: long users let go of it
  mutable absl::Mutex state_mutex_;
  std::string state_ ABSL_GUARDED_BY(state_mutex_) = "ok";

  std::atomic<uint64_t> writes_{0};  // of any family: whether a count is still right
  absl::Mutex count_mutex_;
  uint64_t counted_at_write_ ABSL_GUARDED_BY(count_mutex_) = 0;
  std::vector<FamilyStats> counts_ ABSL_GUARDED_BY(count_mutex_);

  std::atomic<uint32_t> quarantine_number_{0};
  absl::Mutex stop_mutex_;
  absl::CondVar stop_changed_;
  bool stop_ ABSL_GUARDED_BY(stop_mutex_) = false;
  std::thread maintenance_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_ROCKSDB_RECORD_STORE_H_
