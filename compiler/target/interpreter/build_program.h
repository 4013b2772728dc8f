// Tile IR to the interpreter's internal program.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/target/interpreter/elementwise.h"
#include "compiler/target/interpreter/memory.h"
#include "compiler/target/interpreter/program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::interpreter {

// How an element of a scalar, tensor or vector type is stored.
std::optional<Kind> KindOf(mlir::Type type);

AtomicOp AtomicOpOf(tile::RmwKind kind);

// What the builder offers to those who bring operations of their own.
class ProgramBuilder {
 public:
  virtual ~ProgramBuilder() = default;
  // Where an operand lives; constants are made on demand.
  virtual SlotUse Use(mlir::Value value) = 0;
  // Storage for a result, until its last use. nullopt: failed, and said why.
  virtual std::optional<SlotUse> Define(mlir::Value value, mlir::Operation* definition) = 0;
  // The same in steps: storage for `value`, which holds it from now on; release after the last use of `value`.
  virtual std::optional<SlotUse> AllocateFor(mlir::Value value) = 0;
  virtual void SetUse(mlir::Value value, const SlotUse& use) = 0;
  virtual void Bind(mlir::Value value, const SlotUse& use, mlir::Operation* definition) = 0;
  virtual void Release(const SlotUse& use) = 0;
  virtual void ReleaseAfter(mlir::Operation* op) = 0;
  virtual bool BuildBody(mlir::Region& region, Code& code) = 0;
  virtual int PlaceIndex(mlir::Operation* op) = 0;
  // Both return false.
  virtual bool Fail(mlir::Location location, absl::string_view sentence) = 0;
  virtual bool Unknown(mlir::Operation* op) = 0;
};

struct BuildOptions {
  // Above 0: every scalar holds a value for each of that many lanes (Frame.region_lanes when it runs).
  int64_t lanes = 0;
  // Tried first on each operation; nullopt: the builder's own instructions take it.
  std::function<std::optional<bool>(mlir::Operation*, ProgramBuilder&, Code&)> build_op;
};

// Calls are expanded in place. UNIMPLEMENTED: an operation that the interpreter does not know, with its place.
absl::StatusOr<Program> BuildProgram(mlir::func::FuncOp kernel, const BuildOptions& options = {});

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_BUILD_PROGRAM_H_
