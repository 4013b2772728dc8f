#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"
#include "client/cli/kernel_dump.h"
#include "client/cli/literal.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/explain.h"
#include "compiler/driver/signature/signature.h"

namespace tessera::cli {
namespace {

struct CompileWords {
  LaunchWords kernel;
  std::string target, signature, emit = "metadata", out, dump_dir, override_dir;
};

// Both Constant messages have the same fields and numbers; the wire form is the conversion.
storage::ConstantValue ToStorage(const v1::Constant& constant) {
  storage::ConstantValue value;
  value.ParseFromString(constant.SerializeAsString());
  return value;
}

absl::StatusOr<storage::CompileJob> MakeJob(const CompileWords& words, std::string* kernel_path) {
  storage::CompileJob job;
  ASSIGN_OR_RETURN(auto kernel, SplitKernel(words.kernel.kernel));
  *kernel_path = kernel.first;
  job.set_kernel(kernel.second);
  std::vector<std::string> paths = {kernel.first};
  paths.insert(paths.end(), words.kernel.modules.begin(), words.kernel.modules.end());
  for (const std::string& path : paths) {
    storage::SourceFile* file = job.add_files();
    file->set_path(path);
    ASSIGN_OR_RETURN(*file->mutable_text(), ReadFile(path));
  }
  v1::LaunchRequest options;  // --config and options in one place
  RETURN_IF_ERROR(SetOptions(words.kernel, options.mutable_options()));
  RETURN_IF_ERROR(SetConfig(words.kernel.config, &options));
  job.mutable_options()->ParseFromString(options.options().SerializeAsString());
  // Variables of the environment travel as options; the compiler knows them as settings.
  for (const auto& [name, value] : options.options().extra())
    if (absl::StartsWith(name, "TRITON_")) {
      (*job.mutable_settings())[name] = value;
      job.mutable_options()->mutable_extra()->erase(name);
    }
  job.set_target(words.target.empty() ? DeviceOrDefault("") : words.target);
  if (job.target().empty()) job.set_target("cpu");
  if (job.target() == "cpu") job.set_cpu_features(compiler::HostCpuFeatures());
  ASSIGN_OR_RETURN(auto specs, compiler::ParseSignature(words.signature));
  ASSIGN_OR_RETURN(auto constants, ParseConstexprs(words.kernel.constexprs));
  std::map<std::string, storage::ParameterSpec> by_name;
  for (storage::ParameterSpec& spec : specs) by_name[spec.name()] = std::move(spec);
  for (const auto* list : {&options.config_values()})
    for (const v1::NamedConstant& constant : *list) *by_name[constant.name()].mutable_constant() = ToStorage(constant.value());
  for (const v1::NamedConstant& constant : constants) *by_name[constant.name()].mutable_constant() = ToStorage(constant.value());

  // The kernel's own order, defaults and configuration.
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::ModuleDescription module,
                   compiler.Describe({job.files().begin(), job.files().end()}, &diagnostics));
  const storage::KernelDescription* description = nullptr;
  for (const storage::KernelDescription& candidate : module.kernels())
    if (candidate.name() == job.kernel()) description = &candidate;
  if (description == nullptr) {
    std::string known;
    for (const auto& candidate : module.kernels()) absl::StrAppend(&known, " ", candidate.name());
    return absl::NotFoundError(absl::StrCat("no kernel '", job.kernel(), "' in ", kernel.first, "; it has:", known));
  }
  const storage::TuneConfig* config = nullptr;
  if (description->configs_size() > 0 && options.config_values_size() == 0) {
    int index = options.config() > 0 ? options.config() - 1 : 0;
    if (index >= description->configs_size())
      return absl::InvalidArgumentError(absl::StrCat("--config ", index, ": the kernel has ", description->configs_size(), " configurations"));
    config = &description->configs(index);
    storage::LaunchOptions merged = config->options();
    merged.MergeFrom(job.options());
    *job.mutable_options() = merged;
  }
  for (const storage::ParameterDescription& parameter : description->parameters()) {
    auto given = by_name.find(parameter.name());
    storage::ParameterSpec* spec = job.add_parameters();
    if (given != by_name.end()) {
      *spec = given->second;
      by_name.erase(given);
    } else if (const storage::ConstantValue* value = [&]() -> const storage::ConstantValue* {
                 if (config != nullptr)
                   for (const auto& entry : config->values())
                     if (entry.name() == parameter.name()) return &entry.value();
                 return parameter.has_default() ? &parameter.default_value() : nullptr;
               }()) {
      *spec->mutable_constant() = *value;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter.name(), "' is missing: give it in --", parameter.is_constexpr() ? "constexpr" : "signature"));
    }
    spec->set_name(parameter.name());
  }
  if (!by_name.empty())
    return absl::InvalidArgumentError(absl::StrCat("kernel '", job.kernel(), "' has no parameter '", by_name.begin()->first, "'"));
  return job;
}

// The stages that --emit takes: those of all targets, "object" and "metadata" of every artifact.
const std::vector<std::string> kStages = {"ast",  "tile", "tile_cpu", "plan", "loops", "layout", "simt", "llvm_dialect", "llvm",
                                          "ptx",  "sass", "asm",      "object", "metadata"};

absl::Status WriteOut(const std::string& path, const std::string& bytes) {
  if (path.empty() || path == "-") {
    std::cout << bytes;
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.flush();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// A stage of the artifact as bytes; nullopt: the target has no such stage.
std::optional<std::string> StageOf(const storage::Artifact& artifact, const std::string& stage, bool json) {
  if (stage == "object") return artifact.code();
  if (stage == "metadata") return json ? JsonOf(artifact.metadata()) : artifact.metadata().DebugString();
  auto text = artifact.stages().find(stage);
  return text == artifact.stages().end() ? std::nullopt : std::optional<std::string>(text->second);
}

std::vector<std::string> TextStages() {
  std::vector<std::string> stages;
  for (const std::string& stage : kStages)
    if (stage != "object" && stage != "metadata") stages.push_back(stage);
  return stages;
}

absl::StatusOr<storage::Artifact> CompileJob(const storage::CompileJob& job) {
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  absl::StatusOr<storage::Artifact> artifact = compiler.Compile(job, &diagnostics);
  if (!artifact.ok()) {
    for (const storage::Diagnostic& diagnostic : diagnostics)
      if (diagnostic.severity() != "error")
        std::cerr << absl::StrCat(diagnostic.file(), ":", diagnostic.line(), ":", diagnostic.column(), ": ", diagnostic.severity(), ": ", diagnostic.message(), "\n");
    return artifact.status();
  }
  for (const std::string& note : artifact->metadata().notes()) std::cerr << note << "\n";
  return artifact;
}

// The stages of DIR that somebody has edited: files that differ from what the compiler makes by itself. So a whole
// --dump-dir can serve as --override-dir after one file of it was changed.
absl::Status ReadOverrides(const std::string& folder, storage::CompileJob* job) {
  std::map<std::string, std::string> given;
  for (const std::string& stage : TextStages())
    if (auto text = ReadFile(absl::StrCat(folder, "/", job->kernel(), ".", stage)); text.ok()) given[stage] = *text;
  if (given.empty()) return absl::NotFoundError(absl::StrCat("--override-dir ", folder, " holds no stage of ", job->kernel(), " (", job->kernel(), ".tile, ", job->kernel(), ".llvm, ...)"));
  storage::CompileJob plain = *job;
  plain.clear_emit();
  for (const auto& [stage, text] : given) plain.add_emit(stage);
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::Artifact made, compiler.Compile(plain, &diagnostics));
  for (const auto& [stage, text] : given) {
    std::optional<std::string> own = StageOf(made, stage, false);
    if (!own || *own != text) (*job->mutable_override_stages())[stage] = text;
  }
  return absl::OkStatus();
}

absl::Status RunCompile(const CompileWords& words, const CommandContext& context) {
  std::string path;
  ASSIGN_OR_RETURN(storage::CompileJob job, MakeJob(words, &path));
  std::optional<std::string> dump = words.dump_dir.empty() ? std::nullopt : std::make_optional(words.dump_dir);
  const bool dump_by_environment = !dump && KernelDumpWanted();
  if (dump || dump_by_environment) {
    for (const std::string& stage : TextStages()) job.add_emit(stage);
  } else if (words.emit != "object" && words.emit != "metadata") {
    job.add_emit(words.emit);
  }
  if (!words.override_dir.empty()) RETURN_IF_ERROR(ReadOverrides(words.override_dir, &job));
  ASSIGN_OR_RETURN(storage::Artifact artifact, CompileJob(job));
  if (dump || dump_by_environment) {
    std::map<std::string, std::string> stages;
    for (const std::string& stage : kStages)
      if (auto text = StageOf(artifact, stage, false)) stages[stage] = *text;
    RETURN_IF_ERROR(dump ? WriteStages(*dump, job.kernel(), stages) : DumpStages(job.kernel(), stages));
  }
  std::optional<std::string> text = StageOf(artifact, words.emit, context.json);
  if (text) return WriteOut(words.out, *text);
  for (const std::string& stage : TextStages()) job.add_emit(stage);
  std::vector<storage::Diagnostic> told;
  ASSIGN_OR_RETURN(artifact, compiler::Compiler().Compile(job, &told));
  std::string all;
  for (const std::string& stage : kStages)
    if (StageOf(artifact, stage, false)) absl::StrAppend(&all, all.empty() ? "" : ", ", stage);
  return absl::UnimplementedError(absl::StrCat("target ", job.target(), " has no stage '", words.emit, "'; it has: ", all));
}

using Names = std::map<std::string, int64_t>;

// NAME, NUMBER, cdiv(a, b) and products of them.
absl::StatusOr<int64_t> EvaluateExtent(absl::string_view text, const Names& names) {
  text = absl::StripAsciiWhitespace(text);
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth != 0 || text[i] != '*') continue;
    ASSIGN_OR_RETURN(int64_t left, EvaluateExtent(text.substr(0, i), names));
    ASSIGN_OR_RETURN(int64_t right, EvaluateExtent(text.substr(i + 1), names));
    return left * right;
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  if (auto name = names.find(std::string(text)); name != names.end()) return name->second;
  absl::string_view inside = text;
  for (const char* module : {"triton.", "tl."}) absl::ConsumePrefix(&inside, module);
  const size_t at = absl::ConsumePrefix(&inside, "cdiv(") && absl::ConsumeSuffix(&inside, ")") ? inside.find(',') : absl::string_view::npos;
  if (at != absl::string_view::npos) {
    ASSIGN_OR_RETURN(int64_t all, EvaluateExtent(inside.substr(0, at), names));
    ASSIGN_OR_RETURN(int64_t each, EvaluateExtent(inside.substr(at + 1), names));
    if (each <= 0) return absl::InvalidArgumentError(absl::StrCat("'", text, "' divides by ", each));
    return (all + each - 1) / each;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no number, value of the launch, cdiv(a, b) or product of those"));
}

// The launch that --grid and --arg describe.
absl::StatusOr<compiler::LaunchEstimate> EstimateOf(const LaunchWords& words, const storage::CompileJob& job, const storage::Artifact& artifact) {
  Names scalars;
  for (const std::string& word : words.args) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    // What is no integer has no part in addresses: arrays, floats.
    if (parts.size() == 2 && absl::SimpleAtoi(parts[1], &value)) scalars[parts[0]] = value;
  }
  Names names = scalars;
  for (const storage::ParameterSpec& spec : job.parameters())
    if (spec.constant().kind_case() == storage::ConstantValue::kInteger) names[spec.name()] = spec.constant().integer();
  uint32_t grid[3] = {1, 1, 1};
  int axes = 0, depth = 0;
  std::string extent;
  for (char c : words.grid + ",") {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth != 0 || c != ',') {
      extent += c;
      continue;
    }
    if (axes == 3) return absl::InvalidArgumentError("a grid has one to three extents");
    ASSIGN_OR_RETURN(int64_t programs, EvaluateExtent(extent, names));
    if (programs < 0 || programs > INT32_MAX) return absl::InvalidArgumentError(absl::StrCat("grid extent ", programs));
    grid[axes++] = static_cast<uint32_t>(programs);
    extent.clear();
  }
  return compiler::EstimateLaunch(artifact.metadata(), scalars, grid);
}

absl::Status RunExplain(CompileWords words, const CommandContext& context) {
  std::string path;
  if (words.target.empty()) words.target = "sm_90a";
  ASSIGN_OR_RETURN(storage::CompileJob job, MakeJob(words, &path));
  job.add_emit("ptx");
  ASSIGN_OR_RETURN(storage::Artifact artifact, CompileJob(job));
  ASSIGN_OR_RETURN(compiler::KernelExplanation explanation, compiler::ExplainKernel(artifact));
  if (!words.kernel.grid.empty()) {
    ASSIGN_OR_RETURN(explanation.launch, EstimateOf(words.kernel, job, artifact));
  } else if (!words.kernel.args.empty()) {
    return absl::InvalidArgumentError("values of a launch want its --grid");
  }
  return WriteOut(words.out, context.json ? explanation.Json() : explanation.Text());
}

void AddJobOptions(CLI::App& command, CompileWords& words) {
  AddKernelOptions(command, words.kernel);
  command.add_option("--target", words.target, "interpreter, cpu, sm_90a, ... (default: cpu)");
  command.add_option("--signature", words.signature, "x=*fp16:16,n=i32:16,m=i32,one=1,bias=None");
  command.add_option("-o", words.out, "output file (default: standard output)");
}

}  // namespace

void AddCompileCommand(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* command = app.add_subcommand("compile", "compile one variant of a kernel; needs no daemon");
  auto words = std::make_shared<CompileWords>();
  AddJobOptions(*command, *words);
  command->add_option("--emit", words->emit, absl::StrCat(absl::StrJoin(kStages, ", "), ": what of it a target has"))->check(CLI::IsMember(kStages));
  command->add_option("--dump-dir", words->dump_dir, "keep every stage here, as KERNEL.STAGE");
  command->add_option("--override-dir", words->override_dir, "take the stages here that were edited");
  AddConnectionOptions(*command, context);
  command->callback([words, &context, action] { *action = [words, &context] { return RunCompile(*words, context); }; });

  CLI::App* explain = app.add_subcommand("explain", "registers, occupancy, access widths and matrix instructions of a kernel's GPU code; with a launch's values also padding, bytes "
                                                   "and operations against the measured roof; needs no GPU");
  auto explained = std::make_shared<CompileWords>();
  AddJobOptions(*explain, *explained);
  explain->add_option("--grid", explained->kernel.grid, "of a launch: EXPR[,EXPR[,EXPR]], with cdiv(a, b)");
  explain->add_option("--arg", explained->kernel.args, "of a launch: NAME=NUMBER, for every integer")->allow_extra_args(false);
  AddConnectionOptions(*explain, context);
  explain->callback([explained, &context, action] { *action = [explained, &context] { return RunExplain(*explained, context); }; });
}

}  // namespace tessera::cli
