#include "server/telemetry/http_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

// Two scrapers and somebody with a browser; who reads slowly holds one thread for so long at most.
constexpr int kThreads = 3;
constexpr std::chrono::seconds kPatience(5);
constexpr size_t kMaxHead = 16 << 10;

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

std::string PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  char port[16] = "";
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, port, sizeof(port),
              NI_NUMERICSERV);
  return port;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const std::string& address,
                                                               Handlers handlers) {
  size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address; host:port is expected"));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1,
                          &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat(address, ": ", gai_strerror(error)));
  absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->listener_ =
      runtime::UniqueFd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int one = 1;
  // A port in TIME_WAIT may be had again; one that somebody listens on may not.
  setsockopt(server->listener_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(server->listener_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(server->listener_.get(), 64) != 0)
    return absl::UnavailableError(absl::StrCat(address, ": ", std::strerror(errno)));
  server->address_ = absl::StrCat(address.substr(0, colon), ":", PortOf(server->listener_.get()));
  server->stop_ = runtime::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  server->handlers_ = std::move(handlers);
  for (int i = 0; i < kThreads; ++i)
    server->threads_.emplace_back([raw = server.get()] { raw->Loop(); });
  return server;
}

HttpServer::~HttpServer() {
  if (stop_.get() >= 0) {
    uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
  }
  for (std::thread& thread : threads_) thread.join();
}

void HttpServer::Loop() {
  while (true) {
    pollfd ready[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if (ready[0].revents == 0) continue;
    runtime::UniqueFd connection(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() >= 0) {
      Serve(connection.get());
    } else if (errno == EMFILE || errno == ENFILE) {
      // The listener stays readable; others must get the chance to free descriptors.
      poll(&ready[1], 1, 100);
    }
  }
}

void HttpServer::Serve(int fd) const {
  Clock::time_point deadline = Clock::now() + kPatience;
  // False: time is up, the other side is gone, or the server stops.
  auto wait = [&](short events) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready[2] = {{fd, events, 0}, {stop_.get(), POLLIN, 0}};
    int count = poll(ready, 2, static_cast<int>(left.count()) + 1);
    if (count < 0) return errno == EINTR;
    return count > 0 && ready[1].revents == 0;
  };
  std::string head;
  char buffer[4096];
  while (!absl::StrContains(head, "\r\n\r\n")) {
    if (head.size() > kMaxHead || !wait(POLLIN)) return;
    ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (got > 0) head.append(buffer, static_cast<size_t>(got));
  }
  HttpResponse response = Answer(head);
  std::string text = absl::StrCat(
      "HTTP/1.1 ", response.status, " ", ReasonOf(response.status),
      "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(),
      "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:\r\n",
      response.status == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n",
      absl::StartsWith(head, "HEAD ") ? "" : response.body);
  for (size_t sent = 0; sent < text.size();) {
    if (!wait(POLLOUT)) return;
    ssize_t put = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return;
    if (put > 0) sent += static_cast<size_t>(put);
  }
  // What was not read would turn the close into a reset that may overtake the answer.
  shutdown(fd, SHUT_WR);
  while (wait(POLLIN)) {
    ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

HttpResponse HttpServer::Answer(const std::string& head) const {
  std::vector<std::string> words = absl::StrSplit(head.substr(0, head.find("\r\n")), ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1."))
    return {400, "text/plain; charset=utf-8", "not an HTTP/1 request\n"};
  if (words[0] != "GET" && words[0] != "HEAD")
    return {405, "text/plain; charset=utf-8", "this server is only read\n"};
  std::string path = words[1].substr(0, words[1].find('?'));
  auto found = handlers_.find(path);
  if (found != handlers_.end()) return found->second();
  std::string known;
  for (const auto& [name, handler] : handlers_) absl::StrAppend(&known, name, "\n");
  return {404, "text/plain; charset=utf-8",
          absl::StrCat("there is no ", path, "; there are:\n", known)};
}

}  // namespace tessera::server
