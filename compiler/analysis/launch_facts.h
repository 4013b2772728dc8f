// The index arithmetic of a kernel's memory accesses as data, for checks that need a launch's values.
//
// What depends on memory, on floats or on a while loop is left out, and with it the accesses that need it.
#ifndef TESSERA_COMPILER_ANALYSIS_LAUNCH_FACTS_H_
#define TESSERA_COMPILER_ANALYSIS_LAUNCH_FACTS_H_

#include <functional>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "proto/storage/launch_facts.pb.h"

namespace tessera::compiler {

using PlaceOf = std::function<storage::SourcePlace(mlir::Location)>;

// Of tile IR before any target's passes. Bounded in size: a kernel with very many accesses gives those that come first.
storage::LaunchFacts CollectLaunchFacts(mlir::func::FuncOp kernel, const PlaceOf& place);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LAUNCH_FACTS_H_
