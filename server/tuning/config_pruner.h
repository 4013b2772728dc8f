// Which configurations of a kernel are worth a look for a launch: prune_configs_by of
// @triton.autotune, evaluated by a compiler worker.
#ifndef TESSERA_SERVER_TUNING_CONFIG_PRUNER_H_
#define TESSERA_SERVER_TUNING_CONFIG_PRUNER_H_

#include <vector>

#include "proto/tessera/v1/launch.pb.h"
#include "server/compile/compile_backend.h"
#include "server/launch/kernel_model.h"
#include "server/status/error_detail.h"

namespace tessera::server {

// Thread-safe. `backend` must outlive it.
class ConfigPruner {
 public:
  explicit ConfigPruner(CompileBackend* backend) : backend_(backend) {}

  // Whether each configuration of the kernel is left. All are where nothing is pruned by launch, or
  // where that cannot be evaluated (which is logged). Blocks, if a worker is asked.
  std::vector<bool> Kept(const KernelModel& kernel, const api::LaunchRequest& launch) const;

 private:
  CompileBackend* const backend_;
};

// Values of a launch's arguments, as far as Python code can see them: no tensors.
std::vector<storage::NamedConstant> LaunchValues(const KernelModel& kernel,
                                                 const api::LaunchRequest& launch);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_CONFIG_PRUNER_H_
