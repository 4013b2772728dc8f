// Mistakes that tile IR shows without a launch's values.
//
// Each check stays silent where it cannot be sure: what data is like, whether a block has a tail at all.
#ifndef TESSERA_COMPILER_ANALYSIS_LINTS_H_
#define TESSERA_COMPILER_ANALYSIS_LINTS_H_

#include <string>
#include <vector>

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

struct Lint {
  mlir::Location at;
  std::string message;
};

// Masked-off lanes that take part in a reduction with a value that is not neutral in it: `other=0` before a maximum.
void FindInactiveValues(mlir::func::FuncOp kernel, std::vector<Lint>* lints);

// Long sums and products of matrices whose accumulator is fp16 or bf16.
void FindNarrowAccumulators(mlir::func::FuncOp kernel, std::vector<Lint>* lints);

// All of them, each place once for each message, in source order.
std::vector<Lint> FindLints(mlir::func::FuncOp kernel);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LINTS_H_
