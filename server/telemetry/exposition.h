// What the daemon shows over HTTP: /metrics for Prometheus, /healthz, /readyz, and pages of others.
#ifndef TESSERA_SERVER_TELEMETRY_EXPOSITION_H_
#define TESSERA_SERVER_TELEMETRY_EXPOSITION_H_

#include <memory>
#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "server/telemetry/http_server.h"

namespace tessera::server {

using Collectables = std::vector<const prometheus::Collectable*>;

// In Prometheus's text format.
std::string MetricsText(const Collectables& collectables);

class Exposition {
 public:
  // `address`: "host:port", or "off". A port that is taken costs the pages, not the daemon: a
  // warning, and `address()` says "". `collectables` must outlive it.
  Exposition(const std::string& address, Collectables collectables,
             HttpServer::Handlers more_pages);

  // With the port that it got.
  const std::string& address() const { return address_; }

 private:
  std::string address_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_EXPOSITION_H_
