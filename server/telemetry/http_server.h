// A small HTTP/1.1 server for pages that are only read: GET and HEAD, one answer a connection.
//
// Our own, because neither library at hand does as much: Debian's civetweb (below prometheus-cpp's
// Exposer) is built without IPv6 and does not say why an address cannot be listened on;
// cpp-httplib, at its stop, waits seconds for clients that are connected and silent. Here a stop is
// at once, which a drain with a time limit needs.
#ifndef TESSERA_SERVER_TELEMETRY_HTTP_SERVER_H_
#define TESSERA_SERVER_TELEMETRY_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::server {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // By path ("/metrics"). May block; called on the server's threads.
  using Handler = std::function<HttpResponse()>;
  using Handlers = std::map<std::string, Handler>;

  // `address`: "host:port" with a name or number; port 0 is any free one. UNAVAILABLE: it cannot be
  // listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const std::string& address,
                                                            Handlers handlers);
  // Ends all connections, at once.
  ~HttpServer();

  // With the port that it got.
  const std::string& address() const { return address_; }

 private:
  HttpServer() = default;
  void Loop();
  void Serve(int fd) const;
  HttpResponse Answer(const std::string& head) const;

  Handlers handlers_;
  std::string address_;
  runtime::UniqueFd listener_, stop_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_HTTP_SERVER_H_
