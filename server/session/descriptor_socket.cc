#include "server/session/descriptor_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/session/socket_file.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

constexpr size_t kMaxMessageBytes = 4096;
// Descriptors in one message; the protocol has one, the rest is closed at once.
constexpr int kMaxDescriptors = 8;

bool Watch(int poller, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0;
}

// One message and the descriptors beside it. 0: end of file, -1: error or nothing there.
ssize_t Receive(int socket, char* buffer, size_t size, bool* truncated, std::vector<UniqueFd>* descriptors) {
  iovec part{buffer, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return got;
  *truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors->emplace_back(fd);
    }
  }
  return got;
}

bool Send(int socket, const std::string& text, int attach) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attach >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attach, sizeof(int));
  }
  // A peer that does not read its answers loses its connection rather than our thread.
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

api::AttachResponse Failed(const absl::Status& status) {
  api::AttachResponse response;
  response.set_code(static_cast<int>(status.code()));
  response.set_message(std::string(status.message()));
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorSocket>> DescriptorSocket::Listen(const std::string& path, mode_t mode,
                                                                           const std::string& group,
                                                                           SessionRegistry* sessions) {
  RETURN_IF_ERROR(PrepareSocketPath(path, SOCK_SEQPACKET));
  std::unique_ptr<DescriptorSocket> self(new DescriptorSocket(sessions));
  self->listener_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  self->poller_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  self->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!self->listener_.valid() || !self->poller_.valid() || !self->stop_.valid())
    return absl::ErrnoToStatus(errno, "creating the descriptor socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // Bound before it listens, so nobody connects before the mode is set.
  if (bind(self->listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("binding ", path));
  self->path_ = path;
  RETURN_IF_ERROR(SetSocketAccess(path, mode, group));
  if (listen(self->listener_.get(), 128) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", path));
  if (!Watch(self->poller_.get(), self->listener_.get()) || !Watch(self->poller_.get(), self->stop_.get()))
    return absl::ErrnoToStatus(errno, "watching the descriptor socket");
  self->thread_ = std::thread([s = self.get()] { s->Loop(); });
  return self;
}

DescriptorSocket::~DescriptorSocket() {
  if (thread_.joinable()) {
    uint64_t one = 1;
    ssize_t written = write(stop_.get(), &one, sizeof(one));
    (void)written;  // a full eventfd is readable as well
    thread_.join();
  }
  for (auto& [fd, connection] : connections_)
    if (connection.session) sessions_->Close(connection.session->token());
  if (!path_.empty()) unlink(path_.c_str());
}

void DescriptorSocket::Loop() {
  epoll_event events[64];
  while (true) {
    int ready = epoll_wait(poller_.get(), events, 64, -1);
    for (int i = 0; i < ready; ++i) {
      int fd = events[i].data.fd;
      if (fd == stop_.get()) return;
      if (fd == listener_.get()) {
        Accept();
        continue;
      }
      auto found = connections_.find(fd);
      if (found != connections_.end() && !Serve(&found->second)) Drop(fd);
    }
  }
}

void DescriptorSocket::Accept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    ucred credentials{};
    socklen_t size = sizeof(credentials);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) continue;
    // Beyond the limit of sessions nothing useful can come; twice it, for those that are just leaving.
    if (connections_.size() >= 2 * static_cast<size_t>(sessions_->limits().sessions)) continue;
    int number = fd.get();
    if (!Watch(poller_.get(), number)) continue;
    connections_[number] = {std::move(fd), Peer{credentials.pid, credentials.uid}, nullptr};
  }
}

void DescriptorSocket::Drop(int fd) {
  auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  if (found->second.session) {
    spdlog::debug("session '{}' of pid {} has ended", found->second.session->client_name(), found->second.peer.pid);
    sessions_->Close(found->second.session->token());
  }
  connections_.erase(found);  // closing leaves epoll by itself
}

bool DescriptorSocket::Serve(Connection* connection) {
  char buffer[kMaxMessageBytes];
  std::vector<UniqueFd> descriptors;
  bool truncated = false;
  ssize_t got = Receive(connection->fd.get(), buffer, sizeof(buffer), &truncated, &descriptors);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  api::AttachRequest request;
  api::AttachResponse response;
  UniqueFd attach;
  if (truncated || !request.ParseFromArray(buffer, static_cast<int>(got)))
    response = Failed(absl::InvalidArgumentError("the message is no AttachRequest"));
  else if (descriptors.size() > 1)
    response = Failed(absl::InvalidArgumentError("one descriptor a message"));
  else
    response = Answer(connection, request, descriptors.empty() ? UniqueFd() : std::move(descriptors[0]), &attach);
  return Send(connection->fd.get(), response.SerializeAsString(), attach.get());
}

api::AttachResponse DescriptorSocket::Answer(Connection* connection, const api::AttachRequest& request,
                                             UniqueFd received, UniqueFd* attach) {
  api::AttachResponse response;
  if (request.has_hello()) {
    if (connection->session != nullptr)
      return Failed(absl::FailedPreconditionError("this connection has a session already"));
    absl::StatusOr<std::shared_ptr<Session>> session =
        sessions_->Open(request.hello().client_name(), connection->peer);
    if (!session.ok()) return Failed(session.status());
    connection->session = *session;
    response.set_session((*session)->token());
    return response;
  }
  if (connection->session == nullptr) return Failed(absl::FailedPreconditionError("say hello first"));
  if (request.has_offer()) {
    if (!received.valid()) return Failed(absl::InvalidArgumentError("an offer comes with one descriptor"));
    absl::StatusOr<uint64_t> ticket = connection->session->AddTicket(std::move(received));
    if (!ticket.ok()) return Failed(ticket.status());
    response.set_ticket(*ticket);
    return response;
  }
  if (request.has_fetch()) {
    absl::StatusOr<std::shared_ptr<Region>> region = connection->session->FindRegion(request.fetch().region());
    if (!region.ok()) return Failed(region.status());
    // Our own duplicate: the region may be released while the answer is on its way.
    *attach = UniqueFd(fcntl((*region)->fd(), F_DUPFD_CLOEXEC, 0));
    if (!attach->valid()) return Failed(absl::ErrnoToStatus(errno, "duplicating the region's descriptor"));
    response.set_size((*region)->size());
    return response;
  }
  return Failed(absl::InvalidArgumentError("the message holds no request that this daemon knows"));
}

}  // namespace tessera::server
