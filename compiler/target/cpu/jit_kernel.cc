#include "compiler/target/cpu/jit_kernel.h"

#include <cstdlib>

#include "base/status_macros.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

absl::Status ToStatus(llvm::Error error) {
  if (!error) return absl::OkStatus();
  return absl::InternalError(llvm::toString(std::move(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JitKernel>> JitKernel::Compile(const std::string& text, const CpuTargetOptions& options) {
  mlir::DialectRegistry registry;
  RegisterCpuTargetDialects(&registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) return absl::InvalidArgumentError("the text of the kernel does not parse");

  auto kernel = std::unique_ptr<JitKernel>(new JitKernel());
  ASSIGN_OR_RETURN(kernel->object_, CompileForCpu(*module, options));
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) return ToStatus(jit.takeError());
  kernel->jit_ = std::move(*jit);
  auto symbols = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(kernel->jit_->getDataLayout().getGlobalPrefix());
  if (!symbols) return ToStatus(symbols.takeError());
  kernel->jit_->getMainJITDylib().addGenerator(std::move(*symbols));
  RETURN_IF_ERROR(ToStatus(kernel->jit_->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(kernel->object_.object, "kernel"))));
  auto symbol = kernel->jit_->lookup(kernel->object_.entry_symbol);
  if (!symbol) return ToStatus(symbol.takeError());
  kernel->entry_ = symbol->toPtr<KernelEntry>();
  if (kernel->object_.scratch_bytes > 0)
    kernel->scratch_ = std::aligned_alloc(64, (kernel->object_.scratch_bytes + 63) / 64 * 64);
  kernel->context_.scratch = kernel->scratch_;
  return kernel;
}

JitKernel::~JitKernel() { std::free(scratch_); }

absl::Status JitKernel::Run(const std::vector<uint64_t>& params, uint32_t x, uint32_t y, uint32_t z) {
  uint32_t grid[3] = {x, y, z};
  context_.failed = 0;
  entry_(params.data(), grid, 0, uint64_t{x} * y * z, &context_);
  if (context_.failed) return absl::InternalError(context_.failure_message);
  return absl::OkStatus();
}

}  // namespace tessera::compiler
