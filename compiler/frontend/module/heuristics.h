// Text for @triton.heuristics functions. Private to this folder.
#ifndef TESSERA_COMPILER_FRONTEND_MODULE_HEURISTICS_H_
#define TESSERA_COMPILER_FRONTEND_MODULE_HEURISTICS_H_

#include <string>

#include "compiler/frontend/module/constant.h"
#include "compiler/frontend/module/module_index.h"

namespace tessera::frontend {

// What EvaluateHeuristic takes: the body of the lambda over `args`, names of constants replaced by their values, calls of host
// functions that only return an expression replaced by it, preceded by the other host functions it calls. `*missing` names what could not be resolved, else it stays empty.
std::string HeuristicText(const ModuleIndex& module, const Constant& function, std::string* missing);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_MODULE_HEURISTICS_H_
