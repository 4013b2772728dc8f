#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/bench/kernel_bench.h"
#include "client/cli/bench/trace_report.h"
#include "client/cli/bench/trace_study.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"
#include "client/cli/tuning_text.h"

namespace tessera::cli {
namespace {

//===-- bench trace ---------------------------------------------------------------------------===//

struct TraceWords {
  std::string output = "trace-study", device, size, effort = "quick";
  int calls = 10000, rounds = 3;
  uint64_t seed = 1;
  std::vector<std::string> policies, traces, daemon_flags;
  bool check = false;
};

// A daemon of its own for each policy, or the running one for all.
class OwnDaemon : public StudyDaemon {
 public:
  OwnDaemon(std::unique_ptr<PrivateDaemon> daemon, std::unique_ptr<Client> client,
            std::string state)
      : daemon_(std::move(daemon)), client_(std::move(client)), state_(std::move(state)) {}
  ~OwnDaemon() override {
    client_.reset();
    daemon_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(state_, ignored);
  }
  Client& client() override { return *client_; }

 private:
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Client> client_;
  const std::string state_;
};

class RunningDaemon : public StudyDaemon {
 public:
  explicit RunningDaemon(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  Client& client() override { return *client_; }

 private:
  std::unique_ptr<Client> client_;
};

absl::StatusOr<std::unique_ptr<StudyDaemon>> StartOwnDaemon(const std::vector<std::string>& flags) {
  std::string state = (std::filesystem::temp_directory_path() / "tessera-study.XXXXXX").string();
  if (mkdtemp(state.data()) == nullptr)
    return absl::UnavailableError(absl::StrCat("cannot create ", state));
  PrivateDaemonOptions options;
  options.state_dir = state;
  options.flags = flags;
  ASSIGN_OR_RETURN(std::unique_ptr<PrivateDaemon> daemon, PrivateDaemon::Start(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(daemon->address(), "bench trace"));
  return std::make_unique<OwnDaemon>(std::move(daemon), std::move(client), state);
}

absl::Status WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", path.string()));
  return absl::OkStatus();
}

absl::StatusOr<WorkloadSize> SizeOf(const TraceWords& words, const NewDaemon& new_daemon,
                                    std::string* device) {
  ASSIGN_OR_RETURN(std::unique_ptr<StudyDaemon> daemon, new_daemon());
  ASSIGN_OR_RETURN(DeviceChoice choice, ChooseDevice(daemon->client(), words.device));
  *device = absl::StrCat(choice.name, " (", choice.description, ")");
  if (!words.size.empty())
    return words.size == "small" ? WorkloadSize::kSmall : WorkloadSize::kLarge;
  return choice.is_gpu ? WorkloadSize::kLarge : WorkloadSize::kSmall;
}

// A trace of some hundred calls is over in less than a second, in which a machine can be slow by chance: so often run those
// that a goal compares. Rounds differ by a tenth, so the median of so many is known to some 1.5 %.
constexpr int kRoundsOfTheShortTrace = 91;

// All policies in turns, as many rounds as are wanted.
absl::StatusOr<TraceResult> RunTrace(Workload workload, const TraceWords& words,
                                     const NewDaemon& new_daemon, const StudyOptions& options) {
  std::vector<StudyPolicy> policies;
  for (const StudyPolicy& policy : StudyPolicies())
    if (words.policies.empty() || std::find(words.policies.begin(), words.policies.end(),
                                            policy.name) != words.policies.end())
      policies.push_back(policy);
  bool is_short = workload.name == "every-shape-twice";
  // Whoever tunes at first use is minutes behind here; the first trace shows it for rare shapes.
  if (is_short && words.policies.empty())
    policies.erase(std::remove_if(policies.begin(), policies.end(),
                                  [](const StudyPolicy& policy) { return policy.first_use; }),
                   policies.end());
  int rounds = is_short ? std::max(words.rounds, kRoundsOfTheShortTrace) : words.rounds;
  TraceResult result;
  result.rounds.resize(rounds);
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < policies.size(); ++i) {
      const StudyPolicy& policy = policies[round % 2 == 0 ? i : policies.size() - 1 - i];
      if (round >= words.rounds && policy.name != "fixed" && policy.name != "amortised") continue;
      ASSIGN_OR_RETURN(PolicyRun run, RunPolicy(workload, policy, new_daemon, options));
      result.rounds[round].push_back(std::move(run));
    }
  for (const StudyPolicy& policy : policies) {
    std::vector<const PolicyRun*> runs;
    for (const std::vector<PolicyRun>& round : result.rounds)
      for (const PolicyRun& run : round)
        if (run.policy == policy.name) runs.push_back(&run);
    std::sort(runs.begin(), runs.end(), [](const PolicyRun* a, const PolicyRun* b) {
      return a->total_seconds < b->total_seconds;
    });
    result.runs.push_back(*runs[runs.size() / 2]);
  }
  if (!is_short) {
    ASSIGN_OR_RETURN(result.side_by_side,
                     MeasureSideBySide(workload, result.rounds, new_daemon, options));
  }
  result.workload = std::move(workload);
  return result;
}

absl::Status RunTraceStudy(const TraceWords& words, CommandContext& context) {
  NewDaemon new_daemon = [&]() -> absl::StatusOr<std::unique_ptr<StudyDaemon>> {
    if (context.use_private) return StartOwnDaemon(words.daemon_flags);
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     Client::Connect(context.address, "bench trace"));
    return std::make_unique<RunningDaemon>(std::move(client));
  };
  std::filesystem::path folder = words.output;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot create ", words.output, ": ", error.message()));
  StudyOptions options;
  options.device = words.device;
  options.effort = words.effort;
  options.progress = [](const std::string& line) { std::cerr << line << std::endl; };
  std::string device;
  ASSIGN_OR_RETURN(WorkloadSize size, SizeOf(words, new_daemon, &device));
  std::vector<TraceResult> results;
  for (const std::string& name : words.traces) {
    Workload workload = name == "common-and-rare" ? CommonAndRare(words.calls, words.seed, size)
                                                  : EveryShapeTwice(words.seed, size);
    ASSIGN_OR_RETURN(TraceResult result, RunTrace(std::move(workload), words, new_daemon, options));
    results.push_back(std::move(result));
  }

  std::string command =
      absl::StrCat("tessera bench trace --calls ", words.calls, " --seed ", words.seed,
                   " --rounds ", words.rounds, " --size ",
                   size == WorkloadSize::kSmall ? "small" : "large", " --effort ", words.effort);
  std::string report = absl::StrCat("Trace study on ", device, "\n", command, "\n");
  bool all_met = true;
  for (const TraceResult& result : results) {
    absl::StrAppend(&report, "\nTrace ", result.workload.name, ": ", result.workload.description,
                    "\n\n", Table(result), "\n", Conclusion(result), "\n");
    auto criteria = result.workload.name == "every-shape-twice" ? EveryShapeTwiceCriteria(result)
                                                                : CommonAndRareCriteria(result);
    for (const Criterion& criterion : criteria) {
      absl::StrAppend(&report, criterion.met ? "met:    " : "MISSED: ", criterion.text, "\n");
      all_met = all_met && criterion.met;
    }
    RETURN_IF_ERROR(WriteText(folder / absl::StrCat("trace_", result.workload.name, ".csv"),
                              WorkloadCsv(result.workload)));
    RETURN_IF_ERROR(WriteText(folder / absl::StrCat("calls_", result.workload.name, ".csv"),
                              CallsCsv(result)));
    LinePlot plot = CumulativePlot(result);
    RETURN_IF_ERROR(
        WriteText(folder / absl::StrCat("cumulative_", result.workload.name, ".svg"), ToSvg(plot)));
    RETURN_IF_ERROR(
        WriteText(folder / absl::StrCat("cumulative_", result.workload.name, ".png"), ToPng(plot)));
  }
  RETURN_IF_ERROR(WriteText(folder / "fused_linear.py", StudyKernelSource()));
  RETURN_IF_ERROR(WriteText(folder / "report.txt", report));
  RETURN_IF_ERROR(WriteText(folder / "summary.csv", SummaryCsv(results)));
  std::string json = SummaryJson(results, device, command);
  RETURN_IF_ERROR(WriteText(folder / "summary.json", json));
  std::cout << (context.json ? json : report);
  std::cerr << "files are in " << folder.string() << "\n";
  if (words.check && !all_met) return absl::FailedPreconditionError("not every goal is met");
  return absl::OkStatus();
}

void AddTrace(CLI::App& bench, CommandContext& context, Action* action) {
  CLI::App* trace = bench.add_subcommand(
      "trace", "a trace of calls under each tuning policy: when does tuning pay?");
  auto words = std::make_shared<TraceWords>();
  trace->add_option("-o,--output", words->output,
                    "folder for table, plots and files (trace-study)");
  trace->add_option("--calls", words->calls, "calls of the first trace (10000)")
      ->check(CLI::Range(20, 1000000));
  trace
      ->add_option("--rounds", words->rounds,
                   "runs of each policy, in turns; goals are of the medians (3; what the goals of the "
                   "short trace compare runs at least 31 times)")
      ->check(CLI::PositiveNumber);
  trace->add_option("--seed", words->seed, "of the traces (1)");
  trace->add_option("--device", words->device, "cpu, cuda, cuda:1; the first GPU, else the CPU");
  trace->add_option("--size", words->size, "small or large shapes; large on a GPU")
      ->check(CLI::IsMember({"small", "large"}));
  trace
      ->add_option("--effort", words->effort,
                   "of tunings that calls wait for: quick (default), full")
      ->check(CLI::IsMember({"quick", "full"}));
  std::vector<std::string> names;
  for (const StudyPolicy& policy : StudyPolicies()) names.push_back(policy.name);
  trace
      ->add_option("--policy", words->policies,
                   absl::StrCat("only this one, repeatable: ", absl::StrJoin(names, ", ")))
      ->check(CLI::IsMember(names))
      ->allow_extra_args(false);
  trace
      ->add_option("--trace", words->traces,
                   "only this one, repeatable: common-and-rare, every-shape-twice")
      ->check(CLI::IsMember({"common-and-rare", "every-shape-twice"}))
      ->allow_extra_args(false);
  trace
      ->add_option("--daemon-flag", words->daemon_flags,
                   "with --private: a flag for the daemons, repeatable")
      ->allow_extra_args(false);
  trace->add_flag("--check", words->check, "fail where a goal is missed");
  AddConnectionOptions(*trace, context);
  AddPrivateOption(*trace, context);
  trace->callback([=, &context] {
    if (words->traces.empty()) words->traces = {"common-and-rare", "every-shape-twice"};
    *action = [=, &context] { return RunTraceStudy(*words, context); };
  });
}

//===-- bench kernel --------------------------------------------------------------------------===//

struct KernelWords {
  LaunchWords launch;
  double warmup_ms = 25, repeat_ms = 100;
  int repeats = 0;
  std::string quantiles = "0.5,0.2,0.8", cache = "cold";
  double flop = 0;
};

absl::Status RunKernelBench(const KernelWords& words, CommandContext& context) {
  std::vector<double> quantiles;
  std::vector<std::string> texts = absl::StrSplit(words.quantiles, ',');
  for (const std::string& text : texts) {
    char* end = nullptr;
    quantiles.push_back(std::strtod(text.c_str(), &end));
    if (text.empty() || *end != 0 || !(quantiles.back() >= 0 && quantiles.back() <= 1))
      return absl::InvalidArgumentError(
          absl::StrCat("--quantiles takes numbers from 0 to 1, not '", text, "'"));
  }
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  ASSIGN_OR_RETURN(auto launch, PreparedLaunch::Make(*client, words.launch));
  ASSIGN_OR_RETURN(DeviceChoice device, ChooseDevice(*client, words.launch.device));
  launch->request().set_device(device.name);
  if (device.is_gpu) RETURN_IF_ERROR(launch->MoveTo(*client, device));
  KernelBenchOptions options;
  options.warmup_seconds = words.warmup_ms * 1e-3;
  options.repeat_seconds = words.repeat_ms * 1e-3;
  options.repeats = words.repeats;
  options.cold_cache = words.cache == "cold";
  ASSIGN_OR_RETURN(KernelBenchResult result,
                   BenchKernel(*client, device, launch->request(), options));
  double median = QuantileOf(result.kernel_seconds, 0.5);
  uint64_t bytes = TensorBytes(launch->request());
  if (context.json) {
    std::string text = absl::StrFormat(
        "{\"device\": \"%s\", \"cache\": \"%s\", \"repeats\": %d, \"config\": %d, "
        "\"tensor_bytes\": %d, \"median_seconds\": %.9g, \"quantiles\": [",
        device.name, words.cache, result.kernel_seconds.size(), result.first.config() - 1, bytes,
        median);
    for (size_t i = 0; i < quantiles.size(); ++i)
      absl::StrAppendFormat(
          &text, "%s{\"quantile\": %g, \"kernel_seconds\": %.9g, \"latency_seconds\": %.9g}",
          i == 0 ? "" : ", ", quantiles[i], QuantileOf(result.kernel_seconds, quantiles[i]),
          QuantileOf(result.latency_seconds, quantiles[i]));
    std::cout << text << "]}\n";
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat("%s on %s, %s cache, %d launches", launch->request().kernel(),
                               device.name, words.cache, result.kernel_seconds.size());
  if (result.first.config() > 0) std::cout << ", configuration " << result.first.config() - 1;
  std::cout << "\n";
  for (double q : quantiles)
    std::cout << absl::StrFormat("  %g quantile: kernel %s, launch %s\n", q,
                                 DurationText(QuantileOf(result.kernel_seconds, q)),
                                 DurationText(QuantileOf(result.latency_seconds, q)));
  if (bytes > 0 && median > 0)
    std::cout << absl::StrFormat("  %.1f GB/s: the tensors' %d bytes, each once\n",
                                 static_cast<double>(bytes) / median * 1e-9, bytes);
  if (words.flop > 0 && median > 0)
    std::cout << absl::StrFormat("  %.2f TFLOP/s\n", words.flop / median * 1e-12);
  return absl::OkStatus();
}

void AddKernelBench(CLI::App& bench, CommandContext& context, Action* action) {
  CLI::App* kernel = bench.add_subcommand("kernel", "measure a kernel as Triton's do_bench does");
  auto words = std::make_shared<KernelWords>();
  AddLaunchOptions(*kernel, words->launch);
  kernel
      ->add_option("--warmup", words->warmup_ms,
                   "milliseconds of kernel time before measuring (25)")
      ->check(CLI::NonNegativeNumber);
  kernel->add_option("--rep", words->repeat_ms, "milliseconds of kernel time to measure (100)")
      ->check(CLI::PositiveNumber);
  kernel->add_option("--repeats", words->repeats, "measure exactly N launches")
      ->check(CLI::PositiveNumber);
  kernel->add_option("--quantiles", words->quantiles, "Q[,Q...] (0.5,0.2,0.8)");
  kernel
      ->add_option("--l2", words->cache,
                   "cold (default): the last cache is overwritten before each launch; warm")
      ->check(CLI::IsMember({"cold", "warm"}));
  kernel->add_option("--flop", words->flop, "operations of a launch, for TFLOP/s")
      ->check(CLI::PositiveNumber);
  AddConnectionOptions(*kernel, context);
  AddPrivateOption(*kernel, context);
  kernel->callback([=, &context] {
    words->launch.device = DeviceOrDefault(words->launch.device);
    *action = [=, &context] { return RunKernelBench(*words, context); };
  });
}

}  // namespace

void AddBenchCommands(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* bench = app.add_subcommand("bench", "measure a kernel, or tuning policies on a trace");
  bench->require_subcommand(1);
  AddTrace(*bench, context, action);
  AddKernelBench(*bench, context, action);
}

}  // namespace tessera::cli
