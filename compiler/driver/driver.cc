#include "compiler/driver/driver.h"

#include <chrono>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/analysis/launch_facts.h"
#include "compiler/analysis/lints.h"
#include "compiler/driver/gpu_compile.h"
#include "compiler/driver/job_options.h"
#include "compiler/driver/mlir_context.h"
#include "compiler/frontend/check/emit_tile.h"
#include "compiler/frontend/diagnostics/diagnostics.h"
#include "compiler/frontend/module/describe.h"
#include "compiler/frontend/module/module_index.h"
#include "compiler/frontend/parse/parser.h"
#include "compiler/target/cpu/cpu_target.h"
#include "compiler/target/cpu/object_compiler.h"
#include "compiler/target/interpreter/interpreter.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {
namespace {

constexpr uint32_t kArtifactFormat = 1;
// A context keeps every type and constant it has seen: a long-lived worker starts a new one now and then.
constexpr int kCompilesPerContext = 200;

const char* SeverityName(frontend::Severity severity) {
  switch (severity) {
    case frontend::Severity::kError: return "error";
    case frontend::Severity::kWarning: return "warning";
    case frontend::Severity::kNote: return "note";
  }
  return "error";
}

storage::Diagnostic ToStorage(const frontend::Diagnostic& diagnostic, const std::vector<frontend::File>& files) {
  storage::Diagnostic result;
  result.set_severity(SeverityName(diagnostic.severity));
  const int file = diagnostic.range.file;
  if (file >= 0 && file < int(files.size())) result.set_file(files[file].path);
  result.set_line(diagnostic.range.line);
  result.set_column(diagnostic.range.column);
  result.set_message(diagnostic.message);
  result.set_source_line(frontend::SourceLine(diagnostic.range, files));
  return result;
}

std::string StripLineEnd(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The first error, rendered. `otherwise` where there is none.
absl::Status ErrorFrom(const frontend::Diagnostics& diagnostics, const std::vector<frontend::File>& files, absl::string_view otherwise) {
  for (const frontend::Diagnostic& diagnostic : diagnostics.all())
    if (diagnostic.severity == frontend::Severity::kError)
      return absl::InvalidArgumentError(StripLineEnd(frontend::Render(diagnostic, files)));
  return absl::InternalError(otherwise);
}

void Report(const frontend::Diagnostics& found, const std::vector<frontend::File>& files, std::vector<storage::Diagnostic>* diagnostics) {
  if (!diagnostics) return;
  for (const frontend::Diagnostic& diagnostic : found.all()) diagnostics->push_back(ToStorage(diagnostic, files));
}

template <typename SourceFiles>
std::vector<frontend::File> ParseAll(const SourceFiles& sources, frontend::Diagnostics* diagnostics) {
  std::vector<frontend::File> files;
  for (const storage::SourceFile& source : sources)
    files.push_back(frontend::Parse(int(files.size()), source.path(), source.text(), diagnostics));
  return files;
}

// Measures consecutive stages.
class StageClock {
 public:
  explicit StageClock(storage::KernelMetadata* metadata) : metadata_(metadata) {}
  void Finish(const std::string& stage) {
    const auto now = std::chrono::steady_clock::now();
    Add(stage, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  void Add(const std::string& stage, double seconds) {
    auto* time = metadata_->add_stage_times();
    time->set_stage(stage);
    time->set_seconds(seconds);
  }
  // Leaves out the time since the last stage, which somebody else has measured.
  void Skip() { last_ = std::chrono::steady_clock::now(); }

 private:
  storage::KernelMetadata* metadata_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::string TextOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false).useLocalScope());
  return text + "\n";
}

// Where an operation comes from in the source; false where that is not known.
bool RangeOf(mlir::Location location, const std::vector<frontend::File>& files, frontend::SourceRange* range) {
  auto at = mlir::dyn_cast<mlir::FileLineColLoc>(location);
  if (!at) return false;
  for (size_t i = 0; i < files.size(); ++i)
    if (files[i].path == at.getFilename().strref()) {
      *range = {int(i), int(at.getLine()), int(at.getColumn()), int(at.getLine()), int(at.getColumn()) + 1};
      return true;
    }
  return false;
}

storage::SourcePlace SourcePlaceOf(mlir::Location location, const std::vector<frontend::File>& files) {
  storage::SourcePlace place;
  frontend::SourceRange range;
  if (!RangeOf(location, files, &range)) return place;
  place.set_place(absl::StrCat(files[range.file].path, ":", range.line, ":", range.column));
  place.set_source_line(std::string(absl::StripAsciiWhitespace(frontend::SourceLine(range, files))));
  return place;
}

void AddLints(mlir::func::FuncOp kernel, const std::vector<frontend::File>& files, frontend::Diagnostics* found) {
  for (const Lint& lint : FindLints(kernel)) {
    frontend::SourceRange range;
    if (RangeOf(lint.at, files, &range)) found->Warning(range, lint.message);
  }
}

}  // namespace

std::string HostCpuFeatures() { return DetectHostCpu().ToString(); }

struct Compiler::Impl {
  mlir::MLIRContext& Context() {
    if (!context || ++compiles > kCompilesPerContext) {
      compiles = 1;
      mlir::DialectRegistry registry;
      RegisterCpuTargetDialects(&registry);
      RegisterGpuDialects(&registry);
      context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
      LoadTileDialects(*context);
    }
    return *context;
  }

  absl::StatusOr<storage::Artifact> Compile(const storage::CompileJob& job, std::vector<storage::Diagnostic>* diagnostics);
  absl::Status ReplaceTile(const storage::CompileJob& job, mlir::MLIRContext& context, mlir::OwningOpRef<mlir::ModuleOp>* module,
                           storage::KernelMetadata* metadata);
  absl::Status CompileInterpreter(mlir::ModuleOp module, storage::Artifact* artifact);
  absl::Status CompileCpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact, StageClock& clock);
  absl::Status CompileGpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact, StageClock& clock);

  std::unique_ptr<mlir::MLIRContext> context;
  int compiles = 0;
};

Compiler::Compiler() : impl_(std::make_unique<Impl>()) {}
Compiler::~Compiler() = default;

absl::StatusOr<storage::ModuleDescription> Compiler::Describe(const std::vector<storage::SourceFile>& sources,
                                                              std::vector<storage::Diagnostic>* diagnostics) {
  frontend::Diagnostics found;
  const std::vector<frontend::File> files = ParseAll(sources, &found);
  Report(found, files, diagnostics);
  if (found.has_errors()) return ErrorFrom(found, files, "the module does not parse");
  frontend::ModuleIndex index(files);
  return frontend::Describe(index);
}

absl::StatusOr<std::vector<size_t>> Compiler::PruneConfigs(const std::vector<storage::SourceFile>& sources, const std::string& kernel,
                                                          const std::vector<storage::NamedConstant>& values, std::string* note) {
  frontend::Diagnostics found;
  const std::vector<frontend::File> files = ParseAll(sources, &found);
  if (found.has_errors()) return ErrorFrom(found, files, "the module does not parse");
  frontend::ModuleIndex index(files);
  frontend::NamedConstants launch;
  for (const storage::NamedConstant& value : values) {
    std::string error;
    std::optional<frontend::Constant> constant = frontend::FromStorage(value.value(), index, &error);
    if (!constant) return absl::InvalidArgumentError(absl::StrCat(value.name(), ": ", error));
    launch.emplace_back(value.name(), *std::move(constant));
  }
  std::optional<std::vector<size_t>> kept = frontend::ConfigsForLaunch(index, kernel, launch, note);
  if (!kept) return absl::NotFoundError(absl::StrCat("the module has no kernel ", kernel));
  return *std::move(kept);
}

absl::StatusOr<storage::Artifact> Compiler::Compile(const storage::CompileJob& job, std::vector<storage::Diagnostic>* diagnostics) {
  for (const char* hook : {"pre_hook", "post_hook"})
    if (auto found = job.options().extra().find(hook); found != job.options().extra().end() && found->second != "None")
      return absl::InvalidArgumentError(absl::StrCat("the configuration of ", job.kernel(), " has a ", hook, " (", found->second,
                                                     "), Python code that runs beside each launch, which is not supported: let the caller or the kernel do its work"));
  return impl_->Compile(job, diagnostics);
}

// An edited "tile" stage takes the place of what was emitted. It must have the same kernel with the same parameters.
absl::Status Compiler::Impl::ReplaceTile(const storage::CompileJob& job, mlir::MLIRContext& context,
                                         mlir::OwningOpRef<mlir::ModuleOp>* module, storage::KernelMetadata* metadata) {
  const std::set<std::string> replaceable = job.target() == "cpu" ? std::set<std::string>{"tile", "tile_cpu", "loops", "llvm_dialect", "llvm", "asm"}
                                            : IsGpuTarget(job.target()) ? std::set<std::string>{"tile", "simt", "ptx"}
                                                                  : std::set<std::string>{"tile"};
  for (const auto& [stage, text] : job.override_stages())
    if (replaceable.count(stage) == 0)
      metadata->add_notes(absl::StrCat("override of stage '", stage, "' is ignored: for target ", job.target(), " there can be replaced: ", absl::StrJoin(replaceable, ", ")));
  auto it = job.override_stages().find("tile");
  if (it == job.override_stages().end()) return absl::OkStatus();
  MlirErrors errors(context);
  auto replacement = mlir::parseSourceString<mlir::ModuleOp>(it->second, &context, /*sourceName=*/"tile");
  if (!replacement) return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage 'tile' does not parse: ", errors.Text()));
  auto old_kernel = (*module)->lookupSymbol<mlir::func::FuncOp>(metadata->entry_symbol());
  auto new_kernel = replacement->lookupSymbol<mlir::func::FuncOp>(metadata->entry_symbol());
  if (!new_kernel || new_kernel.getFunctionType() != old_kernel.getFunctionType())
    return absl::InvalidArgumentError(absl::StrCat("the text that replaces stage 'tile' must define @", metadata->entry_symbol(), " with the same parameters"));
  *module = std::move(replacement);
  return absl::OkStatus();
}

absl::Status Compiler::Impl::CompileInterpreter(mlir::ModuleOp module, storage::Artifact* artifact) {
  // Operations that the interpreter does not know are found now, not at launch.
  auto interpreter = interpreter::Interpreter::Create(module, artifact->metadata().entry_symbol());
  if (!interpreter.ok()) return interpreter.status();
  llvm::raw_string_ostream stream(*artifact->mutable_code());
  mlir::BytecodeWriterConfig config("tessera");
  if (mlir::failed(mlir::writeBytecodeToFile(module, stream, config)))
    return absl::InternalError(absl::StrCat(artifact->metadata().kernel(), ": writing bytecode failed"));
  return absl::OkStatus();
}

absl::Status Compiler::Impl::CompileCpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact, StageClock& clock) {
  CpuTargetOptions options;
  options.cpu_features = job.cpu_features();
  options.fp_fusion = OptionIsOn(job.options(), "enable_fp_fusion", true);
  options.emit.assign(job.emit().begin(), job.emit().end());
  options.override_stages.insert(job.override_stages().begin(), job.override_stages().end());
  MlirErrors errors(*context);
  absl::StatusOr<CpuObject> object = CompileForCpu(module, options);
  if (!object.ok()) {
    if (errors.Text().empty() || absl::StrContains(object.status().message(), absl::string_view(errors.Text()))) return object.status();
    return absl::Status(object.status().code(), absl::StrCat(object.status().message(), "\n", errors.Text()));
  }
  artifact->set_code(std::move(object->object));
  storage::KernelMetadata* metadata = artifact->mutable_metadata();
  metadata->set_entry_symbol(object->entry_symbol);
  metadata->set_scratch_bytes(object->scratch_bytes);
  metadata->set_scratch_align(object->scratch_align);
  for (const auto& [stage, text] : object->stages) (*artifact->mutable_stages())[stage] = text;
  for (const auto& [stage, seconds] : object->stage_seconds) clock.Add(stage, seconds);
  clock.Skip();
  return absl::OkStatus();
}

absl::Status Compiler::Impl::CompileGpu(mlir::ModuleOp module, const storage::CompileJob& job, storage::Artifact* artifact, StageClock& clock) {
  std::vector<std::pair<std::string, double>> stage_seconds;
  RETURN_IF_ERROR(CompileForGpu(module, job, artifact, &stage_seconds));
  for (const auto& [stage, seconds] : stage_seconds) clock.Add(stage, seconds);
  clock.Skip();
  return absl::OkStatus();
}

absl::StatusOr<storage::Artifact> Compiler::Impl::Compile(const storage::CompileJob& job, std::vector<storage::Diagnostic>* diagnostics) {
  if (IsGpuTarget(job.target())) {
    if (absl::Status status = CheckGpuJob(job); !status.ok()) return status;
  } else if (job.target() != "interpreter" && job.target() != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat("unknown target '", job.target(), "'; there are: interpreter, cpu, and GPUs as sm_90a"));
  }
  storage::Artifact artifact;
  artifact.set_format_version(kArtifactFormat);
  storage::KernelMetadata* metadata = artifact.mutable_metadata();
  metadata->set_kernel(job.kernel());
  metadata->set_target(job.target());
  metadata->set_entry_symbol(job.kernel());
  *metadata->mutable_options() = job.options();
  StageClock clock(metadata);
  auto wanted = [&](absl::string_view stage) {
    for (const std::string& name : job.emit())
      if (name == stage) return true;
    return false;
  };

  frontend::Diagnostics found;
  const std::vector<frontend::File> files = ParseAll(job.files(), &found);
  clock.Finish("parse");
  if (found.has_errors()) {
    Report(found, files, diagnostics);
    return ErrorFrom(found, files, "the module does not parse");
  }

  mlir::MLIRContext& mlir_context = Context();
  frontend::ModuleIndex index(files);
  std::vector<storage::EntryParameter> parameters;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string mlir_errors;
  {
    MlirErrors errors(mlir_context);
    module = frontend::EmitTile(index, job, mlir_context, &found, &parameters);
    if (module && mlir::failed(mlir::verify(*module)))
      mlir_errors = absl::StrCat("kernel '", job.kernel(), "': the emitted tile IR is wrong: ", errors.Text());
  }
  Report(found, files, diagnostics);
  if (!module || found.has_errors()) return ErrorFrom(found, files, absl::StrCat("kernel '", job.kernel(), "' was not emitted"));
  if (!mlir_errors.empty()) return absl::InternalError(mlir_errors);
  for (storage::EntryParameter& parameter : parameters) *metadata->add_parameters() = std::move(parameter);
  for (const frontend::Diagnostic& diagnostic : found.all()) metadata->add_notes(StripLineEnd(frontend::Render(diagnostic, files)));
  clock.Finish("emit");
  if (wanted("ast"))
    if (const frontend::Function* kernel = index.FindJitFunction(job.kernel()))
      (*artifact.mutable_stages())["ast"] = frontend::ClosureText(index, *kernel);

  if (absl::Status status = ReplaceTile(job, mlir_context, &module, metadata); !status.ok()) return status;
  {
    MlirErrors errors(mlir_context);
    mlir::PassManager passes(&mlir_context);
    passes.addPass(mlir::createCanonicalizerPass());
    passes.addPass(mlir::createCSEPass());
    if (mlir::failed(passes.run(*module)))
      return absl::InternalError(absl::StrCat("kernel '", job.kernel(), "': simplifying its tile IR failed: ", errors.Text()));
  }
  if (auto kernel = module->lookupSymbol<mlir::func::FuncOp>(metadata->entry_symbol())) {
    frontend::Diagnostics lints;
    AddLints(kernel, files, &lints);
    Report(lints, files, diagnostics);
    for (const frontend::Diagnostic& lint : lints.all()) metadata->add_notes(StripLineEnd(frontend::Render(lint, files)));
    *metadata->mutable_launch_facts() = CollectLaunchFacts(kernel, [&](mlir::Location location) { return SourcePlaceOf(location, files); });
  }
  clock.Finish("simplify");
  if (wanted("tile")) (*artifact.mutable_stages())["tile"] = TextOf(*module);
  clock.Skip();

  absl::Status status = IsGpuTarget(job.target()) ? CompileGpu(*module, job, &artifact, clock)
                        : job.target() == "cpu"   ? CompileCpu(*module, job, &artifact, clock)
                                                  : CompileInterpreter(*module, &artifact);
  if (!status.ok()) return status;
  if (job.target() == "interpreter") clock.Finish("bytecode");
  return artifact;
}

}  // namespace tessera::compiler
