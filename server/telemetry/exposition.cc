#include "server/telemetry/exposition.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "prometheus/exposer.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

struct Exposition::Server {
  explicit Server(const std::string& address) : exposer(address, 1) {}
  prometheus::Exposer exposer;
};

namespace {

// Connects to "host:port" and hangs up.
void Knock(const std::string& address) {
  size_t colon = address.rfind(':');
  if (colon == std::string::npos) return;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0)
    return;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    (void)!connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

Exposition::Exposition(const std::string& address, const Metrics& metrics) {
  if (address == "off" || address.empty()) return;
  // The library reports a taken port by an exception; it ends here.
  try {
    server_ = std::make_unique<Server>(address);
    server_->exposer.RegisterCollectable(metrics.registry());
    address_ = address;
    spdlog::info("metrics at http://{}/metrics", address);
  } catch (const std::exception& error) {
    server_.reset();
    spdlog::warn(
        "no metrics: listening on {} failed ({}); set metrics to another address or to off",
        address, error.what());
  }
}

// The library's listener looks for a stop only when its poll returns, every two seconds or when
// somebody connects; so somebody connects.
Exposition::~Exposition() {
  if (server_ == nullptr) return;
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server_.reset();
    stopped = true;
  });
  while (!stopped) {
    Knock(address_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stopper.join();
}

}  // namespace tessera::server
