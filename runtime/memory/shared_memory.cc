#include "runtime/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/system_status.h"

namespace tessera::runtime {
namespace {

absl::StatusOr<struct stat> StatOf(int fd, const std::string& what) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemStatus(errno, absl::StrCat("looking at ", what));
  return info;
}

// The permission bits of `info` that apply to `client`, as the kernel would choose them.
// Supplementary groups are not known here, so access by them alone is refused.
mode_t BitsFor(const struct stat& info, const PeerCredentials& client) {
  if (client.uid == info.st_uid) return (info.st_mode >> 6) & 7;
  if (client.gid == info.st_gid) return (info.st_mode >> 3) & 7;
  return info.st_mode & 7;
}

}  // namespace

absl::StatusOr<UniqueFd> CreateSealedMemory(const std::string& label, uint64_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("shared memory of 0 bytes cannot be made");
  UniqueFd fd(memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.open()) return SystemStatus(errno, absl::StrCat("making shared memory ", label));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemStatus(errno, absl::StrCat("giving shared memory ", label, " ", bytes, " bytes"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemStatus(errno, absl::StrCat("sealing shared memory ", label));
  }
  return fd;
}

absl::StatusOr<uint64_t> AdmitMemfd(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return absl::InvalidArgumentError("the descriptor is no memfd: it has no seals");
  if ((seals & F_SEAL_SHRINK) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return absl::FailedPreconditionError(
        "the memfd can shrink while kernels use it, and it does not let itself be sealed: create "
        "it with "
        "MFD_ALLOW_SEALING, and add F_SEAL_SHRINK or pass a writable descriptor");
  }
  ASSIGN_OR_RETURN(const struct stat info, StatOf(fd, "the memfd"));
  if (info.st_size <= 0) return absl::InvalidArgumentError("the memfd is empty");
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<PosixSharedMemory> OpenPosixSharedMemory(const std::string& name,
                                                        const PeerCredentials& client,
                                                        bool read_only) {
  const std::string path = !name.empty() && name[0] == '/' ? name : "/" + name;
  if (path.size() < 2 || path.size() > 255 || path.find('/', 1) != std::string::npos ||
      path == "/." || path == "/.." || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name,
        "' is no name of shared memory: wanted is one path component, as in '/weights'"));
  }
  const std::string what = absl::StrCat("shared memory '", path, "'");
  PosixSharedMemory memory;
  memory.fd = UniqueFd(shm_open(
      path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
  if (!memory.fd.open()) return SystemStatus(errno, absl::StrCat("opening ", what));
  ASSIGN_OR_RETURN(const struct stat info, StatOf(memory.fd.get(), what));
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(what, " is no memory"));
  const mode_t wanted = read_only ? 4 : 6;
  if (client.uid != 0 && (BitsFor(info, client) & wanted) != wanted) {
    return absl::PermissionDeniedError(absl::StrCat(what, " does not let user ", client.uid,
                                                    read_only ? " read it" : " read and write it"));
  }
  if (info.st_size <= 0) return absl::InvalidArgumentError(absl::StrCat(what, " is empty"));
  memory.bytes = static_cast<uint64_t>(info.st_size);
  return memory;
}

}  // namespace tessera::runtime
