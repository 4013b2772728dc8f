// A file system that loses its power: from some operation on nothing reaches the disk, and what was not synced is lost.
//
// For tests. Files lie in the real file system below; PowerCut::Lose then brings them to a state that a disk may be in
// after a cut: of each file at least what was synced, perhaps more and perhaps torn; of names made or changed since
// their directory was synced, some or none.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_POWER_CUT_FILE_SYSTEM_H_
#define TESSERA_CACHE_STORE_ROCKSDB_POWER_CUT_FILE_SYSTEM_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rocksdb/file_system.h"

namespace tessera::cache {

// What was done and not yet synced. Thread-safe.
class PowerCut {
 public:
  // Operations that change something may run `operations` times more; then the power is gone.
  void CutAfter(int64_t operations) { left_ = operations; }
  bool gone() const { return left_.load() <= 0; }
  // One operation: false, if the power is gone.
  bool Take() { return left_.fetch_sub(1) > 0; }

  void Created(const std::string& file);
  void Grew(const std::string& file, uint64_t size);
  void Synced(const std::string& file);
  // A rename; `replaced` holds what was at `to` before, if there was something.
  void Renamed(const std::string& from, const std::string& to, bool replaced_existing, std::string replaced);
  void Deleted(const std::string& file, std::string content);
  void DirectorySynced(const std::string& directory);

  // After a cut, with all files closed.
  void Lose(std::mt19937* random);

 private:
  struct File {
    uint64_t synced = 0, written = 0;
  };
  // A change of names within a directory, newest last.
  struct NameChange {
    enum Kind { kCreated, kRenamed, kDeleted } kind;
    std::string directory, path, from;
    bool had_content = false;
    std::string content;  // of what was deleted or replaced
  };
  void Undo(const NameChange& change);

  std::atomic<int64_t> left_{int64_t{1} << 60};
  std::mutex mutex_;
  std::map<std::string, File> files_;
  std::vector<NameChange> changes_;
};

// `cut` must outlive it.
std::shared_ptr<rocksdb::FileSystem> NewPowerCutFileSystem(PowerCut* cut);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_POWER_CUT_FILE_SYSTEM_H_
