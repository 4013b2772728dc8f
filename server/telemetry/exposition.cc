#include "server/telemetry/exposition.h"

#include <exception>

#include "prometheus/exposer.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

struct Exposition::Server {
  explicit Server(const std::string& address) : exposer(address, 1) {}
  prometheus::Exposer exposer;
};

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
    spdlog::warn("no metrics: listening on {} failed ({}); set metrics to another address or to off", address, error.what());
  }
}

Exposition::~Exposition() = default;

}  // namespace tessera::server
