#include "compiler/driver/interpreted_kernel.h"

#include "absl/strings/str_cat.h"
#include "compiler/driver/mlir_context.h"
#include "compiler/target/interpreter/interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {

struct InterpretedKernel::Impl {
  std::unique_ptr<interpreter::Interpreter> interpreter;
};

InterpretedKernel::InterpretedKernel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
InterpretedKernel::~InterpretedKernel() = default;

absl::StatusOr<std::unique_ptr<InterpretedKernel>> InterpretedKernel::Load(const storage::Artifact& artifact) {
  if (artifact.metadata().target() != "interpreter")
    return absl::InvalidArgumentError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its target is '",
                                                   artifact.metadata().target(), "', not the interpreter"));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  LoadTileDialects(context);
  MlirErrors errors(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(artifact.code(), &context);
  if (!module)
    return absl::DataLossError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its code does not parse: ", errors.Text()));
  auto interpreter = interpreter::Interpreter::Create(*module, artifact.metadata().entry_symbol());
  if (!interpreter.ok()) return interpreter.status();
  if ((*interpreter)->parameter_count() != size_t(artifact.metadata().parameters_size()))
    return absl::DataLossError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its code has ", (*interpreter)->parameter_count(),
                                            " parameters, its metadata ", artifact.metadata().parameters_size()));
  auto impl = std::make_unique<Impl>();
  impl->interpreter = *std::move(interpreter);
  return std::unique_ptr<InterpretedKernel>(new InterpretedKernel(std::move(impl)));
}

absl::Status InterpretedKernel::Run(const uint64_t* params, const uint32_t grid[3], const InterpretOptions& options) const {
  return impl_->interpreter->Run(params, grid, options);
}

}  // namespace tessera::compiler
