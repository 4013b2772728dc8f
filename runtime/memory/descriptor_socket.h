// Messages with descriptors beside them (SCM_RIGHTS) over Unix sockets.
//
// A SOCK_SEQPACKET socket carries packets; a SOCK_STREAM socket carries frames: a 4-byte
// little-endian length, then as many bytes. Received descriptors are close-on-exec, and closed if a
// message turns out to be malformed. Errors: OUT_OF_RANGE: the peer closed its end between two
// messages. DATA_LOSS: a cut or oversized message. UNAVAILABLE: the connection broke.
#ifndef TESSERA_RUNTIME_MEMORY_DESCRIPTOR_SOCKET_H_
#define TESSERA_RUNTIME_MEMORY_DESCRIPTOR_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::runtime {

inline constexpr int kMaxDescriptors = 128;  // of one message

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

struct SocketMessage {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
};

// Who connected, or who made the socket pair.
absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

// Both ends of a connected pair, close-on-exec; `type` is SOCK_STREAM or SOCK_SEQPACKET.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair(int type);

absl::Status SendPacket(int socket, absl::string_view bytes,
                        absl::Span<const int> descriptors = {});
absl::StatusOr<SocketMessage> ReceivePacket(int socket, size_t max_bytes);

// Writes of several threads must not interleave: callers lock.
absl::Status SendFrame(int socket, absl::string_view bytes, absl::Span<const int> descriptors = {});
absl::StatusOr<SocketMessage> ReceiveFrame(int socket, uint32_t max_bytes);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_DESCRIPTOR_SOCKET_H_
