#include "cache/store/rocksdb/rocksdb_record_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <filesystem>
#include <functional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/inventory/inventory_family.h"
#include "cache/family/quarantine/quarantine_family.h"
#include "cache/family/quarantine/quarantine_key.h"
#include "cache/key/canonical_text.h"
#include "cache/store/rocksdb/rocksdb_status.h"
#include "cache/store/rocksdb/stored_value.h"
#include "cache/store/rocksdb/tolerant_scan.h"
#include "rocksdb/write_batch.h"

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;

// Blob files are written anew when one part in so many is garbage.
constexpr uint64_t kGarbageShare = 5;
// Below it nobody minds what replaced values leave behind.
constexpr uint64_t kBlobBytesWorthRewriting = 16 << 20;
constexpr size_t kQuarantinedEntries = 64;
constexpr size_t kQuarantinedBytes = 64 << 10;
// Below it entries are counted one by one, above it RocksDB's estimate will do.
constexpr uint64_t kCountedEntries = 2000;

rocksdb::Slice Slice(absl::string_view bytes) { return rocksdb::Slice(bytes.data(), bytes.size()); }
absl::string_view View(const rocksdb::Slice& slice) { return absl::string_view(slice.data(), slice.size()); }

std::string EntryName(const Family& family, absl::string_view key) {
  return absl::StrCat(family.name, " ", absl::BytesToHexString(key));
}

rocksdb::WriteOptions Durable(bool durable) {
  rocksdb::WriteOptions options;
  options.sync = durable;
  return options;
}

absl::Status PrepareDirectory(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the cache needs a directory");
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat("the cache directory ", path, " is no directory"));
  }
  const bool is_new = fs::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("creating ", path, ": ", error.message()));
  if (!is_new) return absl::OkStatus();
  // Kernels' source is nobody else's to read.
  if (chmod(path.c_str(), 0700) != 0) return absl::UnavailableError("changing the mode of " + path);
  // Its name is to survive a power cut, as what is stored in it will.
  const int parent = open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    fsync(parent);
    close(parent);
  }
  return absl::OkStatus();
}

uint64_t BytesOnDisk(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator it(path, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    std::error_code gone;  // files come and go while we look
    const uint64_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += size;
    it.increment(error);
  }
  return bytes;
}

}  // namespace

RocksdbRecordStore::RocksdbRecordStore(std::string path, const RocksdbStoreOptions& options)
    : path_(std::move(path)), options_(options), in_memory_(options.degraded_bytes) {
  database_options_.block_cache_bytes = options.block_cache_bytes;
  database_options_.compiler_build = options.compiler_build;
  database_options_.note = options.note;
  database_options_.on_background_error = [this](const rocksdb::Status& error) {
    absl::MutexLock lock(&state_mutex_);
    background_error_ = true;
    Degrade(absl::StrCat("memory only: ", error.ToString()));
  };
}

absl::StatusOr<std::unique_ptr<RocksdbRecordStore>> RocksdbRecordStore::Open(absl::string_view path,
                                                                             const RocksdbStoreOptions& options,
                                                                             rocksdb::Env* env,
                                                                             const Schema& schema) {
  std::unique_ptr<RocksdbRecordStore> store(new RocksdbRecordStore(std::string(path), options));
  store->database_options_.env = env;
  store->database_options_.schema = schema;
  absl::Status opened;
  {
    absl::MutexLock lock(&store->database_mutex_);
    opened = store->OpenDatabase();
  }
  // A second daemon, a newer schema, a wrong argument: for the operator to decide.
  if (opened.code() == absl::StatusCode::kFailedPrecondition ||
      opened.code() == absl::StatusCode::kInvalidArgument) {
    return opened;
  }
  if (!opened.ok()) {
    absl::ReaderMutexLock use(&store->database_mutex_);
    absl::MutexLock lock(&store->state_mutex_);
    store->Degrade(absl::StrCat(store->database_ != nullptr ? "read only, new entries in memory: " : "memory only: ",
                                opened.message()));
  }
  store->maintenance_ = std::thread([raw = store.get()] { raw->RunMaintenance(); });
  return store;
}

absl::Status RocksdbRecordStore::OpenDatabase() {
  const auto open = [&]() -> absl::Status {
    RETURN_IF_ERROR(PrepareDirectory(path_));
    if (lock_ == nullptr) {
      ASSIGN_OR_RETURN(lock_, DirectoryLock::Take(path_));
    }
    ASSIGN_OR_RETURN(database_, Database::Open(path_, database_options_));
    return absl::OkStatus();
  };
  const absl::Status opened = open();
  writable_ = opened.ok();
  if (opened.ok() || opened.code() == absl::StatusCode::kFailedPrecondition) return opened;
  // What is there can perhaps still be looked up.
  absl::StatusOr<std::unique_ptr<Database>> readable = Database::OpenReadOnly(path_, database_options_);
  if (readable.ok()) database_ = *std::move(readable);
  return opened;
}

absl::Status RocksdbRecordStore::Reopen() {
  database_.reset();
  background_error_ = false;
  salvage_requested_ = false;
  writes_.fetch_add(1, std::memory_order_relaxed);
  return OpenDatabase();
}

RocksdbRecordStore::~RocksdbRecordStore() {
  if (maintenance_.joinable()) {
    {
      absl::MutexLock lock(&stop_mutex_);
      stop_ = true;
      stop_changed_.SignalAll();
    }
    maintenance_.join();
  }
  FlushUsage();
  Recover();
  absl::MutexLock lock(&database_mutex_);
  database_.reset();  // before the directory is free for others
}

void RocksdbRecordStore::RunMaintenance() {
  while (true) {
    {
      absl::MutexLock lock(&stop_mutex_);
      const absl::Time next = absl::Now() + options_.maintenance_interval;
      while (!stop_ && !stop_changed_.WaitWithDeadline(&stop_mutex_, next)) {
      }
      if (stop_) return;
    }
    Maintain();
  }
}

void RocksdbRecordStore::Maintain() {
  FlushUsage();
  Recover();
  LookForMissingFiles();
  if (salvage_requested_ && !degraded_) Salvage();
  // Values that were written over; compactions of the keys tell how many there are.
  absl::ReaderMutexLock use(&database_mutex_);
  if (database_ != nullptr && writable_ && !degraded_.load(std::memory_order_acquire)) {
    RewriteBlobFiles(ArtifactsFamily(), kBlobBytesWorthRewriting);
  }
  read_error_noted_ = false;
}

size_t RocksdbRecordStore::WriterOf(absl::string_view key) const {
  return std::hash<std::string>()(std::string(key)) % kWriters;
}

class RocksdbRecordStore::WritersLock {
 public:
  WritersLock(RocksdbRecordStore* store, const std::vector<Change>& changes) : store_(store) {
    for (const Change& change : changes) needed_.set(store->WriterOf(change.key));
    ForEach([](absl::Mutex& writer) { writer.Lock(); });
  }
  WritersLock(RocksdbRecordStore* store, absl::string_view key) : store_(store) {
    needed_.set(store->WriterOf(key));
    ForEach([](absl::Mutex& writer) { writer.Lock(); });
  }
  ~WritersLock() {
    ForEach([](absl::Mutex& writer) { writer.Unlock(); });
  }
  WritersLock(const WritersLock&) = delete;
  WritersLock& operator=(const WritersLock&) = delete;

 private:
  template <typename Function>
  void ForEach(const Function& function) {
    for (size_t place = 0; place < kWriters; ++place) {
      if (needed_.test(place)) function(store_->writers_[place]);
    }
  }
  RocksdbRecordStore* const store_;
  std::bitset<kWriters> needed_;
};

void RocksdbRecordStore::Note(absl::string_view sentence) const {
  if (options_.note) options_.note(sentence);
}

absl::StatusOr<MissReason> RocksdbRecordStore::Load(const Family& family, absl::string_view key, ParseFn parse) {
  if (degraded_.load(std::memory_order_acquire)) {
    const EntryMap::Payload payload = in_memory_.Find(family, key);
    if (payload != nullptr) {
      const MissReason reason = parse(*payload);
      if (reason != MissReason::kDamaged) return reason;
      in_memory_.EraseIfSame(family, key, payload);
    }
  }
  std::string damaged_bytes, fault;
  bool unreadable = false;
  {
    absl::ReaderMutexLock use(&database_mutex_);
    if (database_ == nullptr) return MissReason::kAbsent;
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        database_->db()->Get(rocksdb::ReadOptions(), database_->handle(family), Slice(key), &value);
    if (status.IsNotFound()) return MissReason::kAbsent;
    if (status.ok()) {
      DecodedValue decoded = DecodeValue(family, key, View(value));
      if (decoded.reason == MissReason::kFound) decoded.reason = parse(decoded.payload);
      if (decoded.reason != MissReason::kDamaged) return decoded.reason;
      damaged_bytes = value.ToString();
      fault = decoded.fault.empty() ? "it is no record of its family" : decoded.fault;
    } else if (status.IsCorruption()) {
      unreadable = true;
      fault = status.ToString();
    } else {
      // The disk or the directory fails. For the caller this is a damaged entry, to be rebuilt; but it may come back.
      CountDamaged();
      if (!read_error_noted_.exchange(true)) {
        Note(FromRocksdb(status, absl::StrCat("reading ", EntryName(family, key))).message());
      }
      return MissReason::kDamaged;
    }
  }
  Quarantine(family, key, unreadable ? nullptr : &damaged_bytes, fault);
  return MissReason::kDamaged;
}

absl::Status RocksdbRecordStore::Apply(const std::vector<Change>& changes, bool durable) {
  if (changes.empty()) return absl::OkStatus();
  const Change& first = changes.front();
  const std::string attempt =
      absl::StrCat(first.payload.has_value() ? "storing " : "erasing ", EntryName(*first.family, first.key),
                   changes.size() > 1 ? absl::StrCat(" and ", changes.size() - 1, " more") : "");
  WritersLock lock(this, changes);
  absl::ReaderMutexLock use(&database_mutex_);
  writes_.fetch_add(1, std::memory_order_relaxed);
  const bool stores = std::any_of(changes.begin(), changes.end(), [](const Change& c) { return c.payload.has_value(); });
  absl::Status status;
  if (database_ == nullptr) {
    if (stores) status = absl::UnavailableError(absl::StrCat(attempt, ": there is no database"));
  } else {
    rocksdb::WriteBatch batch;
    rocksdb::Status batched;
    for (const Change& change : changes) {
      if (!batched.ok()) break;
      rocksdb::ColumnFamilyHandle* handle = database_->handle(*change.family);
      batched = change.payload.has_value()
                    ? batch.Put(handle, change.key, EncodeValue(*change.family, change.key, *change.payload))
                    : batch.Delete(handle, change.key);
    }
    if (batched.ok()) batched = database_->db()->Write(Durable(durable), &batch);
    status = FromRocksdb(batched, attempt);
  }
  if (status.ok()) {
    // Older ones, from when the disk failed.
    for (const Change& change : changes) in_memory_.Erase(*change.family, change.key);
    return status;
  }
  KeepInMemory(changes, status);
  return stores ? absl::Status(status.code(), absl::StrCat(status.message(), " (kept in memory)")) : status;
}

void RocksdbRecordStore::Reclaim(const std::vector<const Family*>& families) {
  absl::ReaderMutexLock use(&database_mutex_);
  if (database_ == nullptr || degraded_.load(std::memory_order_acquire)) return;
  rocksdb::DB* db = database_->db();
  for (const Family* family : families) {
    rocksdb::ColumnFamilyHandle* handle = database_->handle(*family);
    // First keys and small values alone, which is quick and tells what of the blob files is garbage. Lookups and writes
    // go on beside it.
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    options.canceled = &replacing_;
    if (!db->CompactRange(options, handle, nullptr, nullptr).ok()) return;
    RewriteBlobFiles(*family, /*least_bytes=*/0);
  }
}

void RocksdbRecordStore::RewriteBlobFiles(const Family& family, uint64_t least_bytes) {
  rocksdb::DB* db = database_->db();
  rocksdb::ColumnFamilyHandle* handle = database_->handle(family);
  uint64_t garbage = 0, all = 0;
  db->GetIntProperty(handle, rocksdb::DB::Properties::kLiveBlobFileGarbageSize, &garbage);
  db->GetIntProperty(handle, rocksdb::DB::Properties::kLiveBlobFileSize, &all);
  if (all < least_bytes || garbage * kGarbageShare < all || garbage == 0) return;
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.canceled = &replacing_;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  options.blob_garbage_collection_age_cutoff = 1.0;
  db->CompactRange(options, handle, nullptr, nullptr).PermitUncheckedError();  // what fails is tried again
}

void RocksdbRecordStore::Quarantine(const Family& family, absl::string_view key, const std::string* bytes,
                                    absl::string_view why) {
  CountDamaged();
  bool dropped = false;
  {
    WritersLock lock(this, key);
    absl::ReaderMutexLock use(&database_mutex_);
    if (database_ == nullptr) return;
    writes_.fetch_add(1, std::memory_order_relaxed);
    // Somebody may have put a good one there meanwhile.
    std::string now;
    const rocksdb::Status again =
        database_->db()->Get(rocksdb::ReadOptions(), database_->handle(family), Slice(key), &now);
    const bool still_damaged = bytes != nullptr ? again.ok() && now == *bytes : again.IsCorruption();
    if (still_damaged) {
      std::string record;
      AppendField("family", family.name, &record);
      AppendField("key", key, &record);
      AppendField("why", why, &record);
      AppendField("value", absl::string_view(now).substr(0, kQuarantinedBytes), &record);
      const std::string place =
          EncodeQuarantineKey(absl::ToUnixMicros(absl::Now()), quarantine_number_.fetch_add(1));
      rocksdb::WriteBatch batch;
      rocksdb::Status status = batch.Delete(database_->handle(family), Slice(key));
      if (status.ok() && &family == &ArtifactsFamily()) {
        status = batch.Delete(database_->handle(InventoryFamily()), Slice(key));
      }
      if (status.ok()) {
        status = batch.Put(database_->handle(QuarantineFamily()), place, EncodeValue(QuarantineFamily(), place, record));
      }
      if (status.ok()) status = database_->db()->Write(Durable(false), &batch);
      dropped = status.ok();
    }
    // The block stays unreadable, with its neighbours, until the tables are written anew.
    if (bytes == nullptr && !salvage_requested_.exchange(true)) database_->RequestSalvage(why);
  }
  Note(absl::StrCat("the cache entry ", EntryName(family, key), " is damaged (", why, ")",
                    dropped ? "; it was put into quarantine and will be rebuilt" : ""));
  if (dropped) TrimQuarantine();
}

void RocksdbRecordStore::TrimQuarantine() {
  std::vector<std::string> keys;
  const absl::Status scanned = ScanDatabase(QuarantineFamily(), "", [&](const StoredEntry& entry) {
    if (!entry.unreadable) keys.emplace_back(entry.key);
    return true;
  });
  if (!scanned.ok() || keys.size() <= kQuarantinedEntries) return;
  absl::ReaderMutexLock use(&database_mutex_);
  if (database_ == nullptr) return;
  keys.resize(keys.size() - kQuarantinedEntries);
  for (const std::string& key : keys) {
    // What stays too long goes with the next damaged entry.
    database_->db()->Delete(Durable(false), database_->handle(QuarantineFamily()), key).PermitUncheckedError();
  }
}

void RocksdbRecordStore::Degrade(const std::string& state) {
  degraded_.store(true, std::memory_order_release);
  if (state_ != "ok") return;  // the first cause is the one to read
  state_ = state;
  Note(absl::StrCat("the cache in ", path_, " is ", state));
}

void RocksdbRecordStore::KeepInMemory(const std::vector<Change>& changes, const absl::Status& why) {
  absl::MutexLock lock(&state_mutex_);
  for (const Change& change : changes) {
    if (change.payload.has_value()) {
      in_memory_.Put(*change.family, change.key, *change.payload);
    } else {
      in_memory_.Erase(*change.family, change.key);
    }
  }
  Degrade(absl::StrCat("memory only: ", why.message()));
}

void RocksdbRecordStore::Recover() {
  if (!degraded_.load(std::memory_order_acquire)) return;
  // A file of our own first: while the disk refuses, the database stays open for lookups.
  rocksdb::Env* env = database_options_.env != nullptr ? database_options_.env : rocksdb::Env::Default();
  const std::string probe = path_ + "/probe";
  if (!rocksdb::WriteStringToFile(env, "probe", probe, /*should_sync=*/true).ok()) return;
  env->DeleteFile(probe).PermitUncheckedError();
  if (background_error_ || !writable_) {
    replacing_ = true;
    absl::MutexLock use(&database_mutex_);
    replacing_ = false;
    // RocksDB resumes after some errors; after the others it must be opened again.
    const bool resumed = writable_ && database_->db()->Resume().ok();
    background_error_ = false;
    if (!resumed && !Reopen().ok()) return;
  }
  uint64_t written = 0;
  if (!WriteBackWhatIsInMemory(&written)) return;
  // RocksDB's listener takes this lock on the thread that writes: never write under it.
  absl::MutexLock lock(&state_mutex_);
  if (!in_memory_.empty() || background_error_) return;
  degraded_.store(false, std::memory_order_release);
  state_ = "ok";
  Note(absl::StrCat("the cache in ", path_, " takes writes again; ", written, " entries were written from memory"));
}

bool RocksdbRecordStore::WriteBackWhatIsInMemory(uint64_t* written) {
  for (const Family* family : AllFamilies()) {
    for (const auto& [key, payload] : in_memory_.List(*family, "")) {
      WritersLock lock(this, key);
      absl::ReaderMutexLock use(&database_mutex_);
      if (database_ == nullptr) return false;
      if (in_memory_.Find(*family, key) != payload) continue;  // replaced or written meanwhile
      const std::string value = EncodeValue(*family, key, *payload);
      if (!database_->db()->Put(Durable(true), database_->handle(*family), key, value).ok()) return false;
      in_memory_.EraseIfSame(*family, key, payload);
      writes_.fetch_add(1, std::memory_order_relaxed);
      ++*written;
    }
  }
  return true;
}

void RocksdbRecordStore::LookForMissingFiles() {
  std::string missing;
  {
    absl::ReaderMutexLock use(&database_mutex_);
    if (database_ == nullptr || salvage_requested_) return;
    missing = database_->MissingFile();
    if (missing.empty()) return;
    // What is open, or in memory, can still be read and copied.
    PrepareDirectory(path_).IgnoreError();
    if (!salvage_requested_.exchange(true)) database_->RequestSalvage(absl::StrCat(missing, " was deleted"));
  }
  std::error_code error;
  if (fs::exists(path_ + "/lock", error)) return;
  // Whoever locks a new file of that name must find it locked.
  replacing_ = true;
  absl::MutexLock use(&database_mutex_);
  replacing_ = false;
  auto lock = DirectoryLock::Take(path_);
  if (lock.ok()) lock_ = *std::move(lock);
}

void RocksdbRecordStore::Salvage() {
  // Writers wait while the readable entries are copied, and lookups while the copy takes its place.
  for (absl::Mutex& writer : writers_) writer.Lock();
  {
    absl::Status copied = absl::UnavailableError("there is no database");
    {
      absl::ReaderMutexLock use(&database_mutex_);
      if (database_ != nullptr) copied = database_->CopyReadable();
    }
    replacing_ = true;
    absl::MutexLock use(&database_mutex_);
    replacing_ = false;
    const bool closed = copied.ok();
    if (closed) copied = Reopen();
    // The next start tries again: the note is there.
    salvage_requested_ = false;
    if (!copied.ok()) {
      Note(absl::StrCat("replacing the damaged cache database: ", copied.message()));
      absl::MutexLock lock(&state_mutex_);
      if (closed) Degrade(absl::StrCat("memory only: ", copied.message()));
    }
  }
  for (absl::Mutex& writer : writers_) writer.Unlock();
}

absl::Status RocksdbRecordStore::ScanDatabase(const Family& family, absl::string_view key_prefix, VisitFn visit) {
  absl::ReaderMutexLock use(&database_mutex_);
  if (database_ == nullptr) return absl::OkStatus();
  const auto visit_value = [&](absl::string_view key, absl::string_view value) {
    if (replacing_.load(std::memory_order_relaxed)) return false;
    const DecodedValue decoded = DecodeValue(family, key, value);
    StoredEntry entry;
    entry.key = key;
    entry.reason = decoded.reason;
    entry.payload = decoded.payload;
    entry.bytes = key.size() + value.size();
    return visit(entry);
  };
  const auto skip = [&](absl::string_view after, const rocksdb::Status& why) {
    const std::string text = why.ToString();
    if (why.IsCorruption() && !salvage_requested_.exchange(true)) database_->RequestSalvage(text);
    StoredEntry entry;
    entry.key = after;
    entry.reason = MissReason::kDamaged;
    entry.payload = text;
    entry.unreadable = true;
    return visit(entry);
  };
  RETURN_IF_ERROR(TolerantScan(database_->db(), database_->handle(family), key_prefix, visit_value, skip));
  if (!replacing_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::UnavailableError("the cache database is being replaced; try again");
}

absl::Status RocksdbRecordStore::Scan(const Family& family, absl::string_view key_prefix, VisitFn visit) {
  std::vector<std::pair<std::string, EntryMap::Payload>> in_memory;
  if (degraded_.load(std::memory_order_acquire)) in_memory = in_memory_.List(family, key_prefix);
  // Both come in the order of keys; where both have one, the one in memory is newer.
  auto next = in_memory.begin();
  bool stopped = false;
  const auto visit_memory = [&] {
    StoredEntry entry;
    entry.key = next->first;
    entry.payload = *next->second;
    entry.bytes = next->first.size() + next->second->size();
    stopped = !visit(entry);
    ++next;
  };
  RETURN_IF_ERROR(ScanDatabase(family, key_prefix, [&](const StoredEntry& entry) {
    while (!stopped && !entry.unreadable && next != in_memory.end() && next->first < std::string(entry.key)) {
      visit_memory();
    }
    if (stopped) return false;
    if (!entry.unreadable && next != in_memory.end() && next->first == std::string(entry.key)) {
      visit_memory();
    } else {
      stopped = !visit(entry);
    }
    return !stopped;
  }));
  while (!stopped && next != in_memory.end()) visit_memory();
  return absl::OkStatus();
}

FamilyStats RocksdbRecordStore::CountFamily(const Family& family) {
  FamilyStats count{family.name, 0, 0};
  {
    absl::ReaderMutexLock use(&database_mutex_);
    if (database_ == nullptr) return count;
    rocksdb::DB* db = database_->db();
    rocksdb::ColumnFamilyHandle* handle = database_->handle(family);
    uint64_t estimate = 0, table_bytes = 0, blob_bytes = 0;
    db->GetIntProperty(handle, rocksdb::DB::Properties::kEstimateNumKeys, &estimate);
    if (estimate > kCountedEntries) {
      db->GetIntProperty(handle, rocksdb::DB::Properties::kEstimateLiveDataSize, &table_bytes);
      db->GetIntProperty(handle, rocksdb::DB::Properties::kLiveBlobFileSize, &blob_bytes);
      count.entries = estimate;
      count.bytes = table_bytes + blob_bytes;
      return count;
    }
  }
  ScanDatabase(family, "", [&](const StoredEntry& entry) {
    if (entry.unreadable) return true;
    ++count.entries;
    count.bytes += entry.bytes;
    return true;
  }).IgnoreError();
  return count;
}

void RocksdbRecordStore::Describe(StoreStats* stats) {
  {
    absl::MutexLock lock(&count_mutex_);
    const uint64_t writes = writes_.load(std::memory_order_relaxed) + 1;  // 0: never counted
    if (counted_at_write_ != writes) {
      counts_.clear();
      for (const Family* family : AllFamilies()) counts_.push_back(CountFamily(*family));
      counted_at_write_ = writes;
    }
    stats->families = counts_;
  }
  if (degraded_.load(std::memory_order_acquire)) in_memory_.Describe(stats);
  stats->disk_bytes = BytesOnDisk(path_);
  stats->path = path_;
  absl::MutexLock lock(&state_mutex_);
  stats->state = state_;
}

}  // namespace tessera::cache
