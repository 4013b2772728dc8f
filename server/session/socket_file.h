// Socket files: where they may be, who may connect, and what to do with one that is there already.
#ifndef TESSERA_SERVER_SESSION_SOCKET_FILE_H_
#define TESSERA_SERVER_SESSION_SOCKET_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace tessera::server {

// Makes the way free for a socket at `path`: creates the directory (mode 0755), removes a socket
// file on which nobody listens. ALREADY_EXISTS: somebody listens there, or it is no socket.
// INVALID_ARGUMENT: too long for a socket.
absl::Status PrepareSocketPath(const std::string& path, int socket_type);

// Sets mode and, if not empty, group (a name or a number).
absl::Status SetSocketAccess(const std::string& path, mode_t mode, const std::string& group);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_SOCKET_FILE_H_
