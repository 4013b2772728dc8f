// Serves the metrics over HTTP at /metrics.
#ifndef TESSERA_SERVER_TELEMETRY_EXPOSITION_H_
#define TESSERA_SERVER_TELEMETRY_EXPOSITION_H_

#include <memory>
#include <string>

#include "server/telemetry/metrics.h"

namespace tessera::server {

class Exposition {
 public:
  // `address`: "host:port", or "off". A port that is taken costs the metrics, not the daemon: a
  // warning, and `address()` says "".
  Exposition(const std::string& address, const Metrics& metrics);
  ~Exposition();

  const std::string& address() const { return address_; }

 private:
  struct Server;
  std::unique_ptr<Server> server_;
  std::string address_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_EXPOSITION_H_
