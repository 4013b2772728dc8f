#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"
#include "client/cli/literal.h"
#include "compiler/driver/driver.h"
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
  job.set_target(words.target.empty() ? DeviceOrDefault("") : words.target);
  if (job.target().empty()) job.set_target("cpu");
  if (job.target() == "cpu") job.set_cpu_features(compiler::HostCpuFeatures());
  for (const char* name : {"TRITON_F32_DEFAULT"})
    if (const char* value = std::getenv(name)) (*job.mutable_settings())[name] = value;
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

// The stages that --emit names; "object" and "metadata" are part of every artifact.
constexpr const char* kStages[] = {"ast", "tile", "layout", "llvm", "ptx", "sass", "asm", "object", "metadata"};

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

absl::Status RunCompile(const CompileWords& words, const CommandContext& context) {
  bool known = false;
  std::string all;
  for (const char* stage : kStages) {
    known |= words.emit == stage;
    absl::StrAppend(&all, " ", stage);
  }
  if (!known) return absl::InvalidArgumentError(absl::StrCat("--emit ", words.emit, ": known stages are", all));
  std::string path;
  ASSIGN_OR_RETURN(storage::CompileJob job, MakeJob(words, &path));
  if (words.emit != "object" && words.emit != "metadata") job.add_emit(words.emit);
  if (!words.dump_dir.empty())
    for (const char* stage : {"ast", "tile", "layout", "llvm", "ptx", "asm"}) job.add_emit(stage);
  if (!words.override_dir.empty())
    for (const char* stage : kStages)
      if (auto text = ReadFile(absl::StrCat(words.override_dir, "/", job.kernel(), ".", stage)); text.ok())
        (*job.mutable_override_stages())[stage] = *text;
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  absl::StatusOr<storage::Artifact> artifact = compiler.Compile(job, &diagnostics);
  for (const storage::Diagnostic& diagnostic : diagnostics)
    if (artifact.ok() || diagnostic.severity() != "error")
      std::cerr << absl::StrCat(diagnostic.file(), ":", diagnostic.line(), ":", diagnostic.column(), ": ", diagnostic.severity(), ": ", diagnostic.message(), "\n");
  if (!artifact.ok()) return artifact.status();
  if (!words.dump_dir.empty()) {
    for (const auto& [stage, text] : artifact->stages())
      RETURN_IF_ERROR(WriteOut(absl::StrCat(words.dump_dir, "/", job.kernel(), ".", stage), text));
    RETURN_IF_ERROR(WriteOut(absl::StrCat(words.dump_dir, "/", job.kernel(), ".object"), artifact->code()));
  }
  if (words.emit == "object") return WriteOut(words.out, artifact->code());
  if (words.emit == "metadata") {
    if (context.json) PrintJson(artifact->metadata());
    else RETURN_IF_ERROR(WriteOut(words.out, artifact->metadata().DebugString()));
    return absl::OkStatus();
  }
  auto text = artifact->stages().find(words.emit);
  if (text == artifact->stages().end())
    return absl::UnimplementedError(absl::StrCat("target ", job.target(), " has no stage '", words.emit, "'"));
  return WriteOut(words.out, text->second);
}

}  // namespace

void AddCompileCommand(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* command = app.add_subcommand("compile", "compile one variant of a kernel; needs no daemon");
  auto words = std::make_shared<CompileWords>();
  AddKernelOptions(*command, words->kernel);
  command->add_option("--target", words->target, "interpreter, cpu, sm_90a, ... (default: cpu)");
  command->add_option("--signature", words->signature, "x=*fp16:16,n=i32:16,m=i32,one=1,bias=None");
  command->add_option("--emit", words->emit, "ast, tile, layout, llvm, ptx, sass, asm, object, metadata");
  command->add_option("-o", words->out, "output file (default: standard output)");
  command->add_option("--dump-dir", words->dump_dir, "keep every stage here");
  command->add_option("--override-dir", words->override_dir, "take edited stages from here");
  AddConnectionOptions(*command, context);
  command->callback([words, &context, action] { *action = [words, &context] { return RunCompile(*words, context); }; });
}

}  // namespace tessera::cli
