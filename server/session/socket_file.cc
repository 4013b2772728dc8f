#include "server/session/socket_file.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

bool SomebodyListens(const sockaddr_un& address, int socket_type) {
  int fd = socket(AF_UNIX, socket_type | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  int error = errno;
  close(fd);
  return result == 0 || (error != ECONNREFUSED && error != ENOENT);
}

}  // namespace

absl::Status PrepareSocketPath(const std::string& path, int socket_type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] != '/' || path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(absl::StrCat("a socket's path is absolute and shorter than ",
                                                   sizeof(address.sun_path), " bytes, unlike '",
                                                   path, "'"));
  std::memcpy(address.sun_path, path.data(), path.size());
  std::error_code error;
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  // Clients of other users must be able to pass through; the socket's own mode decides.
  if (!std::filesystem::exists(parent, error)) {
    std::filesystem::create_directories(parent, error);
    if (error)
      return absl::ErrnoToStatus(error.value(), absl::StrCat("creating ", parent.string()));
    chmod(parent.c_str(), 0755);
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode))
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is no socket"));
  if (SomebodyListens(address, socket_type))
    return absl::AlreadyExistsError(absl::StrCat("another process listens on ", path));
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return absl::ErrnoToStatus(errno, absl::StrCat("removing the stale socket ", path));
  return absl::OkStatus();
}

absl::Status SetSocketAccess(const std::string& path, mode_t mode, const std::string& group) {
  if (!group.empty()) {
    unsigned int gid = 0;
    if (!absl::SimpleAtoi(group, &gid)) {
      const struct group* entry = getgrnam(group.c_str());
      if (entry == nullptr)
        return absl::InvalidArgumentError(absl::StrCat("there is no group '", group, "'"));
      gid = entry->gr_gid;
    }
    if (chown(path.c_str(), static_cast<uid_t>(-1), gid) != 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("giving ", path, " to group ", group));
  }
  if (chmod(path.c_str(), mode) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("setting the mode of ", path));
  return absl::OkStatus();
}

}  // namespace tessera::server
