// @triton.autotune(prune_configs_by={...}), as far as it can be evaluated.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_PRUNE_CONFIGS_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_PRUNE_CONFIGS_H_

#include <string>
#include <vector>

#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/module_index.h"

namespace tessera::frontend {

struct PrunedConfigs {
  std::vector<size_t> kept;   // indices, in order
  bool needs_launch = false;  // what it keeps depends on a launch's arguments, which are not there
  std::string note;           // why nothing was pruned
};

// `prune`: the value of prune_configs_by. `launch`: values of a launch's arguments by name, what
// early_config_prune sees as its second argument and, if it takes any keywords, as keywords too;
// null: there is no launch. Tensors have no value. Never fails: what cannot be evaluated prunes
// nothing, and `note` says so.
PrunedConfigs PruneConfigs(const ModuleIndex& module, const Constant& prune,
                           const std::vector<Constant>& configs, const NamedConstants* launch,
                           SourceRange at);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_PRUNE_CONFIGS_H_
