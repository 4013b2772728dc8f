#include "compiler/driver/emulated_kernel.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/driver/mlir_context.h"
#include "compiler/target/nvptx/emulator/emulator.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {

struct EmulatedKernel::Impl {
  std::unique_ptr<emulator::Emulator> emulator;
};

EmulatedKernel::EmulatedKernel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmulatedKernel::~EmulatedKernel() = default;

absl::StatusOr<std::unique_ptr<EmulatedKernel>> EmulatedKernel::Load(const storage::Artifact& artifact) {
  if (!absl::StartsWith(artifact.metadata().target(), "emulated:"))
    return absl::InvalidArgumentError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its target is '", artifact.metadata().target(),
                                                   "', not an emulated GPU"));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  LoadTileDialects(context);
  context.loadDialect<simt::SimtDialect, mlir::vector::VectorDialect, mlir::ub::UBDialect>();
  MlirErrors errors(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(artifact.code(), &context);
  if (!module)
    return absl::DataLossError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its code does not parse: ", errors.Text()));
  auto emulator = emulator::Emulator::Create(*module, artifact.metadata().entry_symbol());
  if (!emulator.ok()) return emulator.status();
  if ((*emulator)->parameter_count() != size_t(artifact.metadata().parameters_size()))
    return absl::DataLossError(absl::StrCat("loading '", artifact.metadata().kernel(), "': its code has ", (*emulator)->parameter_count(),
                                            " parameters, its metadata ", artifact.metadata().parameters_size()));
  auto impl = std::make_unique<Impl>();
  impl->emulator = *std::move(emulator);
  return std::unique_ptr<EmulatedKernel>(new EmulatedKernel(std::move(impl)));
}

absl::Status EmulatedKernel::Run(const uint64_t* params, const uint32_t grid[3], const InterpretOptions& options) const {
  return impl_->emulator->Run(params, grid, options);
}

}  // namespace tessera::compiler
