#include <fnmatch.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"
#include "client/cli/kernel_dump.h"
#include "client/cli/replay.h"

namespace tessera::cli {
namespace {

std::string Duration(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

double Quantile(std::vector<double> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[std::min<size_t>(sorted.size() - 1, static_cast<size_t>(q * sorted.size()))];
}

std::string ValueText(const v1::Constant& value) {
  switch (value.kind_case()) {
    case v1::Constant::kInteger: return absl::StrCat(value.integer());
    case v1::Constant::kUnsignedInteger: return absl::StrCat(value.unsigned_integer());
    case v1::Constant::kBoolean: return value.boolean() ? "True" : "False";
    case v1::Constant::kReal: return absl::StrCat(value.real());
    case v1::Constant::kText: return value.text();
    case v1::Constant::kDtype: return value.dtype();
    case v1::Constant::kNone: return "None";
    default: return value.ShortDebugString();
  }
}

// As Triton prints a triton.Config.
std::string ConfigText(const v1::Config& config) {
  std::string text;
  for (const v1::NamedConstant& value : config.values()) absl::StrAppend(&text, value.name(), ": ", ValueText(value.value()), ", ");
  const v1::Options& options = config.options();
  return absl::StrCat(text, "num_warps: ", options.num_warps() == 0 ? 4 : options.num_warps(), ", num_ctas: ", options.num_ctas() == 0 ? 1 : options.num_ctas(),
                      ", num_stages: ", options.num_stages() == 0 ? 3 : options.num_stages(), ", maxnreg: ", options.maxnreg() == 0 ? "None" : absl::StrCat(options.maxnreg()));
}

// TRITON_PRINT_AUTOTUNING=1, in Triton's words. `key` may be empty. On standard error when that is JSON's place.
void PrintAutotuning(const std::string& kernel, const std::string& key, const std::string& how, const v1::Config& config, bool json) {
  (json ? std::cerr : std::cout) << "Triton autotuning for function " << kernel << ",\n" << (key.empty() ? "" : absl::StrCat("with key as (", key, "),\n")) << how
                                 << ",\nbest config selected: " << ConfigText(config) << ";\n";
}

absl::Status RunLaunch(const LaunchWords& words, int repeat, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  ASSIGN_OR_RETURN(auto launch, PreparedLaunch::Make(*client, words));
  v1::LaunchRequest once = launch->request();
  once.set_compile_anew(EnvironmentFlag("TRITON_ALWAYS_COMPILE"));
  if (KernelDumpWanted())
    for (const char* stage : {"ast", "tile", "tile_cpu", "plan", "loops", "layout", "llvm", "ptx", "asm"}) once.add_emit(stage);
  absl::Time begin = absl::Now();
  absl::StatusOr<v1::LaunchResponse> launched = client->Launch(once);
  double wall = absl::ToDoubleSeconds(absl::Now() - begin);
  if (once.program_order_seed() != 0) std::cerr << "program order: random:" << once.program_order_seed() << "\n";
  if (!launched.ok()) return launched.status();
  v1::LaunchResponse first = *std::move(launched);
  if (KernelDumpWanted())
    RETURN_IF_ERROR(DumpStages(once.kernel(), {first.stages().begin(), first.stages().end()}));
  first.clear_stages();
  if (first.config() > 0 && first.config() <= launch->kernel().configs_size() && EnvironmentFlag("TRITON_PRINT_AUTOTUNING"))
    PrintAutotuning(once.kernel(), "", "a launch measures nothing: the configuration in force", launch->kernel().configs(first.config() - 1), context.json);
  std::vector<double> walls, kernels;
  for (int i = 1; i < repeat; ++i) {
    begin = absl::Now();
    ASSIGN_OR_RETURN(v1::LaunchResponse again, client->Launch(launch->request()));
    walls.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
    kernels.push_back(again.kernel_seconds());
  }
  RETURN_IF_ERROR(launch->WriteBack());
  std::cout << first.printed();
  if (context.json) {
    PrintJson(first);
    return absl::OkStatus();
  }
  for (const std::string& note : first.notes()) std::cerr << note << "\n";
  std::cout << first.outcome() << ": " << Duration(wall) << " (compile " << Duration(first.compile_seconds()) << ", queue "
            << Duration(first.queue_seconds()) << ", kernel " << Duration(first.kernel_seconds()) << ")";
  if (first.config() > 0) std::cout << ", configuration " << first.config() - 1;
  std::cout << "\n";
  if (!walls.empty())
    std::cout << absl::StrFormat("%d more launches: p50 %s, p90 %s, p99 %s; kernel p50 %s\n", walls.size(), Duration(Quantile(walls, 0.5)),
                                 Duration(Quantile(walls, 0.9)), Duration(Quantile(walls, 0.99)), Duration(Quantile(kernels, 0.5)));
  return absl::OkStatus();
}

absl::Status RunReplay(const std::vector<std::string>& paths, const std::string& device, const std::string& match, bool notes, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  int passed = 0, failed = 0, skipped = 0;
  for (const std::string& folder : FindCases(paths)) {
    std::string name = folder.substr(folder.find_last_of('/') + 1);
    if (!match.empty() && fnmatch(match.c_str(), name.c_str(), 0) != 0) continue;
    ReplayResult result = ReplayCase(*client, folder, device);
    if (result.outcome == ReplayOutcome::kPassed) ++passed;
    if (result.outcome == ReplayOutcome::kFailed) ++failed;
    if (result.outcome == ReplayOutcome::kSkipped) ++skipped;
    if (notes)
      for (const std::string& note : result.notes) std::cout << name << ": " << note << "\n";
    if (result.outcome != ReplayOutcome::kPassed)
      std::cout << name << (result.outcome == ReplayOutcome::kFailed ? ": FAILED: " : ": skipped: ") << result.message << std::endl;
  }
  std::cout << absl::StrFormat("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  if (passed + failed + skipped == 0) return absl::NotFoundError("no case found (a folder with case.json)");
  return failed == 0 ? absl::OkStatus() : absl::UnknownError("");
}

void PrintTuning(const v1::Tuning& tuning) {
  std::cout << absl::StrFormat("%s on %s, bucket %s: configuration %d%s (%s)\n", tuning.kernel(), tuning.device(), tuning.bucket(),
                               tuning.chosen(), tuning.pinned() ? ", pinned" : "", tuning.reason());
  for (int i = 0; i < tuning.trials_size(); ++i) {
    const v1::Tuning::Trial& trial = tuning.trials(i);
    std::string values;
    for (const v1::NamedConstant& value : trial.config().values())
      absl::StrAppend(&values, " ", value.name(), "=", value.value().kind_case() == v1::Constant::kInteger ? absl::StrCat(value.value().integer()) : value.value().ShortDebugString());
    std::cout << absl::StrFormat("  %c %2d%s  ", i == static_cast<int>(tuning.chosen()) ? '*' : ' ', i, values);
    if (!trial.failure().empty()) std::cout << "rejected: " << trial.failure() << "\n";
    else if (trial.samples() == 0) std::cout << "not measured\n";
    else std::cout << absl::StrFormat("%s (%s .. %s, %d samples)\n", Duration(trial.median_seconds()), Duration(trial.low_seconds()), Duration(trial.high_seconds()), trial.samples());
  }
}

absl::Status RunTune(const LaunchWords& words, const std::string& effort, double budget, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  ASSIGN_OR_RETURN(auto launch, PreparedLaunch::Make(*client, words));
  grpc::ClientContext call;
  v1::TuneRequest request;
  v1::TuneResponse response;
  *request.mutable_launch() = launch->request();
  request.mutable_launch()->set_session(client->session());
  request.set_effort(effort);
  request.set_budget_seconds(budget);
  absl::Time begin = absl::Now();
  RETURN_IF_ERROR(StatusOf(client->tuning().Tune(&call, request, &response), call));
  const v1::Tuning& tuning = response.tuning();
  if (EnvironmentFlag("TRITON_PRINT_AUTOTUNING") && tuning.chosen() < static_cast<uint32_t>(tuning.trials_size()))
    PrintAutotuning(tuning.kernel(), tuning.bucket(), absl::StrFormat("finished after %.2fs", absl::ToDoubleSeconds(absl::Now() - begin)),
                    tuning.trials(tuning.chosen()).config(), context.json);
  if (context.json) PrintJson(response);
  else PrintTuning(response.tuning());
  return absl::OkStatus();
}

absl::Status RunTuningsList(const std::string& kernel, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ListTuningsRequest request;
  v1::ListTuningsResponse response;
  request.set_kernel(kernel);
  RETURN_IF_ERROR(StatusOf(client->tuning().ListTunings(&call, request, &response), call));
  if (context.json) PrintJson(response);
  else for (const v1::Tuning& tuning : response.tunings()) PrintTuning(tuning);
  return absl::OkStatus();
}

}  // namespace

void AddKernelCommands(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* launch = app.add_subcommand("launch", "launch a kernel on .npy files");
  auto words = std::make_shared<LaunchWords>();
  auto repeat = std::make_shared<int>(1);
  AddLaunchOptions(*launch, *words);
  launch->add_option("--program-order", words->program_order, "interpreter: sequential (default), random or random:SEED, to expose races between programs");
  launch->add_option("--repeat", *repeat, "launch N times and print quantiles")->check(CLI::PositiveNumber);
  AddConnectionOptions(*launch, context);
  AddPrivateOption(*launch, context);
  launch->callback([=, &context] {
    words->device = DeviceOrDefault(words->device);
    *action = [=, &context] { return RunLaunch(*words, *repeat, context); };
  });

  CLI::App* replay = app.add_subcommand("replay", "run recorded launches and compare");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto device = std::make_shared<std::string>(), match = std::make_shared<std::string>();
  replay->add_option("cases", *paths, "case folders, or folders of cases")->required();
  replay->add_option("--device", *device, "cpu, interpreter");
  replay->add_option("--match", *match, "only cases whose name matches this glob");
  auto notes = std::make_shared<bool>(false);
  replay->add_flag("--notes", *notes, "print the warnings of each launch");
  AddConnectionOptions(*replay, context);
  AddPrivateOption(*replay, context);
  replay->callback([=, &context] { *action = [=, &context] { return RunReplay(*paths, DeviceOrDefault(*device), *match, *notes, context); }; });

  CLI::App* tune = app.add_subcommand("tune", "measure the configurations of an autotuned kernel and keep the best");
  auto tune_words = std::make_shared<LaunchWords>();
  auto effort = std::make_shared<std::string>("full");
  auto budget = std::make_shared<double>(0);
  AddLaunchOptions(*tune, *tune_words);
  tune->add_option("--effort", *effort, "none, quick, full")->check(CLI::IsMember({"none", "quick", "full"}));
  tune->add_option("--budget", *budget, "seconds; 0: no bound");
  AddConnectionOptions(*tune, context);
  AddPrivateOption(*tune, context);
  tune->callback([=, &context] {
    tune_words->device = DeviceOrDefault(tune_words->device);
    *action = [=, &context] { return RunTune(*tune_words, *effort, *budget, context); };
  });

  CLI::App* tunings = app.add_subcommand("tunings", "stored choices of configurations");
  tunings->require_subcommand(1);
  CLI::App* list = tunings->add_subcommand("ls", "list them");
  auto kernel = std::make_shared<std::string>();
  list->add_option("kernel", *kernel, "only this kernel's");
  AddConnectionOptions(*list, context);
  list->callback([=, &context] { *action = [=, &context] { return RunTuningsList(*kernel, context); }; });
}

}  // namespace tessera::cli
