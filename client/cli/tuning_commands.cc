#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"
#include "client/cli/tuning_text.h"

namespace tessera::cli {
namespace {

constexpr const char* kTritonFormat = "triton";
constexpr const char* kServingEngineFormat = "serving-engine";

// What names tunings on the command line.
struct TuningWords {
  std::string kernel, module, bucket, device;
};

void PrintTuning(const v1::Tuning& tuning) {
  std::cout << absl::StrFormat("%s on %s, bucket %s: configuration %d%s (%s)\n", tuning.kernel(),
                               tuning.device(), tuning.bucket(), tuning.chosen(),
                               tuning.pinned() ? ", pinned" : "", tuning.reason());
  if (!tuning.sample().empty())
    std::cout << absl::StrFormat("  measured with %s in %s\n", tuning.sample(),
                                 DurationText(tuning.tuning_seconds()));
  for (int i = 0; i < tuning.trials_size(); ++i) {
    const v1::Tuning::Trial& trial = tuning.trials(i);
    std::cout << absl::StrFormat("  %c %2d %s  ",
                                 i == static_cast<int>(tuning.chosen()) ? '*' : ' ', i,
                                 ShortConfigText(trial.config()));
    if (!trial.failure().empty())
      std::cout << "rejected: " << trial.failure() << "\n";
    else if (trial.samples() == 0)
      std::cout << "not measured\n";
    else
      std::cout << absl::StrFormat(
          "%s (%s .. %s, %d samples)\n", DurationText(trial.median_seconds()),
          DurationText(trial.low_seconds()), DurationText(trial.high_seconds()), trial.samples());
  }
  for (const std::string& warning : tuning.warnings())
    std::cout << "  warning: " << warning << "\n";
}

absl::Status RunTune(const LaunchWords& words, const std::string& effort, double budget,
                     CommandContext& context) {
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
  if (EnvironmentFlag("TRITON_PRINT_AUTOTUNING") &&
      tuning.chosen() < static_cast<uint32_t>(tuning.trials_size()))
    PrintAutotuning(
        tuning.kernel(), tuning.bucket(),
        absl::StrFormat("finished after %.2fs", absl::ToDoubleSeconds(absl::Now() - begin)),
        tuning.trials(tuning.chosen()).config(), context.json);
  if (context.json)
    PrintJson(response);
  else
    PrintTuning(response.tuning());
  return absl::OkStatus();
}

absl::Status RunList(const TuningWords& words, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ListTuningsRequest request;
  v1::ListTuningsResponse response;
  request.set_kernel(words.kernel);
  RETURN_IF_ERROR(StatusOf(client->tuning().ListTunings(&call, request, &response), call));
  if (context.json)
    PrintJson(response);
  else
    for (const v1::Tuning& tuning : response.tunings()) PrintTuning(tuning);
  return absl::OkStatus();
}

absl::Status RunExplain(const TuningWords& words, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ExplainTuningsRequest request;
  v1::ExplainTuningsResponse response;
  request.set_kernel(words.kernel);
  RETURN_IF_ERROR(StatusOf(client->tuning().ExplainTunings(&call, request, &response), call));
  if (context.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const v1::ExplainTuningsResponse::Site& site : response.sites()) {
    std::cout << absl::StrFormat("%s on %s, bucket %s: %s (policy %s)\n", site.kernel(),
                                 site.device(), site.bucket(), site.state(), site.policy());
    std::cout << absl::StrFormat(
        "  %d calls of %s with %s (%s)\n", site.calls(), DurationText(site.call_seconds()),
        site.config().empty() ? "the first configuration" : site.config(), site.config_from());
    if (!site.decision().empty()) std::cout << "  " << site.decision() << "\n";
    for (const std::string& warning : site.warnings())
      std::cout << "  warning: " << warning << "\n";
  }
  if (response.sites().empty()) std::cout << "no autotuned kernel was launched\n";
  const v1::ExplainTuningsResponse::Budget& budget = response.budget();
  std::cout << absl::StrFormat(
      "budget: %.0f %% of the device's time, at most %s added to a launch; %s spent, %.0f %% of "
      "what the share allowed\n",
      budget.device_share() * 100, DurationText(budget.latency_bound_seconds()),
      DurationText(budget.spent_seconds()), budget.used_ratio() * 100);
  std::cout << absl::StrFormat("launches held up: %d, %s in all; %d for the whole bound\n",
                               budget.launches_held_up(), DurationText(budget.held_up_seconds()),
                               budget.overruns());
  return absl::OkStatus();
}

absl::Status SendPolicy(v1::SetPolicyRequest request, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::SetPolicyResponse response;
  RETURN_IF_ERROR(StatusOf(client->tuning().SetPolicy(&call, request, &response), call));
  if (context.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  std::cout << absl::StrCat(request.kernel().empty() ? "all kernels" : request.kernel(), ": ",
                            response.policy(), response.frozen() ? ", frozen" : "", "\n");
  for (const auto& [argument, rule] : response.buckets())
    std::cout << "  " << argument << ": " << rule << "\n";
  return absl::OkStatus();
}

absl::Status RunPolicy(const std::string& policy, const std::string& kernel,
                       const std::vector<std::string>& buckets, CommandContext& context) {
  v1::SetPolicyRequest request;
  request.set_kernel(kernel);
  request.set_policy(policy);
  for (const std::string& bucket : buckets) {
    std::vector<std::string> parts = absl::StrSplit(bucket, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty())
      return absl::InvalidArgumentError(
          absl::StrCat("--bucket takes ARGUMENT=RULE, the rule exact, pow2, geometric:STEP or "
                       "edges:A,B,..., not '",
                       bucket, "'"));
    (*request.mutable_buckets())[parts[0]] = parts[1];
  }
  return SendPolicy(std::move(request), context);
}

absl::Status RunFreeze(const std::string& kernel, bool frozen, CommandContext& context) {
  v1::SetPolicyRequest request;
  request.set_kernel(kernel);
  request.set_frozen(frozen);
  return SendPolicy(std::move(request), context);
}

absl::Status RunPin(const TuningWords& words, uint32_t config, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::PinTuningRequest request;
  v1::PinTuningResponse response;
  request.set_kernel(words.kernel);
  request.set_module(words.module);
  request.set_bucket(words.bucket);
  request.set_device(words.device);
  request.set_config(config);
  RETURN_IF_ERROR(StatusOf(client->tuning().PinTuning(&call, request, &response), call));
  if (!context.json) std::cout << "pinned\n";
  return absl::OkStatus();
}

absl::Status RunForget(const TuningWords& words, bool all, CommandContext& context) {
  if (words.kernel.empty() && !all)
    return absl::InvalidArgumentError("name a kernel, or say --all");
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ForgetTuningRequest request;
  v1::ForgetTuningResponse response;
  request.set_kernel(words.kernel);
  request.set_module(words.module);
  request.set_bucket(words.bucket);
  RETURN_IF_ERROR(StatusOf(client->tuning().ForgetTuning(&call, request, &response), call));
  if (context.json)
    PrintJson(response);
  else
    std::cout << absl::StrFormat("%d forgotten\n", response.forgotten());
  return absl::OkStatus();
}

// "FILE.py:KERNEL", registered, or the name of a kernel and the id of its module.
absl::Status ResolveKernel(Client& client, TuningWords* words) {
  if (!absl::StrContains(words->kernel, ':')) {
    if (words->module.empty())
      return absl::InvalidArgumentError("say FILE.py:KERNEL, or KERNEL with --module ID");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto kernel, SplitKernel(words->kernel));
  ASSIGN_OR_RETURN(std::string text, ReadFile(kernel.first));
  ASSIGN_OR_RETURN(v1::RegisterModuleResponse module,
                   client.RegisterModule({{kernel.first, std::move(text)}}));
  words->kernel = kernel.second;
  words->module = module.module();
  return absl::OkStatus();
}

absl::Status RunImport(TuningWords words, const std::vector<std::string>& files,
                       const std::string& format, const std::string& batch,
                       CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  RETURN_IF_ERROR(ResolveKernel(*client, &words));
  uint32_t imported = 0;
  for (const std::string& file : files) {
    grpc::ClientContext call;
    v1::ImportTuningsRequest request;
    v1::ImportTuningsResponse response;
    request.set_module(words.module);
    request.set_kernel(words.kernel);
    request.set_device(words.device);
    request.set_format(!format.empty()                           ? format
                       : absl::StrContains(file, "device_name=") ? kServingEngineFormat
                                                                 : kTritonFormat);
    request.set_name(std::filesystem::path(file).filename().string());
    request.set_batch_argument(batch);
    ASSIGN_OR_RETURN(*request.mutable_content(), ReadFile(file));
    absl::Status status = StatusOf(client->tuning().ImportTunings(&call, request, &response), call);
    if (!status.ok())
      return absl::Status(status.code(),
                          absl::StrCat(file, ": ", absl::string_view(status.message())));
    for (const std::string& note : response.notes()) std::cerr << file << ": " << note << "\n";
    if (context.json) PrintJson(response);
    imported += response.imported();
  }
  if (!context.json) std::cout << absl::StrFormat("%d imported\n", imported);
  return absl::OkStatus();
}

absl::Status RunExport(const TuningWords& words, const std::string& format,
                       const std::string& batch, const std::string& folder,
                       CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ExportTuningsRequest request;
  v1::ExportTuningsResponse response;
  request.set_kernel(words.kernel);
  request.set_module(words.module);
  request.set_device(words.device);
  request.set_format(format);
  request.set_batch_argument(batch);
  RETURN_IF_ERROR(StatusOf(client->tuning().ExportTunings(&call, request, &response), call));
  for (const std::string& note : response.notes()) std::cerr << note << "\n";
  for (const v1::ExportTuningsResponse::File& file : response.files()) {
    std::filesystem::path path =
        std::filesystem::path(folder) / std::filesystem::path(file.name()).relative_path();
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out << file.content();
    if (!out.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", path.string()));
    std::cout << path.string() << "\n";
  }
  return response.files().empty() ? absl::NotFoundError("there is nothing to export")
                                  : absl::OkStatus();
}

void AddTune(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* tune = app.add_subcommand(
      "tune", "measure the configurations of an autotuned kernel and keep the best");
  auto words = std::make_shared<LaunchWords>();
  auto effort = std::make_shared<std::string>("full");
  auto budget = std::make_shared<double>(0);
  AddLaunchOptions(*tune, *words);
  tune->add_option("--effort", *effort, "none, quick, full")
      ->check(CLI::IsMember({"none", "quick", "full"}));
  tune->add_option("--budget", *budget, "seconds; 0: no bound");
  AddConnectionOptions(*tune, context);
  AddPrivateOption(*tune, context);
  tune->callback([=, &context] {
    words->device = DeviceOrDefault(words->device);
    *action = [=, &context] { return RunTune(*words, *effort, *budget, context); };
  });
}

// A subcommand of `tunings` that takes a kernel's name, or all kernels where it is not needed.
CLI::App* AddTuningCommand(CLI::App& tunings, const char* name, const char* what, bool needs_kernel,
                           TuningWords& words, CommandContext& context) {
  CLI::App* command = tunings.add_subcommand(name, what);
  CLI::Option* kernel = command->add_option(
      "kernel", words.kernel, needs_kernel ? "the kernel's name" : "only this kernel's");
  if (needs_kernel) kernel->required();
  AddConnectionOptions(*command, context);
  return command;
}

void AddExchange(CLI::App& tunings, CommandContext& context, Action* action) {
  auto words = std::make_shared<TuningWords>();
  auto format = std::make_shared<std::string>(), batch = std::make_shared<std::string>();
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::Validator formats = CLI::IsMember({kTritonFormat, kServingEngineFormat});
  CLI::App* import = tunings.add_subcommand(
      "import", "take tunings from Triton's autotune cache or a serving engine's files");
  import->add_option("kernel", words->kernel, "FILE.py:KERNEL, or KERNEL with --module")
      ->required();
  import
      ->add_option("files", *files,
                   "KERNEL.autotune.json, or NAME=VALUE,...,device_name=DEVICE.json")
      ->required();
  import->add_option("--module", words->module, "id of the module");
  import->add_option("--device", words->device, "the device they are for");
  import
      ->add_option("--format", *format,
                   "triton or serving-engine; without it the files' names tell")
      ->check(formats);
  import->add_option("--batch-argument", *batch,
                     "serving engines: the argument that batch sizes are values of");
  AddConnectionOptions(*import, context);
  import->callback([=, &context] { *action = [=, &context] { return RunImport(*words, *files, *format, *batch, context);
};
}  // namespace
);

auto export_words = std::make_shared<TuningWords>();
auto export_format = std::make_shared<std::string>(kTritonFormat),
     export_batch = std::make_shared<std::string>();
auto folder = std::make_shared<std::string>(".");
CLI::App* exported =
    AddTuningCommand(tunings, "export", "write tunings as Triton or serving engines keep them",
                     true, *export_words, context);
exported->add_option("--module", export_words->module, "id of the module");
exported->add_option("--device", export_words->device, "the device they were measured on");
exported->add_option("--format", *export_format, "triton (default) or serving-engine")
    ->check(formats);
exported->add_option("--batch-argument", *export_batch,
                     "serving engines: the argument that batch sizes are values of");
exported->add_option("-o,--output", *folder, "folder for the files; the current one");
exported->callback([=, &context] {
  *action = [=, &context] {
    return RunExport(*export_words, *export_format, *export_batch, *folder, context);
  };
});
}  // namespace tessera::cli

}  // namespace

void AddTuningCommands(CLI::App& app, CommandContext& context, Action* action) {
  AddTune(app, context, action);
  CLI::App* tunings = app.add_subcommand("tunings", "stored choices of configurations");
  tunings->require_subcommand(1);
  auto words = std::make_shared<TuningWords>();

  CLI::App* list =
      AddTuningCommand(*tunings, "ls", "list them with all measurements", false, *words, context);
  list->alias("list");
  list->callback([=, &context] { *action = [=, &context] { return RunList(*words, context); }; });

  CLI::App* explain = AddTuningCommand(
      *tunings, "explain", "why each bucket was tuned or not, and what the budget was spent on",
      false, *words, context);
  explain->callback(
      [=, &context] { *action = [=, &context] { return RunExplain(*words, context); }; });

  auto policy = std::make_shared<std::string>(), kernel = std::make_shared<std::string>();
  auto buckets = std::make_shared<std::vector<std::string>>();
  CLI::App* set = tunings->add_subcommand(
      "policy", "when kernels are tuned while they serve; lasts as long as the daemon runs");
  set->add_option("policy", *policy,
                  "fixed, bucketed, candidates(N), exhaustive, amortised; without it the one in "
                  "force is printed");
  set->add_option("--kernel", *kernel, "of this kernel alone");
  set->add_option("--bucket", *buckets, "ARGUMENT=RULE: exact, pow2, geometric:STEP, edges:A,B,...")
      ->allow_extra_args(false);
  AddConnectionOptions(*set, context);
  set->callback([=, &context] {
    *action = [=, &context] { return RunPolicy(*policy, *kernel, *buckets, context); };
  });

  auto off = std::make_shared<bool>(false);
  CLI::App* freeze = AddTuningCommand(*tunings, "freeze", "use stored choices and measure nothing",
                                      false, *words, context);
  freeze->add_flag("--off", *off, "measure again");
  freeze->callback([=, &context] {
    *action = [=, &context] { return RunFreeze(words->kernel, !*off, context); };
  });

  auto config = std::make_shared<uint32_t>(0);
  CLI::App* pin =
      AddTuningCommand(*tunings, "pin", "use a configuration for a bucket whatever is measured",
                       true, *words, context);
  pin->add_option("--bucket", words->bucket, "as `tunings ls` prints it")->required();
  pin->add_option("--config", *config, "its number in `tunings ls`")->required();
  pin->add_option("--module", words->module, "id of the module");
  pin->add_option("--device", words->device);
  pin->callback(
      [=, &context] { *action = [=, &context] { return RunPin(*words, *config, context); }; });

  auto all = std::make_shared<bool>(false);
  CLI::App* forget = AddTuningCommand(*tunings, "forget", "drop tunings", false, *words, context);
  forget->add_option("--bucket", words->bucket, "only this bucket's");
  forget->add_option("--module", words->module, "only this module's");
  forget->add_flag("--all", *all, "of all kernels");
  forget->callback(
      [=, &context] { *action = [=, &context] { return RunForget(*words, *all, context); }; });

  AddExchange(*tunings, context, action);
}

}  // namespace tessera::cli
