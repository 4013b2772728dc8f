// Compiles textual tile IR for the interpreter, for tests.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_TEST_KERNEL_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_TEST_KERNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "compiler/dialect/tile/tile.h"
#include "compiler/target/interpreter/interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace tessera::interpreter {

inline absl::StatusOr<std::unique_ptr<Interpreter>> CompileText(const std::string& text) {
  static auto* context = [] {
    auto* c = new mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED);
    c->loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                   mlir::func::FuncDialect>();
    return c;
  }();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context);
  if (!module) return absl::InvalidArgumentError("the text does not parse");
  return Interpreter::Create(*module);
}

// Parameters of one launch: pointers and scalars in order, and the extents of the pointers.
class Launch {
 public:
  template <typename T>
  Launch& Buffer(std::vector<T>& data, const std::string& name = "buffer", bool read_only = false) {
    options.extents.push_back({reinterpret_cast<uint64_t>(data.data()), data.size() * sizeof(T), read_only, name});
    params.push_back(reinterpret_cast<uint64_t>(data.data()));
    return *this;
  }
  Launch& Scalar(uint64_t bits) {
    params.push_back(bits);
    return *this;
  }
  Launch& Grid(uint32_t x, uint32_t y = 1, uint32_t z = 1) {
    grid[0] = x, grid[1] = y, grid[2] = z;
    return *this;
  }
  absl::Status Run(const Interpreter& kernel) const { return kernel.Run(params.data(), grid, options); }

  compiler::InterpretOptions options;
  std::vector<uint64_t> params;
  uint32_t grid[3] = {1, 1, 1};
};

// Compiles and runs.
inline absl::Status RunText(const std::string& text, const Launch& launch) {
  auto kernel = CompileText(text);
  if (!kernel.ok()) return kernel.status();
  return launch.Run(**kernel);
}

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_TEST_KERNEL_H_
