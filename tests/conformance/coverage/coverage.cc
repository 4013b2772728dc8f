// How much of somebody's kernels the frontend takes: parses, describes, type-checks and emits as
// tile IR.
//
//   coverage FOLDER [--project NAME] [--signatures FILE] [--guess] [--markdown FILE]
//
// FILE is what convert_recordings.py prints. See README.md for what is counted.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/signature/signature.h"
#include "google/protobuf/util/json_util.h"
#include "tests/conformance/coverage/checkout.h"

namespace tessera::coverage {
namespace {

constexpr int kSecondsPerCompile = 60;

// Where the signature comes from. kGuessed: a launch of it, or none, with values made up for the
// constants: no evidence, but it finds what the frontend lacks.
enum class Source { kRecorded, kCallee, kCallSite, kGuessed, kNone };

struct Outcome {
  JitFunction function;
  bool parses = false, describes = false;
  Source source = Source::kNone;
  int signatures = 0, emitted = 0;
  std::string reason;  // of the first step that failed
  bool passes() const { return reason.empty() && emitted > 0; }
};

struct Launch {
  std::string path;
  std::pair<std::string, std::string> entry;                   // module, qualified name
  std::vector<std::pair<std::string, std::string>> functions;  // likewise
  storage::CompileJob job;
};

std::string FirstLine(absl::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return lines.empty() ? "" : lines[0];
}

// Without the place in front, so that equal reasons read alike.
std::string WithoutPlace(const std::string& message) {
  std::string text = FirstLine(message);
  const size_t error = text.find("error: ");
  if (absl::StartsWith(text, "no signature: constexpr"))
    return "no signature: a constexpr is not written as a constant where it is launched";
  return error == std::string::npos ? text : text.substr(error + 7);
}

absl::Status NormalizeConstant(storage::ConstantValue* value) {
  if (value->kind_case() == storage::ConstantValue::kDtype) {
    auto name = compiler::NormalizeType(value->dtype());
    if (name.ok()) value->set_dtype(*name);
    return name.status();
  }
  if (value->kind_case() == storage::ConstantValue::kTuple)
    for (auto& item : *value->mutable_tuple()->mutable_items())
      if (absl::Status status = NormalizeConstant(&item); !status.ok()) return status;
  return absl::OkStatus();
}

// Types by their short names, as a compile job has them.
absl::Status Normalize(storage::ParameterSpec* spec) {
  if (spec->kind_case() == storage::ParameterSpec::kConstant)
    return NormalizeConstant(spec->mutable_constant());
  if (spec->kind_case() == storage::ParameterSpec::kTuple) {
    for (auto& item : *spec->mutable_tuple()->mutable_items())
      if (absl::Status status = Normalize(&item); !status.ok()) return status;
    return absl::OkStatus();
  }
  const bool descriptor = spec->kind_case() == storage::ParameterSpec::kTensorDescriptor;
  auto name =
      compiler::NormalizeType(descriptor ? spec->tensor_descriptor().element_type() : spec->type());
  if (!name.ok()) return name.status();
  if (descriptor)
    spec->mutable_tensor_descriptor()->set_element_type(*name);
  else
    spec->set_type(*name);
  return absl::OkStatus();
}

std::vector<Launch> ReadLaunches(const std::string& path, const std::string& project) {
  std::ifstream stream(path);
  std::map<std::string, std::string> texts;
  std::vector<Launch> launches;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (json.contains("module")) {
      texts[json["module"]] = json["text"];
      continue;
    }
    if (!project.empty() && json.value("project", "") != project) continue;
    Launch launch;
    launch.path = json.value("path", "");
    launch.entry = json["entry"].get<std::pair<std::string, std::string>>();
    launch.functions = json["functions"].get<std::vector<std::pair<std::string, std::string>>>();
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(json["job"].dump(), &launch.job);
    if (!parsed.ok()) {
      std::cerr << path << ": " << parsed.ToString() << "\n";
      continue;
    }
    launch.job.add_files()->set_path("kernel.py");
    launch.job.mutable_files(0)->set_text(texts[json["source"]]);
    launch.job.set_target("interpreter");
    launches.push_back(std::move(launch));
  }
  return launches;
}

// One line a job, "" for success. In a process of its own: a crash or a hang of the compiler is a
// result too.
std::vector<std::string> CompileAll(const std::vector<const storage::CompileJob*>& jobs) {
  std::vector<std::string> results;
  while (results.size() < jobs.size()) {
    int ends[2];
    if (pipe(ends) != 0) return std::vector<std::string>(jobs.size(), "no pipe");
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      compiler::Compiler compiler;
      for (size_t i = results.size(); i < jobs.size(); ++i) {
        alarm(kSecondsPerCompile);
        storage::CompileJob job = *jobs[i];
        absl::Status status;
        for (storage::ParameterSpec& spec : *job.mutable_parameters())
          if (status.ok()) status = Normalize(&spec);
        std::vector<storage::Diagnostic> diagnostics;
        if (status.ok()) status = compiler.Compile(job, &diagnostics).status();
        std::string line =
            absl::StrCat(status.ok() ? "" : FirstLine(absl::string_view(status.message())), "\n");
        if (!status.ok() && line == "\n") line = "failed without a message\n";
        if (write(ends[1], line.data(), line.size()) != ssize_t(line.size())) _exit(1);
      }
      _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    for (absl::string_view rest = text; !rest.empty() && results.size() < jobs.size();) {
      const size_t end = rest.find('\n');
      results.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end + 1);
    }
    if (results.size() < jobs.size() && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
      results.push_back(
          WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
              ? absl::StrCat("the compiler ran for more than ", kSecondsPerCompile, " s")
              : absl::StrCat("the compiler crashed (status ", status, ")"));
  }
  return results;
}

void Record(Outcome* outcome, Source source, const std::vector<std::string>& results) {
  outcome->source = std::min(outcome->source, source);
  for (const std::string& result : results) {
    ++outcome->signatures;
    if (result.empty())
      ++outcome->emitted;
    else if (outcome->reason.empty())
      outcome->reason = result;
  }
}

storage::ConstantValue GuessConstant(const std::string& name) {
  storage::ConstantValue value;
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "dtype"))
    value.set_dtype("fp32");
  else if (absl::StartsWith(lower, "has_") || absl::StartsWith(lower, "is_") ||
           absl::StartsWith(lower, "use_") || absl::StrContains(lower, "causal"))
    value.set_boolean(true);
  else
    value.set_integer(absl::StrContains(lower, "block") || absl::StrContains(lower, "tile") ? 32
                                                                                            : 16);
  return value;
}

// Which run-time parameters are pointers: their names say so as a rule.
bool LooksLikePointer(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "ptr") || absl::StrContains(lower, "pointer")) return true;
  static const std::set<std::string> names = {
      "x",  "y",      "z",    "q",    "k",    "v",   "a",     "b",    "c",       "o",     "do",
      "dq", "dk",     "dv",   "dx",   "dy",   "dw",  "db",    "out",  "inp",     "input", "output",
      "in", "weight", "bias", "mean", "rstd", "lse", "delta", "grad", "indices", "index"};
  return names.count(lower) > 0;
}

// What a launch site and the function's own defaults and configurations say. Pointers are taken as
// *fp32, other run-time values as i32 (fp32 where the default is a float): types are not written at
// a launch. False: a constant is missing, and `guess` does not ask for one by its name.
bool JobFromCallSite(const storage::KernelDescription& kernel, const CallSite* site, bool guess,
                     storage::CompileJob* job, std::string* missing) {
  for (int i = 0; i < kernel.parameters_size(); ++i) {
    const storage::ParameterDescription& parameter = kernel.parameters(i);
    storage::ParameterSpec* spec = job->add_parameters();
    spec->set_name(parameter.name());
    if (site != nullptr && site->keywords.count(parameter.name())) {
      *spec->mutable_constant() = site->keywords.at(parameter.name());
      if (!parameter.is_constexpr() && spec->constant().has_none() == false) spec->clear_kind();
    }
    if (spec->kind_case() != storage::ParameterSpec::KIND_NOT_SET) continue;
    if (kernel.configs_size() > 0)
      for (const auto& value : kernel.configs(0).values())
        if (value.name() == parameter.name()) *spec->mutable_constant() = value.value();
    if (spec->kind_case() != storage::ParameterSpec::KIND_NOT_SET) continue;
    const bool given =
        site != nullptr && (site->named.count(parameter.name()) || size_t(i) < site->positional);
    if (parameter.is_constexpr()) {
      if (guess && (given || !parameter.has_default())) {
        *spec->mutable_constant() = GuessConstant(parameter.name());
        continue;
      }
      if (given || !parameter.has_default()) {
        *missing = absl::StrCat("constexpr '", parameter.name(),
                                "' is not written as a constant where it is launched");
        return false;
      }
      *spec->mutable_constant() = parameter.default_value();
      continue;
    }
    const bool pointer = LooksLikePointer(parameter.name());
    const std::string lower = absl::AsciiStrToLower(parameter.name());
    const bool real = parameter.has_default() &&
                      parameter.default_value().kind_case() == storage::ConstantValue::kReal;
    spec->set_type(pointer                                                          ? "*fp32"
                   : real || lower == "eps" || lower == "scale" || lower == "alpha" ? "fp32"
                                                                                    : "i32");
    if (pointer) spec->set_divisibility(16);
  }
  return true;
}

class Harness {
 public:
  Harness(const std::string& folder, const std::vector<Launch>& launches, bool guess)
      : checkout_(folder), launches_(launches), guess_(guess) {}

  void Run() {
    for (const JitFunction& function : checkout_.functions()) {
      Outcome outcome;
      outcome.function = function;
      outcome.parses = function.parse_error.empty();
      if (!outcome.parses) outcome.reason = FirstLine(function.parse_error);
      by_name_[{function.path, function.qualified_name}] = outcomes_.size();
      outcomes_.push_back(std::move(outcome));
    }
    DescribeAll();
    CompileRecorded();
    CompileFromCallSites();
  }

  std::vector<Outcome>& outcomes() { return outcomes_; }
  std::map<std::string, Outcome>& generated() { return generated_; }

 private:
  void DescribeAll() {
    std::map<std::string, std::vector<size_t>> by_path;
    for (size_t i = 0; i < outcomes_.size(); ++i) by_path[outcomes_[i].function.path].push_back(i);
    compiler::Compiler compiler;
    for (const auto& [path, members] : by_path) {
      std::vector<storage::Diagnostic> diagnostics;
      auto description = compiler.Describe(checkout_.ModuleOf(path), &diagnostics);
      for (size_t i : members) {
        Outcome& outcome = outcomes_[i];
        if (!outcome.parses) continue;
        if (!description.ok()) {
          outcome.reason = absl::StrCat(
              "describe: ", FirstLine(absl::string_view(description.status().message())));
          continue;
        }
        for (const storage::KernelDescription& kernel : description->kernels())
          if (kernel.name() == outcome.function.name) {
            outcome.describes = true;
            if (!descriptions_.count(i)) descriptions_[i] = kernel;
          }
        if (outcome.function.nested)
          outcome.describes = true;  // made at run time: its recorded module has it
        if (!outcome.describes) outcome.reason = "describe: it is not listed";
      }
    }
  }

  Outcome* FindOutcome(const Launch& launch, const std::pair<std::string, std::string>& name) {
    const std::string path =
        checkout_.Locate(name.first == launch.entry.first ? launch.path : name.first);
    auto it = by_name_.find({path, name.second});
    return it == by_name_.end() ? nullptr : &outcomes_[it->second];
  }

  void CompileRecorded() {
    std::map<std::string, std::vector<const Launch*>> groups;  // by entry
    for (const Launch& launch : launches_)
      groups[absl::StrCat(launch.entry.first, ":", launch.entry.second)].push_back(&launch);
    // A helper passes if any kernel around it does; its own failures are those of all of them.
    std::map<Outcome*, std::vector<std::string>> callees;
    for (const auto& [name, group] : groups) {
      std::vector<const storage::CompileJob*> jobs;
      for (const Launch* launch : group) jobs.push_back(&launch->job);
      std::vector<std::string> results = CompileAll(jobs);
      Outcome* entry = FindOutcome(*group[0], group[0]->entry);
      if (entry != nullptr && !entry->function.nested) CompleteFromFolder(*entry, jobs, &results);
      if (entry == nullptr) {
        entry = &generated_[name];
        entry->parses = entry->describes = true;
        entry->function.name = entry->function.qualified_name = group[0]->entry.second;
        entry->function.path = "(generated)";
      }
      Record(entry, Source::kRecorded, results);
      for (size_t i = 0; i < group.size(); ++i)
        for (const auto& function : group[i]->functions)
          if (Outcome* callee = FindOutcome(*group[i], function);
              callee != nullptr && callee != entry)
            callees[callee].push_back(results[i]);
    }
    for (auto& [callee, results] : callees) {
      if (callee->signatures > 0) continue;
      const bool any = std::any_of(results.begin(), results.end(),
                                   [](const std::string& r) { return r.empty(); });
      if (any)
        Record(callee, Source::kCallee, {""});
      else
        Record(callee, Source::kCallee, {"in its callers: " + results[0]});
    }
  }

  // A recording may lack what a kernel reads (functions wrapped in tl.constexpr): then the folder's
  // files are the module.
  void CompleteFromFolder(const Outcome& entry, const std::vector<const storage::CompileJob*>& jobs,
                          std::vector<std::string>* results) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (!absl::StrContains((*results)[i], "is not defined") &&
          !absl::StrContains((*results)[i], "submit its file too"))
        continue;
      storage::CompileJob job = *jobs[i];
      job.clear_files();
      (*results)[i] = CompileAll({Complete(entry, &job)})[0];
    }
  }

  const storage::CompileJob* Complete(const Outcome& outcome, storage::CompileJob* job) const {
    for (const storage::SourceFile& file : checkout_.ModuleOf(outcome.function.path))
      *job->add_files() = file;
    job->set_kernel(outcome.function.name);
    job->set_target("interpreter");
    return job;
  }

  void CompileFromCallSites() {
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      Outcome& outcome = outcomes_[i];
      if (outcome.signatures > 0 || !outcome.parses || !outcome.describes ||
          !descriptions_.count(i) || outcome.function.nested)
        continue;
      const std::vector<CallSite> sites = checkout_.CallSites(outcome.function.name);
      std::string missing = "no launch of it is written in this folder";
      for (const CallSite& site : sites) {
        storage::CompileJob job;
        if (!JobFromCallSite(descriptions_[i], &site, /*guess=*/false, &job, &missing)) continue;
        Record(&outcome, Source::kCallSite, CompileAll({Complete(outcome, &job)}));
        break;
      }
      if (outcome.signatures > 0) continue;
      outcome.reason = "no signature: " + missing;
      if (!guess_) continue;
      storage::CompileJob job;
      JobFromCallSite(descriptions_[i], sites.empty() ? nullptr : &sites[0], /*guess=*/true, &job,
                      &missing);
      outcome.reason.clear();
      Record(&outcome, Source::kGuessed, CompileAll({Complete(outcome, &job)}));
    }
  }

  Checkout checkout_;
  const std::vector<Launch>& launches_;
  bool guess_;
  std::vector<Outcome> outcomes_;
  std::map<std::pair<std::string, std::string>, size_t> by_name_;
  std::map<size_t, storage::KernelDescription> descriptions_;
  std::map<std::string, Outcome> generated_;
};

struct Totals {
  int functions = 0, parse = 0, describe = 0, launched = 0, launched_pass = 0, derived = 0,
      derived_pass = 0, guessed = 0, guessed_pass = 0, unlaunched = 0;
  long signatures = 0, emitted = 0;
  void Add(const Outcome& o) {
    ++functions;
    parse += o.parses;
    describe += o.describes;
    if (o.source == Source::kRecorded) {
      signatures += o.signatures;
      emitted += o.emitted;
    }
    if (o.source == Source::kRecorded || o.source == Source::kCallee) {
      ++launched;
      launched_pass += o.passes();
    } else if (o.source == Source::kCallSite) {
      ++derived;
      derived_pass += o.passes();
    } else if (o.source == Source::kGuessed) {
      ++guessed;
      guessed_pass += o.passes();
    } else {
      ++unlaunched;
    }
  }
};

std::string Share(long part, long whole) {
  char text[64];
  std::snprintf(text, sizeof text, "%ld of %ld (%.1f %%)", part, whole,
                whole ? 100.0 * double(part) / double(whole) : 100.0);
  return text;
}

std::string EscapeCell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// Reasons with how many functions have them, most frequent first; names are cut down to one kind.
std::vector<std::pair<int, std::pair<std::string, std::vector<std::string>>>> Reasons(
    const std::vector<const Outcome*>& failures) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const Outcome* o : failures)
    by_reason[WithoutPlace(o->reason)].push_back(absl::StrCat(
        o->function.path, ":", o->function.qualified_name,
        o->signatures > 1 ? absl::StrCat(" (", o->signatures - o->emitted, "/", o->signatures, ")")
                          : ""));
  std::vector<std::pair<int, std::pair<std::string, std::vector<std::string>>>> sorted;
  for (auto& [reason, names] : by_reason) sorted.push_back({int(names.size()), {reason, names}});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return sorted;
}

void PrintReport(std::ostream& out, const std::string& project, Harness& harness) {
  Totals totals, generated;
  std::vector<const Outcome*> launched, derived, guessed, unlaunched;
  for (const Outcome& o : harness.outcomes()) {
    totals.Add(o);
    if (o.passes()) continue;
    (o.source <= Source::kCallee     ? launched
     : o.source == Source::kCallSite ? derived
     : o.source == Source::kGuessed  ? guessed
                                     : unlaunched)
        .push_back(&o);
  }
  for (const auto& [name, o] : harness.generated()) {
    generated.Add(o);
    if (!o.passes()) launched.push_back(&o);
  }
  out << "### " << project << "\n\n| | functions |\n|---|---|\n"
      << "| `@triton.jit` functions in the folder | " << totals.functions << " |\n"
      << "| parse | " << Share(totals.parse, totals.functions) << " |\n"
      << "| described | " << Share(totals.describe, totals.functions) << " |\n"
      << "| launched by the project's tests: reach tile IR | "
      << Share(totals.launched_pass, totals.launched) << " |\n"
      << "| not launched, signature from a call site: reach tile IR | "
      << Share(totals.derived_pass, totals.derived) << " |\n"
      << "| not launched, constants made up (no evidence): reach tile IR | "
      << Share(totals.guessed_pass, totals.guessed) << " |\n"
      << "| not launched, no signature | " << totals.unlaunched << " |\n"
      << "| all but those that are not launched | "
      << Share(totals.launched_pass + totals.derived_pass, totals.launched + totals.derived)
      << " |\n"
      << "| all functions that reach tile IR | "
      << Share(totals.launched_pass + totals.derived_pass, totals.functions) << " |\n";
  if (generated.functions > 0)
    out << "| kernels that the project generates at run time: reach tile IR | "
        << Share(generated.launched_pass, generated.functions) << " |\n";
  out << "| recorded signatures that reach tile IR | "
      << Share(totals.emitted + generated.emitted, totals.signatures + generated.signatures)
      << " |\n\n";
  auto table = [&](const char* title, const std::vector<const Outcome*>& failures, size_t most) {
    if (failures.empty()) return;
    out << title << "\n\n| functions | reason | which (failing/all signatures) |\n|---|---|---|\n";
    for (const auto& [count, reason] : Reasons(failures)) {
      out << "| " << count << " | " << EscapeCell(reason.first) << " | ";
      for (size_t i = 0; i < reason.second.size() && i < most; ++i)
        out << (i ? ", " : "") << "`" << reason.second[i] << "`";
      if (reason.second.size() > most) out << ", ...";
      out << " |\n";
    }
    out << "\n";
  };
  table("Launched by the project's tests, but failing:", launched, 1000);
  table("Not launched; failing with the signature of a call site (types guessed):", derived, 1000);
  table("Not launched; failing with made-up constants:", guessed, 1000);
  if (unlaunched.empty()) return;
  std::map<std::string, std::string> by_file;
  for (const Outcome* o : unlaunched)
    absl::StrAppend(&by_file[o->function.path], by_file[o->function.path].empty() ? "" : ", ", "`",
                    o->function.qualified_name, "`");
  out << "<details><summary>Not launched by the recorded tests, and no signature: "
      << unlaunched.size() << " functions</summary>\n\n";
  for (const auto& [path, names] : by_file) out << "- " << path << ": " << names << "\n";
  out << "\n</details>\n\n";
}

}  // namespace

int Main(int argc, char** argv) {
  std::string folder, project, signatures, markdown;
  bool guess = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--guess") {
      guess = true;
      continue;
    }
    std::string* value = word == "--project"      ? &project
                         : word == "--signatures" ? &signatures
                         : word == "--markdown"   ? &markdown
                                                  : nullptr;
    if (value == nullptr)
      folder = word;
    else if (i + 1 < argc)
      *value = argv[++i];
  }
  if (folder.empty()) {
    std::cerr << "usage: coverage FOLDER [--project NAME] [--signatures FILE] [--guess] "
                 "[--markdown FILE]\n";
    return 2;
  }
  std::vector<Launch> launches;
  if (!signatures.empty()) launches = ReadLaunches(signatures, project);
  Harness harness(folder, launches, guess);
  harness.Run();
  PrintReport(std::cout, project.empty() ? folder : project, harness);
  if (!markdown.empty()) {
    std::ofstream file(markdown);
    PrintReport(file, project.empty() ? folder : project, harness);
  }
  return 0;
}

}  // namespace tessera::coverage

int main(int argc, char** argv) { return tessera::coverage::Main(argc, argv); }
