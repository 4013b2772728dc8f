// What a module holds, in the form that is stored and sent.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_DESCRIBE_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_DESCRIBE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/frontend/module/evaluate.h"
#include "compiler/frontend/module/module_index.h"
#include "proto/storage/modules.pb.h"

namespace tessera::frontend {

// Lists every jit function of the module. Configurations, defaults and heuristics that cannot be evaluated are left
// out and named in `notes`; nothing here is an error.
storage::ModuleDescription Describe(const ModuleIndex& module);

// The configurations of a kernel that prune_configs_by leaves for a launch with these values of arguments, by their index in
// KernelDescription.configs; for kernels whose description says prunes_by_launch. `note`: why nothing was pruned. nullopt:
// there is no such kernel.
std::optional<std::vector<size_t>> ConfigsForLaunch(const ModuleIndex& module, absl::string_view kernel, const NamedConstants& launch,
                                                    std::string* note);

// Canonical text of `function`, of everything it calls, and of the constants they read. See KernelDescription.closure.
std::string ClosureText(const ModuleIndex& module, const Function& function);

// Evaluates KernelDescription.Heuristic.expression: `arguments` are what `args[...]` sees (pointers as any
// non-None value). nullopt: `error` says why, with the place inside the expression.
std::optional<Constant> EvaluateHeuristic(absl::string_view expression, const NamedConstants& arguments,
                                          std::string* error);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_DESCRIBE_H_
