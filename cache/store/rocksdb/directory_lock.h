// Keeps a second process, or a second store of this one, out of a directory.
#ifndef TESSERA_CACHE_STORE_ROCKSDB_DIRECTORY_LOCK_H_
#define TESSERA_CACHE_STORE_ROCKSDB_DIRECTORY_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::cache {

// Held until the object dies or the process does, however it dies: the kernel lets go of it. Children that exec do
// not inherit it.
class DirectoryLock {
 public:
  // FAILED_PRECONDITION: somebody else holds it; the message names the directory and the holder's pid.
  // UNAVAILABLE: the lock file cannot be opened.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_ROCKSDB_DIRECTORY_LOCK_H_
