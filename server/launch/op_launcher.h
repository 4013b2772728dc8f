// Launches fused operations: contract, then a launch like any other.
#ifndef TESSERA_SERVER_LAUNCH_OP_LAUNCHER_H_
#define TESSERA_SERVER_LAUNCH_OP_LAUNCHER_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/launch/launcher.h"
#include "server/launch/op_catalog.h"

namespace tessera::server {

// Thread-safe. All must outlive it.
class OpLauncher {
 public:
  OpLauncher(const OpCatalog* catalog, ModuleTable* modules, Launcher* launcher)
      : catalog_(catalog), modules_(modules), launcher_(launcher) {}

  // As Launcher::Launch.
  void Launch(const api::LaunchOpRequest& request, LaunchWait wait, api::LaunchResponse* response,
              Launcher::Done done);
  api::ListOpsResponse List() const;

 private:
  const OpCatalog* const catalog_;
  ModuleTable* const modules_;
  Launcher* const launcher_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::string> module_ids_;  // by op, of those registered
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_OP_LAUNCHER_H_
