#include "server/telemetry/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "runtime/memory/unique_fd.h"

namespace tessera::server {

bool NotifyServiceManager(const std::string& text) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return false;
  const size_t length = std::strlen(name);
  if (length >= sizeof(address.sun_path)) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // of the abstract namespace
  runtime::UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.get() >= 0 &&
         sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL,
                reinterpret_cast<sockaddr*>(&address),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)) ==
             static_cast<ssize_t>(text.size());
}

}  // namespace tessera::server
