#include "runtime/memory/descriptor_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "absl/base/internal/endian.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/system_status.h"

namespace tessera::runtime {
namespace {

// Room for the control data of one message.
union ControlBuffer {
  char bytes[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  cmsghdr align;
};

void AttachDescriptors(absl::Span<const int> descriptors, ControlBuffer* control, msghdr* message) {
  if (descriptors.empty()) return;
  std::memset(control, 0, sizeof(*control));
  message->msg_control = control->bytes;
  message->msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
}

void TakeDescriptors(msghdr* message, std::vector<UniqueFd>* descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      descriptors->emplace_back(fd);
    }
  }
}

absl::Status CheckDescriptorCount(absl::Span<const int> descriptors) {
  if (descriptors.size() <= kMaxDescriptors) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(descriptors.size(),
                                                 " descriptors in one message; at most ",
                                                 kMaxDescriptors, " can be sent"));
}

ssize_t SendOnce(int socket, msghdr* message) {
  ssize_t sent;
  do {
    sent = sendmsg(socket, message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t ReceiveOnce(int socket, msghdr* message) {
  ssize_t received;
  do {
    received = recvmsg(socket, message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  return received;
}

// Fills `data` from a stream, collecting descriptors. `at_start`: the end of the stream is no error
// yet.
absl::Status ReceiveExactly(int socket, char* data, size_t bytes, bool at_start,
                            std::vector<UniqueFd>* descriptors) {
  size_t filled = 0;
  while (filled < bytes) {
    iovec part = {data + filled, bytes - filled};
    ControlBuffer control;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    const ssize_t received = ReceiveOnce(socket, &message);
    if (received < 0) return SystemStatus(errno, "receiving a frame");
    TakeDescriptors(&message, descriptors);
    if (message.msg_flags & MSG_CTRUNC)
      return absl::DataLossError("receiving a frame: descriptors did not fit");
    if (received == 0) {
      if (at_start && filled == 0) return absl::OutOfRangeError("the peer closed the connection");
      return absl::DataLossError(
          "receiving a frame: the peer closed the connection in the middle of it");
    }
    filled += static_cast<size_t>(received);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  ucred credentials;
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return SystemStatus(errno, "asking for the peer's credentials");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
    return SystemStatus(errno, "making a socket pair");
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::Status SendPacket(int socket, absl::string_view bytes, absl::Span<const int> descriptors) {
  RETURN_IF_ERROR(CheckDescriptorCount(descriptors));
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  AttachDescriptors(descriptors, &control, &message);
  if (SendOnce(socket, &message) < 0) return SystemStatus(errno, "sending a packet");
  return absl::OkStatus();
}

absl::StatusOr<SocketMessage> ReceivePacket(int socket, size_t max_bytes) {
  SocketMessage result;
  result.bytes.resize(max_bytes);
  iovec part = {&result.bytes[0], max_bytes};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  const ssize_t received = ReceiveOnce(socket, &message);
  if (received < 0) return SystemStatus(errno, "receiving a packet");
  TakeDescriptors(&message, &result.descriptors);
  if (message.msg_flags & MSG_TRUNC) {
    return absl::DataLossError(
        absl::StrCat("receiving a packet: it is longer than ", max_bytes, " bytes"));
  }
  if (message.msg_flags & MSG_CTRUNC)
    return absl::DataLossError("receiving a packet: descriptors did not fit");
  // A packet of no bytes looks like the end; we never send one without descriptors.
  if (received == 0 && result.descriptors.empty())
    return absl::OutOfRangeError("the peer closed the connection");
  result.bytes.resize(static_cast<size_t>(received));
  return result;
}

absl::Status SendFrame(int socket, absl::string_view bytes, absl::Span<const int> descriptors) {
  RETURN_IF_ERROR(CheckDescriptorCount(descriptors));
  if (bytes.size() > UINT32_MAX)
    return absl::InvalidArgumentError("a frame of more than 4 GiB cannot be sent");
  char header[4];
  absl::little_endian::Store32(header, static_cast<uint32_t>(bytes.size()));
  size_t sent_bytes = 0;
  const size_t total = sizeof(header) + bytes.size();
  while (sent_bytes < total) {
    iovec parts[2];
    msghdr message = {};
    message.msg_iov = parts;
    if (sent_bytes < sizeof(header)) {
      parts[message.msg_iovlen++] = {header + sent_bytes, sizeof(header) - sent_bytes};
    }
    const size_t body = sent_bytes < sizeof(header) ? 0 : sent_bytes - sizeof(header);
    parts[message.msg_iovlen++] = {const_cast<char*>(bytes.data()) + body, bytes.size() - body};
    ControlBuffer control;
    if (sent_bytes == 0) AttachDescriptors(descriptors, &control, &message);
    const ssize_t sent = SendOnce(socket, &message);
    if (sent < 0) return SystemStatus(errno, "sending a frame");
    sent_bytes += static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketMessage> ReceiveFrame(int socket, uint32_t max_bytes) {
  SocketMessage result;
  char header[4];
  RETURN_IF_ERROR(ReceiveExactly(socket, header, sizeof(header), true, &result.descriptors));
  const uint32_t bytes = absl::little_endian::Load32(header);
  if (bytes > max_bytes) {
    return absl::DataLossError(
        absl::StrCat("receiving a frame: ", bytes, " bytes announced, ", max_bytes, " allowed"));
  }
  result.bytes.resize(bytes);
  RETURN_IF_ERROR(ReceiveExactly(socket, &result.bytes[0], bytes, false, &result.descriptors));
  return result;
}

}  // namespace tessera::runtime
