#include "server/session/descriptor_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/descriptor_socket.h"
#include "server/session/socket_file.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

constexpr size_t kMaxMessageBytes = 4096;

bool Watch(int poller, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0;
}

api::AttachResponse Failed(const absl::Status& status) {
  api::AttachResponse response;
  response.set_code(static_cast<int>(status.code()));
  response.set_message(std::string(status.message()));
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorSocket>> DescriptorSocket::Listen(
    const std::string& path, mode_t mode, const std::string& group, SessionRegistry* sessions) {
  RETURN_IF_ERROR(PrepareSocketPath(path, SOCK_SEQPACKET));
  std::unique_ptr<DescriptorSocket> self(new DescriptorSocket(sessions));
  self->listener_ =
      runtime::UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  self->poller_ = runtime::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  self->stop_ = runtime::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!self->listener_.open() || !self->poller_.open() || !self->stop_.open())
    return absl::ErrnoToStatus(errno, "creating the descriptor socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // Bound before it listens, so nobody connects before the mode is set.
  if (bind(self->listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("binding ", path));
  self->path_ = path;
  RETURN_IF_ERROR(SetSocketAccess(path, mode, group));
  if (listen(self->listener_.get(), 128) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", path));
  if (!Watch(self->poller_.get(), self->listener_.get()) ||
      !Watch(self->poller_.get(), self->stop_.get()))
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
    int ready = epoll_pwait(poller_.get(), events, 64, -1, nullptr);
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
    runtime::UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.open()) return;
    absl::StatusOr<Peer> peer = runtime::GetPeerCredentials(fd.get());
    if (!peer.ok()) continue;
    // Beyond the limit of sessions nothing useful can come; twice it, for those that are just
    // leaving.
    if (connections_.size() >= 2 * static_cast<size_t>(sessions_->limits().sessions)) continue;
    int number = fd.get();
    if (!Watch(poller_.get(), number)) continue;
    connections_[number] = {std::move(fd), *peer, nullptr};
  }
}

void DescriptorSocket::Drop(int fd) {
  auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  if (found->second.session) {
    spdlog::debug("session '{}' of pid {} has ended", found->second.session->client_name(),
                  found->second.peer.pid);
    sessions_->Close(found->second.session->token());
  }
  connections_.erase(found);  // closing leaves epoll by itself
}

bool DescriptorSocket::Serve(Connection* connection) {
  absl::StatusOr<runtime::SocketMessage> message =
      runtime::ReceivePacket(connection->fd.get(), kMaxMessageBytes);
  // A cut message says nothing about the next one; a packet socket keeps them apart.
  if (!message.ok() && !absl::IsDataLoss(message.status())) return false;
  api::AttachRequest request;
  api::AttachResponse response;
  runtime::UniqueFd attach;
  if (!message.ok() || !request.ParseFromString(message->bytes))
    response = Failed(absl::InvalidArgumentError("the message is no AttachRequest"));
  else if (message->descriptors.size() > 1)
    response = Failed(absl::InvalidArgumentError("one descriptor a message"));
  else
    response = Answer(
        connection, request,
        message->descriptors.empty() ? runtime::UniqueFd() : std::move(message->descriptors[0]),
        &attach);
  // The socket does not block: a peer that does not read its answers loses its connection rather
  // than our thread.
  int number = attach.get();
  absl::Span<const int> descriptors =
      attach.open() ? absl::MakeConstSpan(&number, 1) : absl::Span<const int>();
  return runtime::SendPacket(connection->fd.get(), response.SerializeAsString(), descriptors).ok();
}

api::AttachResponse DescriptorSocket::Answer(Connection* connection,
                                             const api::AttachRequest& request,
                                             runtime::UniqueFd received,
                                             runtime::UniqueFd* attach) {
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
  if (connection->session == nullptr)
    return Failed(absl::FailedPreconditionError("say hello first"));
  if (request.has_offer()) {
    if (!received.open())
      return Failed(absl::InvalidArgumentError("an offer comes with one descriptor"));
    absl::StatusOr<uint64_t> ticket = connection->session->AddTicket(std::move(received));
    if (!ticket.ok()) return Failed(ticket.status());
    response.set_ticket(*ticket);
    return response;
  }
  if (request.has_fetch()) {
    absl::StatusOr<std::shared_ptr<Region>> region =
        connection->session->FindRegion(request.fetch().region());
    if (!region.ok()) return Failed(region.status());
    if ((*region)->fd() < 0)
      return Failed(absl::FailedPreconditionError("this region came without a descriptor"));
    // Our own duplicate: the region may be released while the answer is on its way.
    *attach = runtime::UniqueFd::Duplicate((*region)->fd());
    if (!attach->open())
      return Failed(absl::ErrnoToStatus(errno, "duplicating the region's descriptor"));
    response.set_size((*region)->size());
    response.set_handle_bytes((*region)->description().handle_bytes);
    return response;
  }
  return Failed(absl::InvalidArgumentError("the message holds no request that this daemon knows"));
}

}  // namespace tessera::server
