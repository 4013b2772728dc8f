// The life of a daemon: starts its parts, serves, drains.
//
// Knows interfaces only; wiring.cc, or a test, supplies what stands behind them.
#ifndef TESSERA_SERVER_MAIN_DAEMON_H_
#define TESSERA_SERVER_MAIN_DAEMON_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/store/cache_store.h"
#include "proto/tessera/v1/admin.pb.h"
#include "server/compile/compile_backend.h"
#include "server/config/config.h"
#include "server/device/device_table.h"
#include "server/launch/op_catalog.h"

namespace tessera::server {

struct DaemonParts {
  std::string version, compiler_build;
  // Runs beside the rest of the start-up; its error ends the start.
  std::function<absl::StatusOr<std::unique_ptr<cache::CacheStore>>()> open_store;
  std::unique_ptr<CompileBackend> backend;
  std::unique_ptr<DeviceTable> devices;  // the first is the default one
  std::unique_ptr<OpCatalog> ops;
};

class Daemon {
 public:
  // Returns when clients are served; warm-up goes on behind. ALREADY_EXISTS: another daemon listens
  // there. FAILED_PRECONDITION: the state directory is in use.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config, DaemonParts parts);
  // Drain, if it was not called.
  ~Daemon();

  // Ends it: no new launches, launches in flight may finish within config.drain_limit, everything
  // is flushed.
  void Drain();

  // Reads the warm-up manifest again and warms up what is new in it; returns at once.
  void Reload();

  tessera::v1::GetStatusResponse Status();

 private:
  struct Running;
  explicit Daemon(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_DAEMON_H_
