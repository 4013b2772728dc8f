#include "compiler/target/cpu/object_compiler.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "compiler/target/llvm_errors.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCParser/MCAsmParser.h"
#include "llvm/MC/MCParser/MCTargetAsmParser.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

namespace tessera::compiler {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// LLVM takes StringRef, abseil its own view.
llvm::StringRef Ref(absl::string_view text) { return {text.data(), text.size()}; }

void InitializeLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();  // of inline assembly
  });
}

const llvm::Target* NativeTarget(std::string* error) {
  InitializeLlvm();
  return llvm::TargetRegistry::lookupTarget(llvm::sys::getProcessTriple(), *error);
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> CreateTargetMachine(const ObjectOptions& options) {
  std::string error;
  const llvm::Target* target = NativeTarget(&error);
  if (target == nullptr) return absl::InternalError(absl::StrCat("code generation for the host: ", error));
  llvm::TargetOptions target_options;
  // Standard still fuses what the module itself asks for (llvm.fmuladd, the contract flag).
  target_options.AllowFPOpFusion = options.contract_fp ? llvm::FPOpFusion::Fast : llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      llvm::sys::getProcessTriple(), options.cpu.name, options.cpu.features, target_options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
  if (machine == nullptr) return absl::InternalError(absl::StrCat("no target machine for ", options.cpu.name));
  return machine;
}

absl::StatusOr<std::unique_ptr<llvm::Module>> Translate(mlir::ModuleOp module, llvm::LLVMContext& context) {
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic& diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) absl::StrAppend(&errors, diagnostic.str(), "\n");
    return mlir::success();
  });
  std::unique_ptr<llvm::Module> result = mlir::translateModuleToLLVMIR(module, context, "kernel");
  if (result == nullptr) return absl::InvalidArgumentError(absl::StrCat("translating to LLVM IR: ", errors));
  return result;
}

void SetTargetAttributes(llvm::Module& module, const CpuDescription& cpu) {
  const std::string bits = std::to_string(cpu.VectorBits());
  for (llvm::Function& function : module) {
    if (function.isIntrinsic()) continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", cpu.name);
    function.addFnAttr("target-features", cpu.features);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    function.setDSOLocal(true);
  }
}

void Optimize(llvm::Module& module, llvm::TargetMachine* machine) {
  llvm::PipelineTuningOptions tuning;
  // The code generator chose vectors and unrolling; what is left scalar is scalar for a reason, and SLP only costs time.
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

// Changes `module` on the way.
absl::StatusOr<std::string> Emit(llvm::Module& module, llvm::TargetMachine* machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    return absl::InternalError("this target cannot emit the file type");
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

absl::StatusOr<std::unique_ptr<llvm::Module>> ParseLlvm(const std::string& text, llvm::LLVMContext& context) {
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, error, context);
  if (module == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage 'llvm', line ", error.getLineNo(), ": ", error.getMessage().str()));
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(*module, &stream)) return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage 'llvm': ", broken));
  return module;
}

absl::StatusOr<std::string> Assemble(const std::string& text, const ObjectOptions& options, const llvm::TargetMachine& machine) {
  const llvm::Target& target = machine.getTarget();
  const llvm::Triple& triple = machine.getTargetTriple();
  llvm::SourceMgr source;
  std::string errors;
  source.setDiagHandler([](const llvm::SMDiagnostic& diagnostic, void* errors) {
    if (diagnostic.getKind() == llvm::SourceMgr::DK_Error)
      absl::StrAppend(static_cast<std::string*>(errors), "line ", diagnostic.getLineNo(), ": ", diagnostic.getMessage().str(), "\n");
  }, &errors);
  source.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text), llvm::SMLoc());
  llvm::MCTargetOptions mc_options;
  std::unique_ptr<llvm::MCRegisterInfo> registers(target.createMCRegInfo(triple.str()));
  std::unique_ptr<llvm::MCAsmInfo> syntax(target.createMCAsmInfo(*registers, triple.str(), mc_options));
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target.createMCSubtargetInfo(triple.str(), options.cpu.name, options.cpu.features));
  std::unique_ptr<llvm::MCInstrInfo> instructions(target.createMCInstrInfo());
  llvm::MCContext context(triple, syntax.get(), registers.get(), subtarget.get(), &source, &mc_options);
  std::unique_ptr<llvm::MCObjectFileInfo> sections(target.createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  std::unique_ptr<llvm::MCAsmBackend> backend(target.createMCAsmBackend(*subtarget, *registers, mc_options));
  std::unique_ptr<llvm::MCCodeEmitter> emitter(target.createMCCodeEmitter(*instructions, context));
  std::unique_ptr<llvm::MCObjectWriter> writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCStreamer> streamer(
      target.createMCObjectStreamer(triple, context, std::move(backend), std::move(writer), std::move(emitter), *subtarget));
  std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(source, context, *streamer, *syntax));
  std::unique_ptr<llvm::MCTargetAsmParser> target_parser(target.createMCAsmParser(*subtarget, *parser, *instructions, mc_options));
  parser->setTargetParser(*target_parser);
  if (parser->Run(/*NoInitialTextSection=*/false) || !errors.empty())
    return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage 'asm': ", errors));
  return std::string(buffer.begin(), buffer.end());
}

}  // namespace

bool CpuDescription::Has(absl::string_view feature) const {
  for (absl::string_view item : absl::StrSplit(features, ','))
    if (item.size() == feature.size() + 1 && item[0] == '+' && item.substr(1) == feature) return true;
  return false;
}

int CpuDescription::VectorBits() const {
  if (Has("avx512f")) return 512;
  return Has("avx2") ? 256 : 128;
}

CpuDescription DetectHostCpu() {
  CpuDescription cpu;
  cpu.name = llvm::sys::getHostCPUName().str();
  const auto features = llvm::sys::getHostCPUFeatures();
  std::vector<std::pair<std::string, bool>> sorted;
  for (const auto& feature : features) sorted.emplace_back(feature.getKey().str(), feature.getValue());
  std::sort(sorted.begin(), sorted.end());
  cpu.features = absl::StrJoin(sorted, ",", [](std::string* out, const std::pair<std::string, bool>& feature) {
    absl::StrAppend(out, feature.second ? "+" : "-", feature.first);
  });
  return cpu;
}

absl::StatusOr<CpuDescription> ParseCpuDescription(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos || colon == 0)
    return absl::InvalidArgumentError(absl::StrCat("CPU description '", text, "' is not of the form name:+feature,-feature"));
  CpuDescription cpu{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
  std::string error;
  const llvm::Target* target = NativeTarget(&error);
  if (target == nullptr) return absl::InternalError(absl::StrCat("code generation for the host: ", error));
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(llvm::sys::getProcessTriple(), "", ""));
  if (!subtarget->isCPUStringValid(cpu.name))
    return absl::InvalidArgumentError(absl::StrCat("unknown CPU '", cpu.name, "'"));
  if (cpu.features.empty()) return cpu;
  for (absl::string_view feature : absl::StrSplit(cpu.features, ',')) {
    const bool known = feature.size() > 1 && (feature[0] == '+' || feature[0] == '-') &&
                       llvm::any_of(subtarget->getAllProcessorFeatures(), [&](const llvm::SubtargetFeatureKV& entry) {
                         return llvm::StringRef(entry.Key) == Ref(feature.substr(1));
                       });
    if (!known) return absl::InvalidArgumentError(absl::StrCat("unknown CPU feature '", feature, "'"));
  }
  return cpu;
}

void RegisterObjectCompilerDialects(mlir::DialectRegistry* registry) {
  mlir::registerBuiltinDialectTranslation(*registry);
  mlir::registerLLVMDialectTranslation(*registry);
}

absl::StatusOr<CompiledObject> CompileObject(mlir::ModuleOp module, const ObjectOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, CreateTargetMachine(options));
  llvm::LLVMContext context;
  std::string errors;
  context.setDiagnosticHandler(std::make_unique<LlvmErrorCollector>(&errors));
  CompiledObject result;
  Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> llvm_module, Translate(module, context));
  llvm_module->setDataLayout(machine->createDataLayout());
  llvm_module->setTargetTriple(machine->getTargetTriple().str());
  SetTargetAttributes(*llvm_module, options.cpu);
  Optimize(*llvm_module, machine.get());
  if (!options.replace_llvm.empty()) {
    ASSIGN_OR_RETURN(llvm_module, ParseLlvm(options.replace_llvm, context));
    llvm_module->setDataLayout(machine->createDataLayout());
    llvm_module->setTargetTriple(machine->getTargetTriple().str());
  }
  result.optimize_seconds = SecondsSince(start);

  if (options.want_llvm) {
    llvm::raw_string_ostream stream(result.llvm);
    llvm_module->print(stream, nullptr);
  }
  if (options.want_asm) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*llvm_module);
    ASSIGN_OR_RETURN(result.assembly, Emit(*copy, machine.get(), llvm::CodeGenFileType::AssemblyFile));
  }
  start = Clock::now();
  if (options.replace_asm.empty()) {
    ASSIGN_OR_RETURN(result.object, Emit(*llvm_module, machine.get(), llvm::CodeGenFileType::ObjectFile));
  } else {
    ASSIGN_OR_RETURN(result.object, Assemble(options.replace_asm, options, *machine));
    if (options.want_asm) result.assembly = options.replace_asm;
  }
  result.codegen_seconds = SecondsSince(start);
  if (!errors.empty()) return absl::InternalError(absl::StrCat("generating code for ", options.cpu.name, ": ", errors));
  return result;
}

}  // namespace tessera::compiler
