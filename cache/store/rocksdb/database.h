// Opens and closes the RocksDB database of a cache directory: schema, migration, set-aside,
// salvage.
//
//   <directory>/lock             held by the store (directory_lock.h)
//   <directory>/db.vN/           the database, by the version of its schema
//   <directory>/salvage          a note: the database has unreadable places, and what can be read
//                                must be copied
//   <directory>/db.vN.partial/   what is being copied out of a damaged database
//   <directory>/db.vN.reading/   where a damaged database is read without the end of its MANIFEST
//   <directory>/db.vN.salvaged/  the finished copy, on its way to become db.vN
//   <directory>/db.vN.damaged-*  set aside; the newest three are kept
#ifndef TESSERA_CACHE_STORE_ROCKSDB_DATABASE_H_
#define TESSERA_CACHE_STORE_ROCKSDB_DATABASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/family/family.h"
#include "cache/store/rocksdb/migrations.h"
#include "rocksdb/db.h"

namespace tessera::cache {

struct DatabaseOptions {
  uint64_t block_cache_bytes = 32 << 20;
  std::string compiler_build;
  std::function<void(absl::string_view)> note;
  // A flush or compaction failed: RocksDB takes no more writes. Called on its threads; may not call
  // the database.
  std::function<void(const rocksdb::Status&)> on_background_error;
  rocksdb::Env* env = nullptr;  // nullptr: the default. Must outlive the database.
  Schema schema = CurrentSchema();
};

// Thread-safe once open.
class Database {
 public:
  // Opens the database below `directory`, which exists and is locked by the caller; creates one if
  // there is none. What does not open is set aside, what can be read of it is copied into a fresh
  // one, and `note` tells. What an earlier salvage left unfinished is removed.
  //
  // FAILED_PRECONDITION: a newer schema; nothing was touched. RESOURCE_EXHAUSTED, UNAVAILABLE: the
  // disk is full or fails; nothing was set aside.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& directory,
                                                        const DatabaseOptions& options);

  // For a file system that cannot be written: what is stored there can still be looked up.
  static absl::StatusOr<std::unique_ptr<Database>> OpenReadOnly(const std::string& directory,
                                                                const DatabaseOptions& options);

  // Writes large write-ahead logs out into tables first, so that the next open is quick.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* handle(const Family& family) const {
    return handles_.at(family.name);
  }

  // A file of it that somebody has deleted underneath; "": all are there.
  std::string MissingFile() const;

  // Has the next Open copy what can be read into a fresh database.
  void RequestSalvage(absl::string_view why);

  // The first half of that, with this database open: nobody may write to it until it is closed. The
  // next Open puts the copy in its place.
  absl::Status CopyReadable();

 private:
  Database(std::string directory, DatabaseOptions options)
      : directory_(std::move(directory)), options_(options) {}

  // Of one salvage, however many times it copies.
  struct CopyCounts {
    uint64_t copied = 0, damaged = 0, places = 0;
    std::string ToString() const;
  };

  enum class Mode { kCreate, kReadWrite, kReadOnly, kBestEffort };
  static absl::StatusOr<std::unique_ptr<Database>> OpenAt(const std::string& directory,
                                                          const std::string& path,
                                                          const DatabaseOptions& options,
                                                          Mode mode);
  static absl::StatusOr<std::unique_ptr<Database>> OpenFresh(const std::string& directory,
                                                             const std::string& path,
                                                             const DatabaseOptions& options);
  static absl::StatusOr<std::unique_ptr<Database>> OpenMigrated(const std::string& directory,
                                                                uint32_t found,
                                                                const DatabaseOptions& options);
  // Copies what can be read of the database of schema `found` into a fresh one and puts that in its
  // place.
  static absl::StatusOr<std::unique_ptr<Database>> Salvage(const std::string& directory,
                                                           uint32_t found, absl::string_view why,
                                                           const DatabaseOptions& options);
  static absl::StatusOr<std::unique_ptr<Database>> OpenPartial(const std::string& directory,
                                                               const DatabaseOptions& options);
  static absl::Status FinishPartial(const std::string& directory, const DatabaseOptions& options);
  // A power cut can leave what was last written to the MANIFEST as zeros, which RocksDB takes for
  // damage of the whole. Nothing depends on records that were not synced: without the last ones the
  // database is as it was, its log included. Copies what can be read that way; false: it does not
  // open so either. `path` is only read.
  static absl::StatusOr<bool> CopyWithoutEndOfManifest(const std::string& directory,
                                                       const std::string& path,
                                                       const DatabaseOptions& options,
                                                       Database* fresh, CopyCounts* counts);
  absl::Status CheckSchema();
  absl::Status WriteSchema(uint32_t version);
  // What the fresh one has already stays.
  absl::Status CopyReadableTo(Database* fresh, CopyCounts* counts);
  // The first of `files` (relative to the database, with a slash before them) that is gone; "": all
  // are there.
  std::string FirstMissing(const std::vector<std::string>& files) const;
  std::string MissingTable() const;  // likewise, of tables and blob files
  absl::Status CopyRewritten(Database* fresh, uint64_t* copied);

  const std::string directory_;
  const DatabaseOptions options_;
  bool writable_ = true;
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*, std::less<>> handles_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_DATABASE_H_
