#include "compiler/target/nvptx/ptx_compiler.h"

#include <chrono>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "compiler/target/llvm_errors.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

// TargetSelect.h declares these for the targets that LLVM was built with.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tessera::compiler {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Sets an option of LLVM that has no other interface.
void SetOption(llvm::StringRef name, llvm::StringRef value) {
  auto& options = llvm::cl::getRegisteredOptions();
  auto it = options.find(name);
  if (it != options.end()) it->second->addOccurrence(1, name, value);
}

void InitializeNvptx() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    SetOption("nvptx-short-ptr", "true");  // shared memory has 32-bit addresses
  });
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> CreateTargetMachine(const PtxOptions& options) {
  InitializeNvptx();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget("nvptx64-nvidia-cuda", error);
  if (!target) return absl::InternalError(absl::StrCat("code generation for NVIDIA GPUs: ", error));
  llvm::TargetOptions target_options;
  target_options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // where operations carry the flag "contract"
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine("nvptx64-nvidia-cuda", options.arch.llvm_cpu, "+ptx84", target_options, std::nullopt,
                                                                           std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) return absl::InternalError(absl::StrCat("no target machine for ", options.arch.name));
  return machine;
}

// Tile IR was simplified, and simt IR is straight: what is left for LLVM is arithmetic, a little control flow, and what
// inlining brings. Its whole O3 pipeline finds hardly more and takes several times as long.
absl::Status Optimize(llvm::Module& module, const PtxOptions& options, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  std::string pipeline;
  if (options.has_library) pipeline = "always-inline,function(nvvm-reflect,simplifycfg,sroa),globaldce,";
  pipeline += "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,simplifycfg,adce)";
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, pipeline))
    return absl::InternalError(absl::StrCat("pipeline '", pipeline, "': ", llvm::toString(std::move(error))));
  passes.run(module, modules);
  return absl::OkStatus();
}

// LLVM 19 knows no GPU later than sm_90a; its code for sm_90 is right on them.
void Retarget(const GpuArch& arch, std::string* ptx) {
  if (arch.ptx_target.empty()) return;
  auto replace_line = [&](const std::string& directive, const std::string& value) {
    const size_t at = ptx->find("\n" + directive + " ");
    if (at == std::string::npos) return;
    const size_t end = ptx->find('\n', at + 1);
    ptx->replace(at + 1, end - at - 1, directive + " " + value);
  };
  replace_line(".version", arch.ptx_version);
  replace_line(".target", arch.ptx_target);
}

// Comments around inline assembly are a fifth of the text.
void DropComments(std::string* ptx) {
  std::string kept;
  kept.reserve(ptx->size());
  for (size_t line = 0; line < ptx->size();) {
    size_t end = ptx->find('\n', line);
    end = end == std::string::npos ? ptx->size() : end + 1;
    const absl::string_view text(ptx->data() + line, end - line);
    if (!absl::StartsWith(text, "\t// begin inline asm") && !absl::StartsWith(text, "\t// end inline asm")) kept.append(text.data(), text.size());
    line = end;
  }
  *ptx = std::move(kept);
}

}  // namespace

absl::StatusOr<Ptx> CompilePtx(llvm::Module& module, const PtxOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, CreateTargetMachine(options));
  if (module.getDataLayout() != machine->createDataLayout())
    return absl::InternalError(absl::StrCat("the module's data layout is not the GPU's, which is ", machine->createDataLayout().getStringRepresentation()));
  std::string errors;
  module.getContext().setDiagnosticHandler(std::make_unique<LlvmErrorCollector>(&errors));
  Ptx result;
  Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(Optimize(module, options, machine.get()));
  result.optimize_seconds = SecondsSince(start);
  if (options.want_llvm) {
    llvm::raw_string_ostream stream(result.llvm);
    module.print(stream, nullptr);
  }
  start = Clock::now();
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, /*DisableVerify=*/true))
    return absl::InternalError("LLVM cannot emit PTX");
  passes.run(module);
  result.text.assign(buffer.begin(), buffer.end());
  DropComments(&result.text);
  Retarget(options.arch, &result.text);
  result.codegen_seconds = SecondsSince(start);
  if (!errors.empty()) return absl::InternalError(absl::StrCat("generating code for ", options.arch.name, ": ", errors));
  return result;
}

}  // namespace tessera::compiler
