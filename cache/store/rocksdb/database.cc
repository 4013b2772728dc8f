#include "cache/store/rocksdb/database.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/family/meta/meta_family.h"
#include "cache/family/meta/meta_key.h"
#include "cache/family/quarantine/quarantine_family.h"
#include "cache/key/canonical_text.h"
#include "cache/store/rocksdb/rocksdb_status.h"
#include "cache/store/rocksdb/stored_value.h"
#include "cache/store/rocksdb/tolerant_scan.h"
#include "proto/storage/tunings.pb.h"
#include "rocksdb/cache.h"
#include "rocksdb/listener.h"

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPrefix = "db.v";
constexpr absl::string_view kDamaged = ".damaged-";
constexpr absl::string_view kSalvaged = ".salvaged";
constexpr absl::string_view kPartial = ".partial";
constexpr absl::string_view kReading = ".reading";
constexpr size_t kSetAsideKept = 3;
// Replaying a log costs an open about 5 ms a MiB.
constexpr uint64_t kReplayBytesLeftAtClose = 256 << 10;
constexpr uint64_t kMaxLogBytes = 16 << 20;
// What is written to a MANIFEST at once is synced at once: a power cut tears no more records than
// that.
constexpr size_t kManifestRecordsLeftOff = 32;

std::string DatabasePath(const std::string& directory, uint32_t version) {
  return absl::StrCat(directory, "/", kPrefix, version);
}

std::string PartialPath(const std::string& directory, const DatabaseOptions& options) {
  return absl::StrCat(DatabasePath(directory, options.schema.version), kPartial);
}

// Where a database is read without the end of its MANIFEST.
std::string ReadingPath(const std::string& path) { return absl::StrCat(path, kReading); }

std::string SalvageNote(const std::string& directory) { return directory + "/salvage"; }

rocksdb::Env* EnvOf(const DatabaseOptions& options) {
  return options.env != nullptr ? options.env : rocksdb::Env::Default();
}

// What was created in, or renamed into, `directory` is there after a power cut too.
absl::Status SyncDirectory(const DatabaseOptions& options, const std::string& directory) {
  std::unique_ptr<rocksdb::Directory> opened;
  rocksdb::Status status = EnvOf(options)->NewDirectory(directory, &opened);
  if (status.ok()) status = opened->Fsync();
  return FromRocksdb(status, absl::StrCat("syncing ", directory));
}

absl::Status Rename(const DatabaseOptions& options, const std::string& from,
                    const std::string& to) {
  RETURN_IF_ERROR(
      FromRocksdb(EnvOf(options)->RenameFile(from, to), absl::StrCat("renaming ", from)));
  return SyncDirectory(options, fs::path(to).parent_path().string());
}

void Note(const DatabaseOptions& options, absl::string_view sentence) {
  if (options.note) options.note(sentence);
}

// RocksDB's own log has nowhere to go but the daemon's: its errors, and what it drops from a log
// while it recovers.
class NotingLogger : public rocksdb::Logger {
 public:
  explicit NotingLogger(std::function<void(absl::string_view)> note)
      : rocksdb::Logger(rocksdb::WARN_LEVEL), note_(std::move(note)) {}

  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::WARN_LEVEL || level == rocksdb::HEADER_LEVEL || !note_) return;
    char text[1024];
    std::vsnprintf(text, sizeof(text), format, arguments);
    if (level == rocksdb::WARN_LEVEL && !absl::StrContains(text, "dropping")) return;
    note_(absl::StrCat("RocksDB: ", text));
  }

 private:
  const std::function<void(absl::string_view)> note_;
};

class BackgroundErrors : public rocksdb::EventListener {
 public:
  explicit BackgroundErrors(std::function<void(const rocksdb::Status&)> on_error)
      : on_error_(std::move(on_error)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    if (on_error_) on_error_(*error);
  }

 private:
  const std::function<void(const rocksdb::Status&)> on_error_;
};

rocksdb::DBOptions RocksdbOptions(const DatabaseOptions& options) {
  rocksdb::DBOptions db;
  if (options.env != nullptr) db.env = options.env;
  // Most of an open is files: nothing is read ahead, no statistics are gathered, and a log is
  // replayed into memory instead of being written out into tables at once.
  db.max_open_files = 512;
  db.max_file_opening_threads =
      1;  // the default starts sixteen for each family, for a handful of files
  db.skip_stats_update_on_db_open = true;
  db.skip_checking_sst_file_sizes_on_db_open = true;
  db.avoid_flush_during_recovery = true;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_total_wal_size = kMaxLogBytes;
  // Records stand for themselves and carry checksums: behind a damaged place in the log, the rest
  // still counts.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  // The store tries again itself, and says so.
  db.max_bgerror_resume_count = 0;
  db.max_background_jobs = 2;
  db.info_log = std::make_shared<NotingLogger>(options.note);
  db.listeners.push_back(std::make_shared<BackgroundErrors>(options.on_background_error));
  return db;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Descriptors(const DatabaseOptions& options) {
  FamilyResources resources;
  // Four shards: few threads meet in it, and a shard should hold many of the largest blocks.
  resources.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/2);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
  for (const Family* family : AllFamilies()) {
    rocksdb::ColumnFamilyOptions family_options;
    family->tune(resources, &family_options);
    descriptors.emplace_back(family->name, family_options);
  }
  return descriptors;
}

// The newest schema of which there is a database; 0: none.
uint32_t FoundVersion(const std::string& directory) {
  uint32_t newest = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    uint32_t version = 0;
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(kPrefix.size()), &version)) {
      newest = std::max(newest, version);
    }
  }
  return newest;
}

absl::Status NewerSchema(const std::string& directory, absl::string_view found, uint32_t ours) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the cache in ", directory, " was written by a newer Tessera (", found,
      "; this one knows schema ", ours,
      "); it is left as it is: start the newer version or choose another state directory"));
}

// Families that this build does not know: the database belongs to a newer one.
std::string UnknownFamilies(const std::string& path, const DatabaseOptions& options) {
  std::vector<std::string> names;
  if (!rocksdb::DB::ListColumnFamilies(RocksdbOptions(options), path, &names).ok()) return "";
  std::string unknown;
  for (const std::string& name : names) {
    if (name != rocksdb::kDefaultColumnFamilyName && FindFamily(name) == nullptr) {
      absl::StrAppend(&unknown, unknown.empty() ? "" : ", ", name);
    }
  }
  return unknown;
}

// "20300131T120000Z"
std::string TimeStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc;
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

std::string FreeSetAsideName(const std::string& path) {
  const std::string base = absl::StrCat(path, kDamaged, TimeStamp());
  std::string name = base;
  for (int number = 2; fs::exists(name); ++number) name = absl::StrCat(base, "-", number);
  return name;
}

void RemoveOldSetAsides(const std::string& directory) {
  std::set<std::string> names;  // time stamps sort by age
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (absl::StrContains(entry.path().filename().string(), kDamaged))
      names.insert(entry.path().string());
  }
  while (names.size() > kSetAsideKept) {
    fs::remove_all(*names.begin(), error);
    names.erase(names.begin());
  }
}

// What a salvage that was cut short had begun, of whatever schema: nobody goes on with it.
void RemoveUnfinished(const std::string& directory) {
  std::vector<fs::path> unfinished;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, kPrefix) &&
        (absl::EndsWith(name, kPartial) || absl::EndsWith(name, kReading)))
      unfinished.push_back(entry.path());
  }
  for (const fs::path& folder : unfinished) fs::remove_all(folder, error);
}

// Whether the records of a database of schema `found` mean the same in ours.
bool CanBeCopied(uint32_t found, const Schema& schema) {
  for (uint32_t version = found; version < schema.version; ++version) {
    const auto step =
        std::find_if(schema.migrations.begin(), schema.migrations.end(),
                     [&](const Migration& migration) { return migration.from == version; });
    if (step == schema.migrations.end() || !step->additive) return false;
  }
  return true;
}

// A disk that is full or fails is no reason to give up a database that may be sound.
bool IsWeather(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted ||
         status.code() == absl::StatusCode::kUnavailable;
}

// The damaged database at `path` makes room for the finished copy. Killed anywhere in here, the
// next open goes on.
absl::Status TakeSalvagedIntoUse(const std::string& directory, const std::string& path,
                                 const std::string& ours, const DatabaseOptions& options) {
  std::error_code error;
  if (fs::exists(path, error)) {
    const std::string aside = FreeSetAsideName(path);
    RETURN_IF_ERROR(Rename(options, path, aside));
    Note(options, absl::StrCat("the damaged cache database was set aside as ", aside));
  }
  RETURN_IF_ERROR(Rename(options, ours + std::string(kSalvaged), ours));
  fs::remove(SalvageNote(directory), error);
  RemoveOldSetAsides(directory);
  return absl::OkStatus();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Where the records of a MANIFEST end, up to the first place that cannot be one (RocksDB's log
// format: blocks of 32 KiB, a header of checksum, length and kind before each piece).
std::vector<size_t> RecordEnds(const std::string& manifest) {
  constexpr size_t kBlock = 32 << 10, kHeader = 7;
  enum Kind { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
  std::vector<size_t> ends;
  for (size_t at = 0; at + kHeader <= manifest.size();) {
    if (kBlock - at % kBlock < kHeader) {
      at += kBlock - at % kBlock;
      continue;
    }
    const auto byte = [&](size_t i) {
      return static_cast<size_t>(static_cast<unsigned char>(manifest[at + i]));
    };
    const size_t kind = byte(6), end = at + kHeader + byte(4) + (byte(5) << 8);
    if (kind < kFull || kind > kLast || end > manifest.size() || end > (at / kBlock + 1) * kBlock)
      break;
    if (kind == kFull || kind == kLast) ends.push_back(end);
    at = end;
  }
  return ends;
}

// Killed while it was first created: there was nothing in it yet that anybody could have been
// promised.
bool IsUnborn(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/CURRENT", error)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string kind = entry.path().extension().string();
    if (kind == ".sst" || kind == ".blob" || (kind == ".log" && entry.file_size(error) > 0))
      return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& directory,
                                                         const DatabaseOptions& options) {
  const uint32_t ours = options.schema.version;
  const std::string path = DatabasePath(directory, ours);
  if (fs::exists(path + std::string(kSalvaged)))
    RETURN_IF_ERROR(TakeSalvagedIntoUse(directory, path, path, options));
  uint32_t found = FoundVersion(directory);
  if (found > ours) return NewerSchema(directory, absl::StrCat("schema ", found), ours);
  RemoveUnfinished(directory);
  if (found == ours && IsUnborn(path)) {
    std::error_code error;
    fs::remove_all(path, error);
    found = 0;
  }
  if (found == 0) return OpenFresh(directory, path, options);
  if (found < ours) return OpenMigrated(directory, found, options);
  if (fs::exists(SalvageNote(directory))) {
    std::string why;
    std::getline(std::ifstream(SalvageNote(directory)), why);
    return Salvage(directory, ours, why, options);
  }
  auto database = OpenAt(directory, path, options, Mode::kReadWrite);
  if (database.ok()) {
    const absl::Status schema = (*database)->CheckSchema();
    if (!schema.ok()) return schema;
    return database;
  }
  const std::string unknown = UnknownFamilies(path, options);
  if (!unknown.empty())
    return NewerSchema(directory, absl::StrCat("it has the families ", unknown), ours);
  if (IsWeather(database.status())) return database.status();
  return Salvage(directory, ours, database.status().message(), options);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenReadOnly(const std::string& directory,
                                                                 const DatabaseOptions& options) {
  return OpenAt(directory, DatabasePath(directory, options.schema.version), options,
                Mode::kReadOnly);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenAt(const std::string& directory,
                                                           const std::string& path,
                                                           const DatabaseOptions& options,
                                                           Mode mode) {
  std::unique_ptr<Database> database(new Database(directory, options));
  database->writable_ = mode != Mode::kReadOnly;
  rocksdb::DBOptions db_options = RocksdbOptions(options);
  // Where CURRENT is lost, RocksDB would begin anew in the same place and delete the old tables:
  // not unless asked to.
  db_options.create_if_missing = mode == Mode::kCreate;
  db_options.create_missing_column_families = mode == Mode::kCreate || mode == Mode::kReadWrite;
  db_options.best_efforts_recovery = mode == Mode::kBestEffort;
  const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = Descriptors(options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      mode == Mode::kReadOnly
          ? rocksdb::DB::OpenForReadOnly(db_options, path, descriptors, &handles, &db)
          : rocksdb::DB::Open(db_options, path, descriptors, &handles, &db);
  // A file that is gone is damage, whatever kind of error it comes as.
  if (status.IsPathNotFound())
    return absl::DataLossError(absl::StrCat("opening ", path, ": ", status.ToString()));
  RETURN_IF_ERROR(FromRocksdb(status, "opening " + path));
  database->db_.reset(db);
  for (size_t i = 0; i < handles.size(); ++i) database->handles_[descriptors[i].name] = handles[i];
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenFresh(const std::string& directory,
                                                              const std::string& path,
                                                              const DatabaseOptions& options) {
  std::error_code error;
  fs::create_directories(path, error);  // whether it worked, the open says
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   OpenAt(directory, path, options, Mode::kCreate));
  RETURN_IF_ERROR(database->WriteSchema(options.schema.version));
  // RocksDB syncs what is in its directory, not where that lies.
  RETURN_IF_ERROR(SyncDirectory(options, directory));
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenMigrated(const std::string& directory,
                                                                 uint32_t found,
                                                                 const DatabaseOptions& options) {
  const std::string old_path = DatabasePath(directory, found);
  const std::string path = DatabasePath(directory, options.schema.version);
  const auto migrate = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                     OpenAt(directory, old_path, options, Mode::kReadWrite));
    for (uint32_t version = found; version < options.schema.version; ++version) {
      const auto& steps = options.schema.migrations;
      const auto step = std::find_if(steps.begin(), steps.end(),
                                     [&](const Migration& m) { return m.from == version; });
      if (step == steps.end())
        return absl::UnimplementedError(absl::StrCat("no step leads on from schema ", version));
      RETURN_IF_ERROR(step->run(database.get()));
      Note(options, absl::StrCat("migrated the cache in ", directory, " from schema ", version,
                                 ": ", step->what));
    }
    return database->WriteSchema(options.schema.version);
  };
  const absl::Status migrated = migrate();
  if (IsWeather(migrated)) return migrated;
  if (!migrated.ok()) return Salvage(directory, found, migrated.message(), options);
  // The name is what counts, and it changes in one step: killed before it, the migration runs
  // again.
  RETURN_IF_ERROR(Rename(options, old_path, path));
  return OpenAt(directory, path, options, Mode::kReadWrite);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Salvage(const std::string& directory,
                                                            uint32_t found, absl::string_view why,
                                                            const DatabaseOptions& options) {
  const std::string path = DatabasePath(directory, found);
  Note(options, absl::StrCat("the cache database ", path, " is damaged: ", why));
  const std::string ours = DatabasePath(directory, options.schema.version);
  absl::StatusOr<std::unique_ptr<Database>> damaged = absl::NotFoundError("it has another schema");
  ASSIGN_OR_RETURN(std::unique_ptr<Database> fresh, OpenPartial(directory, options));
  bool copied = false;
  CopyCounts counts;
  if (path == ours || CanBeCopied(found, options.schema)) {
    // As it is, if it opens at all: the other ways leave out what is in the log.
    damaged = OpenAt(directory, path, options, Mode::kReadWrite);
    if (!damaged.ok()) {
      ASSIGN_OR_RETURN(copied,
                       CopyWithoutEndOfManifest(directory, path, options, fresh.get(), &counts));
      damaged = OpenAt(directory, path, options, Mode::kBestEffort);
    }
    if (!damaged.ok() &&
        rocksdb::RepairDB(path, RocksdbOptions(options), Descriptors(options)).ok()) {
      damaged = OpenAt(directory, path, options, Mode::kReadWrite);
    }
  }
  if (damaged.ok()) {
    RETURN_IF_ERROR((*damaged)->CopyReadableTo(fresh.get(), &counts));
    damaged->reset();
    copied = true;
  }
  Note(options, copied ? counts.ToString()
                       : absl::StrCat("nothing of it can be read: ", damaged.status().message()));
  fresh.reset();
  RETURN_IF_ERROR(FinishPartial(directory, options));
  RETURN_IF_ERROR(TakeSalvagedIntoUse(directory, path, ours, options));
  return OpenAt(directory, ours, options, Mode::kReadWrite);
}

absl::StatusOr<bool> Database::CopyWithoutEndOfManifest(const std::string& directory,
                                                        const std::string& path,
                                                        const DatabaseOptions& options,
                                                        Database* fresh, CopyCounts* counts) {
  std::string name = ReadFile(path + "/CURRENT");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (name.empty()) return false;
  const std::string manifest = ReadFile(absl::StrCat(path, "/", name)), reading = ReadingPath(path);
  const std::vector<size_t> ends = RecordEnds(manifest);
  std::error_code error;
  fs::create_directory(reading, error);
  const auto remove_reading = absl::MakeCleanup([&] { fs::remove_all(reading, error); });
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().filename().string();
    if (file != name && file != "LOCK")
      fs::create_hard_link(entry.path(), absl::StrCat(reading, "/", file), error);
  }
  for (size_t left_off = 0; left_off < std::min(kManifestRecordsLeftOff, ends.size()); ++left_off) {
    std::ofstream(absl::StrCat(reading, "/", name), std::ios::binary | std::ios::trunc)
        << manifest.substr(0, ends[ends.size() - 1 - left_off]);
    // Read-only: nothing that this state does not know of is deleted.
    auto database = OpenAt(directory, reading, options, Mode::kReadOnly);
    if (!database.ok() || !(*database)->MissingTable().empty()) continue;
    RETURN_IF_ERROR((*database)->CopyReadableTo(fresh, counts));
    return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenPartial(const std::string& directory,
                                                                const DatabaseOptions& options) {
  const std::string partial = PartialPath(directory, options);
  std::error_code error;
  fs::remove_all(partial, error);  // of an attempt that was cut short
  return OpenFresh(directory, partial, options);
}

absl::Status Database::FinishPartial(const std::string& directory, const DatabaseOptions& options) {
  return Rename(options, PartialPath(directory, options),
                DatabasePath(directory, options.schema.version) + std::string(kSalvaged));
}

absl::Status Database::CopyReadable() {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> fresh, OpenPartial(directory_, options_));
  CopyCounts counts;
  RETURN_IF_ERROR(CopyReadableTo(fresh.get(), &counts));
  Note(options_, counts.ToString());
  fresh.reset();
  return FinishPartial(directory_, options_);
}

std::string Database::CopyCounts::ToString() const {
  return absl::StrCat("copied its ", copied, " sound entries into a fresh database; ", damaged,
                      " were damaged, and ", places, " places could not be read");
}

absl::Status Database::CopyReadableTo(Database* fresh, CopyCounts* counts) {
  uint64_t damaged = 0, places = 0;
  rocksdb::Status written;
  for (const Family* family : AllFamilies()) {
    if (family == &MetaFamily()) continue;  // the fresh one has its own
    const auto copy = [&](absl::string_view key, absl::string_view value) {
      if (DecodeValue(*family, key, value).reason != MissReason::kFound) {
        ++damaged;
        return true;
      }
      const rocksdb::Slice raw_key(key.data(), key.size());
      std::string there;  // copied from a state that knew more
      if (fresh->db()->Get(rocksdb::ReadOptions(), fresh->handle(*family), raw_key, &there).ok())
        return true;
      written = fresh->db()->Put(rocksdb::WriteOptions(), fresh->handle(*family), raw_key,
                                 rocksdb::Slice(value.data(), value.size()));
      if (written.ok()) ++counts->copied;
      return written.ok();
    };
    const auto skip = [&](absl::string_view, const rocksdb::Status&) {
      ++places;
      return true;
    };
    RETURN_IF_ERROR(TolerantScan(db(), handle(*family), "", copy, skip));
    RETURN_IF_ERROR(FromRocksdb(written, "copying what can be read of the cache"));
  }
  // A second copy of the same database meets the same damage again.
  counts->damaged = std::max(counts->damaged, damaged);
  counts->places = std::max(counts->places, places);
  RETURN_IF_ERROR(CopyRewritten(fresh, &counts->copied));
  RETURN_IF_ERROR(CompleteInventory(fresh));
  return FromRocksdb(fresh->db()->FlushWAL(/*sync=*/true), "copying what can be read of the cache");
}

// A scan cannot see an entry whose neighbours in an older table are unreadable, but a lookup can.
// Those that were found damaged there and rebuilt are known from the quarantine.
absl::Status Database::CopyRewritten(Database* fresh, uint64_t* copied) {
  rocksdb::Status written;
  const auto copy = [&](absl::string_view place, absl::string_view value) {
    const DecodedValue decoded = DecodeValue(QuarantineFamily(), place, value);
    std::vector<CanonicalField> fields;
    if (decoded.reason != MissReason::kFound || !ParseCanonical(decoded.payload, &fields) ||
        fields.size() < 2)
      return true;
    const Family* family = FindFamily(fields[0].value);
    if (family == nullptr || fields[1].name != "key") return true;
    const absl::string_view key = fields[1].value;
    const rocksdb::Slice raw_key(key.data(), key.size());
    std::string now, copied_already;
    if (!db_->Get(rocksdb::ReadOptions(), handle(*family), raw_key, &now).ok()) return true;
    if (DecodeValue(*family, key, now).reason != MissReason::kFound) return true;
    if (fresh->db()
            ->Get(rocksdb::ReadOptions(), fresh->handle(*family), raw_key, &copied_already)
            .ok())
      return true;
    written = fresh->db()->Put(rocksdb::WriteOptions(), fresh->handle(*family), raw_key, now);
    if (written.ok()) ++*copied;
    return written.ok();
  };
  RETURN_IF_ERROR(TolerantScan(db(), handle(QuarantineFamily()), "", copy,
                               [](absl::string_view, const rocksdb::Status&) { return true; }));
  return FromRocksdb(written, "copying what can be read of the cache");
}

absl::Status Database::CheckSchema() {
  const absl::string_view key = SchemaKey();
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), handle(MetaFamily()),
                                          rocksdb::Slice(key.data(), key.size()), &value);
  const DecodedValue decoded = DecodeValue(MetaFamily(), key, value);
  storage::MetaRecord record;
  if (status.ok() && decoded.reason == MissReason::kFound &&
      record.ParseFromArray(decoded.payload.data(), decoded.payload.size())) {
    if (record.schema_version() > options_.schema.version) {
      return NewerSchema(directory_, absl::StrCat("schema ", record.schema_version()),
                         options_.schema.version);
    }
    return absl::OkStatus();
  }
  // Killed before it was first written, or damaged: the directory's name says the same.
  return WriteSchema(options_.schema.version);
}

absl::Status Database::WriteSchema(uint32_t version) {
  storage::MetaRecord record;
  record.set_schema_version(version);
  record.set_compiler_build(options_.compiler_build);
  record.set_created_by(absl::StrCat("tessera, RocksDB ", ROCKSDB_MAJOR, ".", ROCKSDB_MINOR));
  const absl::string_view key = SchemaKey();
  rocksdb::WriteOptions durable;
  durable.sync = true;
  return FromRocksdb(db_->Put(durable, handle(MetaFamily()), rocksdb::Slice(key.data(), key.size()),
                              EncodeValue(MetaFamily(), key, record.SerializeAsString())),
                     "writing the schema of the cache");
}

std::string Database::FirstMissing(const std::vector<std::string>& files) const {
  for (const std::string& file : files) {
    const std::string path = db_->GetName() + file;
    if (EnvOf(options_)->FileExists(path).IsNotFound()) return path;
  }
  return "";
}

std::string Database::MissingFile() const {
  std::vector<std::string> files;
  uint64_t manifest_bytes = 0;
  if (!db_->GetLiveFiles(files, &manifest_bytes, /*flush_memtable=*/false).ok()) return "";
  std::unique_ptr<rocksdb::LogFile> log;
  // It looks at the file, and fails where there is none.
  const rocksdb::Status logged = db_->GetCurrentWalFile(&log);
  if (logged.IsIOError()) return "the write-ahead log";
  if (logged.ok()) files.push_back(log->PathName());
  return FirstMissing(files);
}

std::string Database::MissingTable() const {
  std::vector<std::string> files;
  uint64_t manifest_bytes = 0;
  if (!db_->GetLiveFiles(files, &manifest_bytes, /*flush_memtable=*/false).ok())
    return "the list of tables";
  const auto is_no_table = [](const std::string& file) {
    return !absl::EndsWith(file, ".sst") && !absl::EndsWith(file, ".blob");
  };
  files.erase(std::remove_if(files.begin(), files.end(), is_no_table), files.end());
  return FirstMissing(files);
}

void Database::RequestSalvage(absl::string_view why) {
  rocksdb::WriteStringToFile(EnvOf(options_), std::string(why) + "\n", SalvageNote(directory_),
                             /*should_sync=*/true)
      .PermitUncheckedError();
  Note(options_, absl::StrCat("the cache in ", directory_, " has unreadable places (", why,
                              "); what can be read will be copied into a fresh database"));
}

Database::~Database() {
  if (db_ == nullptr) return;
  if (writable_) {
    uint64_t log_bytes = 0;
    rocksdb::VectorLogPtr logs;
    if (db_->GetSortedWalFiles(logs).ok()) {
      for (const auto& log : logs) log_bytes += log->SizeFileBytes();
    }
    if (log_bytes > kReplayBytesLeftAtClose) {
      std::vector<rocksdb::ColumnFamilyHandle*> all;
      for (const auto& [name, handle] : handles_) all.push_back(handle);
      db_->Flush(rocksdb::FlushOptions(), all).PermitUncheckedError();  // else the log is replayed
    }
  }
  for (const auto& [name, handle] : handles_)
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  db_->Close().PermitUncheckedError();
}

}  // namespace tessera::cache
