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
#include "client/cli/tuning_text.h"

namespace tessera::cli {
namespace {

double Quantile(std::vector<double> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[std::min<size_t>(sorted.size() - 1, static_cast<size_t>(q * sorted.size()))];
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
  std::cout << first.outcome() << ": " << DurationText(wall) << " (compile " << DurationText(first.compile_seconds()) << ", queue "
            << DurationText(first.queue_seconds()) << ", kernel " << DurationText(first.kernel_seconds()) << ")";
  if (first.config() > 0) std::cout << ", configuration " << first.config() - 1;
  std::cout << "\n";
  if (!walls.empty())
    std::cout << absl::StrFormat("%d more launches: p50 %s, p90 %s, p99 %s; kernel p50 %s\n", walls.size(), DurationText(Quantile(walls, 0.5)),
                                 DurationText(Quantile(walls, 0.9)), DurationText(Quantile(walls, 0.99)), DurationText(Quantile(kernels, 0.5)));
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
}

}  // namespace tessera::cli
