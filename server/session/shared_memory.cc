#include "server/session/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// Regions start on pages, so that alignment inside a region is alignment in memory.
constexpr uint64_t kPageBytes = 4096;

}  // namespace

absl::StatusOr<uint64_t> CheckExtent(int fd, uint64_t offset, uint64_t size) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "asking for the size of shared memory");
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (offset % kPageBytes != 0)
    return Error(absl::StatusCode::kInvalidArgument, "OFFSET_NOT_ALIGNED",
                 absl::StrCat("the region's offset ", offset, " is no multiple of ", kPageBytes,
                              "; place tensors by byte_offset instead"));
  if (offset > bytes || size > bytes - offset)
    return Error(absl::StatusCode::kInvalidArgument, "REGION_OUTSIDE_HANDLE",
                 absl::StrCat("bytes ", offset, " to ", offset + size, " do not lie inside the shared memory of ",
                              bytes, " bytes"));
  if (size == 0) size = bytes - offset;
  if (size == 0)
    return Error(absl::StatusCode::kInvalidArgument, "REGION_EMPTY", "the shared memory holds no bytes");
  return size;
}

absl::Status CheckSealedMemfd(int fd, bool read_only) {
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0)
    return Error(absl::StatusCode::kInvalidArgument, "NOT_A_MEMFD",
                 "the descriptor is no memfd made with MFD_ALLOW_SEALING");
  if ((seals & F_SEAL_SHRINK) == 0)
    return Error(absl::StatusCode::kInvalidArgument, "MEMFD_NOT_SEALED",
                 "the memfd may still shrink: fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) before offering it");
  int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
  bool writable = mode == O_RDWR && (seals & (F_SEAL_WRITE | 0x0010 /* F_SEAL_FUTURE_WRITE */)) == 0;
  if (!read_only && !writable)
    return Error(absl::StatusCode::kInvalidArgument, "MEMFD_READ_ONLY",
                 "the memfd cannot be written; import it with read_only");
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenPosixShm(const std::string& name, uid_t owner, bool read_only) {
  std::string path = absl::StartsWith(name, "/") ? name : absl::StrCat("/", name);
  if (path.size() < 2 || path.size() > 255 || path.find('/', 1) != std::string::npos || path == "/." || path == "/..")
    return Error(absl::StatusCode::kInvalidArgument, "SHM_NAME", absl::StrCat("'", name, "' is no name of POSIX shm"));
  UniqueFd fd(shm_open(path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW, 0));
  if (!fd.valid()) {
    if (errno == EACCES)
      return Error(absl::StatusCode::kPermissionDenied, "SHM_PERMISSION",
                   absl::StrCat("the daemon may not open POSIX shm ", path,
                                " (its mode does not allow the daemon's user); share a memfd instead"));
    return absl::ErrnoToStatus(errno, absl::StrCat("opening POSIX shm ", path));
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("looking at POSIX shm ", path));
  if (info.st_uid != owner || !S_ISREG(info.st_mode))
    return Error(absl::StatusCode::kPermissionDenied, "SHM_FOREIGN",
                 absl::StrCat("POSIX shm ", path, " belongs to uid ", info.st_uid, ", not to this client's uid ", owner));
  return fd;
}

absl::StatusOr<UniqueFd> CreateSealedMemfd(uint64_t size) {
  UniqueFd fd(memfd_create("tessera", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "creating shared memory");
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("sizing shared memory to ", size, " bytes"));
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return absl::ErrnoToStatus(errno, "sealing shared memory");
  return fd;
}

}  // namespace tessera::server
