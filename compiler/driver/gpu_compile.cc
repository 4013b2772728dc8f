#include "compiler/driver/gpu_compile.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "compiler/dialect/simt/simt.h"
#include "compiler/driver/job_options.h"
#include "compiler/driver/mlir_context.h"
#include "compiler/pipeline/nvptx_pipeline.h"
#include "compiler/target/nvptx/assembler.h"
#include "compiler/target/nvptx/nvptx_target.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {
namespace {

constexpr absl::string_view kEmulated = "emulated:";

absl::StatusOr<GpuArch> ArchOf(absl::string_view target) { return ParseGpuArch(absl::StripPrefix(target, kEmulated)); }

std::string TextOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false).useLocalScope());
  return text + "\n";
}

absl::Status Run(mlir::ModuleOp module, llvm::function_ref<void(mlir::OpPassManager*)> add) {
  MlirErrors errors(*module.getContext());
  mlir::PassManager passes(module.getContext());
  passes.enableVerifier(false);  // each pass is tested with it; here it would cost a fifth of the time
  add(&passes);
  if (mlir::succeeded(passes.run(module))) return absl::OkStatus();
  if (absl::StrContains(errors.Text(), "not supported on GPUs")) return absl::UnimplementedError(errors.Text());
  if (absl::StrContains(errors.Text(), "shared memory")) return absl::ResourceExhaustedError(errors.Text());
  return absl::InternalError(absl::StrCat("generating code for the GPU: ", errors.Text()));
}

// Replaces `module`'s body by the text of an edited stage.
absl::Status ReplaceModule(const std::string& stage, const std::string& text, mlir::ModuleOp module) {
  MlirErrors errors(*module.getContext());
  auto replacement = mlir::parseSourceString<mlir::ModuleOp>(text, module.getContext(), stage);
  if (!replacement) return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage '", stage, "' does not parse: ", errors.Text()));
  module.getBody()->getOperations().clear();
  module.getBody()->getOperations().splice(module.getBody()->end(), replacement->getBody()->getOperations());
  return absl::OkStatus();
}

}  // namespace

bool IsGpuTarget(absl::string_view target) { return absl::StartsWith(absl::StripPrefix(target, kEmulated), "sm_"); }

absl::Status CheckGpuJob(const storage::CompileJob& job) {
  RETURN_IF_ERROR(ArchOf(job.target()).status());
  const uint32_t warps = job.options().num_warps();
  if (warps != 0 && ((warps & (warps - 1)) != 0 || warps > 32))
    return absl::InvalidArgumentError(absl::StrCat("num_warps=", warps, ": a block has a power of two of warps, up to 32"));
  if (job.options().num_ctas() > 1)
    return absl::UnimplementedError(absl::StrCat("num_ctas=", job.options().num_ctas(), ": clusters of blocks are not supported yet; use num_ctas=1"));
  if (job.options().maxnreg() > 255)
    return absl::InvalidArgumentError(absl::StrCat("maxnreg=", job.options().maxnreg(), ": a thread has at most 255 registers"));
  return absl::OkStatus();
}

void RegisterGpuDialects(mlir::DialectRegistry* registry) {
  registry->insert<simt::SimtDialect, mlir::vector::VectorDialect, mlir::ub::UBDialect>();
}

absl::Status CompileForGpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact,
                           std::vector<std::pair<std::string, double>>* stage_seconds) {
  ASSIGN_OR_RETURN(GpuArch arch, ArchOf(job.target()));
  GpuOptions options;
  if (job.options().num_warps() != 0) options.num_warps = job.options().num_warps();
  if (job.options().num_stages() != 0) options.num_stages = job.options().num_stages();
  options.sm = arch.sm;
  options.wgmma = arch.wgmma;
  options.guarded = OptionIsOn(job.options(), "guarded", false);
  options.shared_bytes = arch.block_shared_bytes;
  auto wants = [&](const char* stage) { return std::count(job.emit().begin(), job.emit().end(), stage) > 0; };
  auto last = std::chrono::steady_clock::now();
  auto finish = [&](const char* stage) {
    const auto now = std::chrono::steady_clock::now();
    stage_seconds->push_back({stage, std::chrono::duration<double>(now - last).count()});
    last = now;
  };

  module.getContext()->loadAllAvailableDialects();
  RETURN_IF_ERROR(Run(module, [&](mlir::OpPassManager* passes) { AddGpuTilePasses(passes, options); }));
  finish("tile_gpu");
  if (wants("tile_gpu")) (*artifact->mutable_stages())["tile_gpu"] = TextOf(module);
  if (wants("layout")) (*artifact->mutable_stages())["layout"] = TextOf(module);
  RETURN_IF_ERROR(Run(module, [&](mlir::OpPassManager* passes) { AddGpuSimtPasses(passes, options); }));
  if (auto it = job.override_stages().find("simt"); it != job.override_stages().end()) RETURN_IF_ERROR(ReplaceModule("simt", it->second, module));
  finish("simt");
  if (wants("simt")) (*artifact->mutable_stages())["simt"] = TextOf(module);
  storage::KernelMetadata* metadata = artifact->mutable_metadata();
  if (absl::StartsWith(job.target(), kEmulated)) {
    for (auto function : module.getOps<mlir::func::FuncOp>())
      if (function->hasAttr("simt.kernel")) metadata->set_entry_symbol(function.getName().str());
    artifact->set_code(TextOf(module));
    return absl::OkStatus();
  }

  NvptxOptions target;
  target.arch = arch;
  target.fp_fusion = OptionIsOn(job.options(), "enable_fp_fusion", true);
  target.max_registers = job.options().maxnreg();
  target.emit.assign(job.emit().begin(), job.emit().end());
  auto ptx = job.override_stages().find("ptx");
  target.assemble = ptx == job.override_stages().end();
  ASSIGN_OR_RETURN(GpuCode code, CompileSimt(module, target));
  if (!target.assemble) {
    ASSIGN_OR_RETURN(Cubin cubin, Assemble(ptx->second, code.entry_symbol, arch));
    code.cubin = std::move(cubin.code);
    code.registers = cubin.registers;
    code.spill_bytes = cubin.spill_bytes;
    code.local_bytes = cubin.local_bytes;
    if (wants("ptx")) code.stages["ptx"] = ptx->second;
  }
  for (auto& stage : code.stage_seconds) stage_seconds->push_back(stage);
  for (auto& [stage, text] : code.stages) (*artifact->mutable_stages())[stage] = std::move(text);
  if (wants("sass")) {
    absl::StatusOr<std::string> sass = Disassemble(code.cubin);
    if (sass.ok()) (*artifact->mutable_stages())["sass"] = *std::move(sass);
    else metadata->add_notes(absl::StrCat("stage 'sass' is left out: ", sass.status().message()));
  }
  artifact->set_code(std::move(code.cubin));
  metadata->set_entry_symbol(code.entry_symbol);
  metadata->set_threads(code.threads);
  metadata->set_shared_bytes(code.shared_bytes);
  metadata->set_registers(code.registers);
  metadata->set_spills(code.spill_bytes);
  metadata->set_local_bytes(code.local_bytes);
  metadata->set_assembler(code.assembler);
  for (const std::string& warning : code.warnings) metadata->add_notes(absl::StrCat(code.assembler, ": ", warning));
  for (const ReportMessage& message : code.messages) {
    auto* stored = metadata->add_report_messages();
    stored->set_text(message.text);
    stored->set_kind(message.kind);
    stored->set_where(message.where);
    stored->set_operand(message.operand);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
