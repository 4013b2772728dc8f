#include "cache/store/rocksdb/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tessera::cache {
namespace {

std::string HolderOf(int descriptor) {
  char text[32];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  if (size <= 0) return "another process";
  return absl::StrCat("process ", absl::StripAsciiWhitespace(absl::string_view(text, size)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory) {
  const std::string path = directory + "/lock";
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // On a read-only file system a lock file that is there can still be locked.
  const int error = descriptor < 0 ? errno : 0;
  if (descriptor < 0) descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::UnavailableError(absl::StrCat("opening ", path, ": ", std::strerror(error)));
  // flock, not fcntl: it also tells two stores in one process apart, and closing another descriptor keeps it.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = HolderOf(descriptor);
    close(descriptor);
    if (error != EWOULDBLOCK) {
      return absl::UnavailableError(absl::StrCat("locking ", path, ": ", std::strerror(error)));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the cache directory ", directory, " is in use by ", holder,
                     "; stop it or choose another state directory"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  // Only for people: a lock without a pid is a lock all the same.
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, pid.data(), pid.size(), 0) < 0) errno = 0;
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(descriptor));
}

DirectoryLock::~DirectoryLock() { close(descriptor_); }

}  // namespace tessera::cache
