#include "client/cli/bench/trace_study.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/small_float.h"
#include "base/status_macros.h"
#include "client/cli/bench/device_choice.h"
#include "client/cli/bench/fused_linear.inc"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kYardstickLaunches = 25, kYardstickBlock = 32, kYardstickColumns = 1024,
              kYardstickK = 1024;
constexpr int kSideBySideRounds = 31;
// Longer than any search of 24 configurations takes.
constexpr double kTuneBudgetSeconds = 300;

std::vector<uint16_t> RandomHalves(size_t count, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> some(65521), all(count);  // a prime: rows differ
  for (uint16_t& half : some) half = FloatToHalf(static_cast<float>(normal(random) * scale));
  for (size_t i = 0; i < count; ++i) all[i] = some[i % some.size()];
  return all;
}

// The kernel under a name of its own on one daemon, and memory for the largest shape.
class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(Client& client, const Workload& workload,
                                                       const std::string& name,
                                                       const std::string& device) {
    std::unique_ptr<Session> session(new Session(client));
    // Unique on a daemon that ran a study before.
    session->kernel_ = absl::StrCat("fused_linear_", name, "_", getpid(), "_",
                                    absl::ToUnixMicros(absl::Now()) % 1000000007);
    std::string source = absl::StrReplaceAll(
        kFusedLinearSource, {{"def fused_linear(", absl::StrCat("def ", session->kernel_, "(")}});
    ASSIGN_OR_RETURN(v1::RegisterModuleResponse module,
                     client.RegisterModule({{"fused_linear.py", source}}));
    session->module_ = module.module();
    ASSIGN_OR_RETURN(session->device_, ChooseDevice(client, device));
    int64_t mk = 0, kn = int64_t{kYardstickK} * kYardstickColumns, n = 0,
            mn = int64_t{kYardstickBlock} * kYardstickColumns;
    for (const Shape& shape : workload.shapes) {
      mk = std::max(mk, shape.m * shape.k);
      kn = std::max(kn, shape.k * shape.n);
      n = std::max(n, shape.n);
      mn = std::max(mn, shape.m * shape.n);
    }
    session->a_ = RandomHalves(
        static_cast<size_t>(std::max(mk, int64_t{kYardstickBlock} * kYardstickK)), 1, 11);
    session->b_ = RandomHalves(static_cast<size_t>(kn), 0.04, 12);
    session->bias_ = RandomHalves(static_cast<size_t>(n), 1, 13);
    ASSIGN_OR_RETURN(session->a_region_, session->Region(session->a_));
    ASSIGN_OR_RETURN(session->b_region_, session->Region(session->b_));
    ASSIGN_OR_RETURN(session->bias_region_, session->Region(session->bias_));
    ASSIGN_OR_RETURN(session->out_region_, session->Region(std::vector<uint16_t>(
                                               static_cast<size_t>(mn), 0x7e00)));  // NaN
    return session;
  }

  v1::LaunchRequest Launch(const Shape& shape) const {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel(kernel_);
    launch.set_device(device_.name);
    launch.add_grid_expressions("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)");
    *launch.add_arguments() = RegionArgument("a_ptr", a_region_, DType::kFp16, {shape.m, shape.k});
    *launch.add_arguments() = RegionArgument("b_ptr", b_region_, DType::kFp16, {shape.k, shape.n});
    *launch.add_arguments() = RegionArgument("bias_ptr", bias_region_, DType::kFp16, {shape.n});
    *launch.add_arguments() =
        RegionArgument("out_ptr", out_region_, DType::kFp16, {shape.m, shape.n});
    for (auto [name, value] :
         std::initializer_list<std::pair<const char*, int64_t>>{{"M", shape.m},
                                                                {"N", shape.n},
                                                                {"K", shape.k},
                                                                {"stride_am", shape.k},
                                                                {"stride_ak", 1},
                                                                {"stride_bk", shape.n},
                                                                {"stride_bn", 1},
                                                                {"stride_om", shape.n},
                                                                {"stride_on", 1}})
      *launch.add_arguments() = IntArgument(name, value);
    return launch;
  }

  absl::Status SetPolicy(const StudyPolicy& policy) {
    grpc::ClientContext call;
    v1::SetPolicyRequest request;
    v1::SetPolicyResponse response;
    request.set_kernel(kernel_);
    request.set_policy(policy.server_policy);
    request.set_frozen(policy.frozen);
    return StatusOf(client_.tuning().SetPolicy(&call, request, &response), call);
  }

  absl::Status Tune(const v1::LaunchRequest& launch, const v1::Kernel* kernel,
                    const StudyPolicy& policy, const std::string& effort) {
    grpc::ClientContext call;
    v1::TuneRequest request;
    v1::TuneResponse response;
    *request.mutable_launch() = launch;
    request.mutable_launch()->set_session(client_.session());
    request.set_effort(effort);
    request.set_budget_seconds(kTuneBudgetSeconds);
    for (int candidate : policy.candidates) *request.add_configs() = kernel->configs(candidate);
    return StatusOf(client_.tuning().Tune(&call, request, &response), call);
  }

  absl::StatusOr<v1::Kernel> Describe() {
    grpc::ClientContext call;
    v1::DescribeModuleRequest request;
    v1::RegisterModuleResponse response;
    request.set_module(module_);
    RETURN_IF_ERROR(StatusOf(client_.modules().DescribeModule(&call, request, &response), call));
    for (const v1::Kernel& kernel : response.kernels())
      if (kernel.name() == kernel_) return kernel;
    return absl::InternalError(absl::StrCat("the module has lost ", kernel_));
  }

  absl::StatusOr<double> Yardstick() {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("yardstick");
    launch.set_device(device_.name);
    launch.add_grid(kYardstickColumns / kYardstickBlock);
    *launch.add_arguments() =
        RegionArgument("a_ptr", a_region_, DType::kFp16, {kYardstickBlock, kYardstickK});
    *launch.add_arguments() =
        RegionArgument("b_ptr", b_region_, DType::kFp16, {kYardstickK, kYardstickColumns});
    *launch.add_arguments() =
        RegionArgument("out_ptr", out_region_, DType::kFp16, {kYardstickBlock, kYardstickColumns});
    *launch.add_arguments() = IntArgument("K", kYardstickK);
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(kYardstickBlock));
    std::vector<double> seconds;
    for (int i = 0; i < kYardstickLaunches; ++i) {
      ASSIGN_OR_RETURN(v1::LaunchResponse response, client_.Launch(launch));
      if (i > 2) seconds.push_back(response.kernel_seconds());
    }
    return Median(std::move(seconds));
  }

  // Some elements of the latest result beside double precision: a study of wrong results says
  // nothing.
  absl::Status CheckResult(const Shape& shape) {
    std::vector<uint16_t> out(static_cast<size_t>(shape.m * shape.n));
    ASSIGN_OR_RETURN(std::unique_ptr<SharedBuffer> window, client_.Allocate(out.size() * 2));
    RETURN_IF_ERROR(client_.Copy(out_region_, 0, window->region(), 0, out.size() * 2));
    std::copy_n(window->as<uint16_t>(), out.size(), out.begin());
    std::mt19937_64 random(5);
    for (int i = 0; i < 64; ++i) {
      int64_t m = static_cast<int64_t>(random() % shape.m),
              n = static_cast<int64_t>(random() % shape.n);
      double x = HalfToFloat(bias_[n]);
      for (int64_t k = 0; k < shape.k; ++k)
        x += static_cast<double>(HalfToFloat(a_[m * shape.k + k])) *
             HalfToFloat(b_[k * shape.n + n]);
      double want = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      double got = HalfToFloat(out[m * shape.n + n]);
      if (!(std::abs(got - want) <= 2e-2 + 2e-2 * std::abs(want)))
        return absl::InternalError(
            absl::StrFormat("wrong result for %s: element (%d, %d) is %g, not %g", ShapeText(shape),
                            m, n, got, want));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::ListTuningsResponse> Tunings() {
    grpc::ClientContext call;
    v1::ListTuningsRequest request;
    v1::ListTuningsResponse response;
    request.set_kernel(kernel_);
    RETURN_IF_ERROR(StatusOf(client_.tuning().ListTunings(&call, request, &response), call));
    return response;
  }
  absl::StatusOr<v1::ExplainTuningsResponse> Explain() {
    grpc::ClientContext call;
    v1::ExplainTuningsRequest request;
    v1::ExplainTuningsResponse response;
    request.set_kernel(kernel_);
    RETURN_IF_ERROR(StatusOf(client_.tuning().ExplainTunings(&call, request, &response), call));
    return response;
  }
  absl::Status Forget() {
    grpc::ClientContext call;
    v1::ForgetTuningRequest request;
    v1::ForgetTuningResponse response;
    request.set_kernel(kernel_);
    return StatusOf(client_.tuning().ForgetTuning(&call, request, &response), call);
  }

  const DeviceChoice& device() const { return device_; }

 private:
  explicit Session(Client& client) : client_(client) {}
  absl::StatusOr<uint64_t> Region(const std::vector<uint16_t>& data) {
    return DeviceRegion(client_, device_, data.data(), data.size() * sizeof(data[0]));
  }

  Client& client_;
  std::string kernel_, module_;
  DeviceChoice device_;
  std::vector<uint16_t> a_, b_, bias_;
  uint64_t a_region_ = 0, b_region_ = 0, bias_region_ = 0, out_region_ = 0;
};

struct Counters {
  uint64_t compiles = 0, trials = 0, artifacts = 0, tunings = 0;
  double device_seconds = 0;
};

absl::StatusOr<Counters> ReadCounters(Client& client, Session& session) {
  Counters counters;
  grpc::ClientContext status_call, stats_call;
  v1::GetStatusResponse status;
  RETURN_IF_ERROR(StatusOf(client.admin().GetStatus(&status_call, {}, &status), status_call));
  counters.compiles = status.compiles();
  counters.trials = status.tune_trials();
  v1::CacheStatsResponse stats;
  RETURN_IF_ERROR(StatusOf(client.cache().Stats(&stats_call, {}, &stats), stats_call));
  for (const auto& family : stats.families()) {
    if (family.name() == "artifacts") counters.artifacts = family.entries();
    if (family.name() == "tunings") counters.tunings = family.entries();
  }
  ASSIGN_OR_RETURN(v1::ExplainTuningsResponse explained, session.Explain());
  counters.device_seconds = explained.budget().spent_seconds();
  return counters;
}

// Calls that ran while a stored tuning was being made. Its end is known to the second: such a
// second counts in full.
uint64_t CallsBesideTunings(const PolicyRun& run, const v1::ListTuningsResponse& tunings,
                            double trace_begin_unix) {
  std::vector<bool> beside(run.calls.size(), false);
  for (const v1::Tuning& tuning : tunings.tunings()) {
    double end = static_cast<double>(tuning.measured_unix_seconds()) + 1 - trace_begin_unix;
    double begin = end - 1 - tuning.tuning_seconds();
    for (size_t i = 0; i < run.calls.size(); ++i)
      if (run.calls[i].begin < end && run.calls[i].begin + run.calls[i].seconds > begin)
        beside[i] = true;
  }
  return static_cast<uint64_t>(std::count(beside.begin(), beside.end(), true));
}

void Say(const StudyOptions& options, const std::string& line) {
  if (options.progress) options.progress(line);
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

size_t SteadyBegin(const PolicyRun& run) {
  size_t count = std::max<size_t>(1, std::min<size_t>(1000, run.calls.size() / 10));
  return run.calls.size() - std::min(count, run.calls.size());
}

const char* StudyKernelSource() { return kFusedLinearSource; }

const std::vector<StudyPolicy>& StudyPolicies() {
  static const auto* policies = new std::vector<StudyPolicy>{
      {"exhaustive",
       "all 24 configurations before the first call of a shape",
       "exhaustive",
       true,
       true,
       {}},
      {"candidates",
       "four configurations before the first call of a shape",
       "exhaustive",
       true,
       true,
       {0, 7, 13, 18}},
      {"bucketed",
       "all configurations once for every power-of-two bucket, in the background",
       "bucketed",
       false,
       false,
       {}},
      {"fixed", "the first configuration, nothing is measured", "fixed", false, false, {}},
      {"amortised",
       "what the observed rates repay, in the background",
       "amortised",
       false,
       false,
       {}},
  };
  return *policies;
}

absl::StatusOr<PolicyRun> RunPolicy(const Workload& workload, const StudyPolicy& policy,
                                    const NewDaemon& new_daemon, const StudyOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<StudyDaemon> daemon, new_daemon());
  Client& client = daemon->client();
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                   Session::Open(client, workload, policy.name, options.device));
  RETURN_IF_ERROR(session->SetPolicy(policy));
  ASSIGN_OR_RETURN(v1::Kernel kernel, session->Describe());
  if (kernel.configs_size() != kStudyConfigs)
    return absl::InternalError(
        absl::StrCat("the study's kernel has ", kernel.configs_size(), " configurations"));
  PolicyRun run;
  run.policy = policy.name;
  ASSIGN_OR_RETURN(run.yardstick_seconds[0], session->Yardstick());
  ASSIGN_OR_RETURN(Counters before, ReadCounters(client, *session));

  std::vector<v1::LaunchRequest> launches;
  for (const Shape& shape : workload.shapes) launches.push_back(session->Launch(shape));
  std::vector<bool> seen(workload.shapes.size(), false);
  run.calls.reserve(workload.calls.size());
  double begin_unix = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  Clock::time_point begin = Clock::now(), said = begin;
  for (int shape : workload.calls) {
    Call call;
    call.shape = shape;
    Clock::time_point call_begin = Clock::now();
    call.begin = std::chrono::duration<double>(call_begin - begin).count();
    if (policy.first_use && !seen[shape]) {
      RETURN_IF_ERROR(session->Tune(launches[shape], &kernel, policy, options.effort));
      call.tune_seconds = Since(call_begin);
    }
    ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(launches[shape]));
    call.seconds = Since(call_begin);
    call.kernel_seconds = response.kernel_seconds();
    call.compile_seconds = response.compile_seconds();
    call.config = response.config();
    call.cold = !seen[shape] || response.outcome() != "hit";
    seen[shape] = true;
    run.calls.push_back(call);
    if (Clock::now() - said > std::chrono::seconds(20)) {
      said = Clock::now();
      Say(options, absl::StrFormat("%s, %s: %d of %d calls", workload.name, policy.name,
                                   run.calls.size(), workload.calls.size()));
    }
  }
  run.total_seconds = Since(begin);

  ASSIGN_OR_RETURN(Counters after, ReadCounters(client, *session));
  run.compiles = after.compiles - before.compiles;
  run.trials = after.trials - before.trials;
  run.artifact_entries = after.artifacts - std::min(after.artifacts, before.artifacts);
  run.tuning_entries = after.tunings - std::min(after.tunings, before.tunings);
  run.background_device_seconds = after.device_seconds - before.device_seconds;
  ASSIGN_OR_RETURN(v1::ListTuningsResponse tunings, session->Tunings());
  run.tuned_buckets = static_cast<uint64_t>(tunings.tunings_size());
  if (!policy.first_use) {
    for (const v1::Tuning& tuning : tunings.tunings())
      run.background_seconds += tuning.tuning_seconds();
    // Trials of tunings that were not finished leave no record.
    run.calls_beside_tuning = run.trials > 0 ? CallsBesideTunings(run, tunings, begin_unix) : 0;
    if (run.trials > 0 && tunings.tunings().empty()) run.calls_beside_tuning = run.calls.size();
    ASSIGN_OR_RETURN(v1::ExplainTuningsResponse explained, session->Explain());
    for (const auto& site : explained.sites())
      run.decisions.push_back(absl::StrCat(site.bucket(), ": ", site.state(), ", ", site.calls(),
                                           " calls, ", site.config(), " (", site.config_from(),
                                           "); ", site.decision()));
  }
  ASSIGN_OR_RETURN(run.yardstick_seconds[1], session->Yardstick());
  RETURN_IF_ERROR(client.Launch(launches[0]).status());
  RETURN_IF_ERROR(session->CheckResult(workload.shapes[0]));
  RETURN_IF_ERROR(session->Forget());
  Say(options, absl::StrFormat("%s, %s: %.1f s", workload.name, policy.name, run.total_seconds));
  return run;
}

absl::StatusOr<SideBySide> MeasureSideBySide(const Workload& workload,
                                             const std::vector<std::vector<PolicyRun>>& rounds,
                                             const NewDaemon& new_daemon,
                                             const StudyOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<StudyDaemon> daemon, new_daemon());
  Client& client = daemon->client();
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                   Session::Open(client, workload, "side_by_side", options.device));
  StudyPolicy fixed;
  fixed.server_policy = "fixed";
  RETURN_IF_ERROR(session->SetPolicy(fixed));
  SideBySide result;
  for (int shape = 0; shape < workload.common; ++shape) {
    std::set<int> configs;
    for (const std::vector<PolicyRun>& runs : rounds)
      for (const PolicyRun& run : runs)
        for (size_t i = SteadyBegin(run); i < run.calls.size(); ++i)
          if (run.calls[i].shape == shape) configs.insert(run.calls[i].config);
    v1::LaunchRequest launch = session->Launch(workload.shapes[shape]);
    std::map<int, std::vector<double>> seconds;
    for (int round = 0; round <= kSideBySideRounds; ++round)
      for (int config : configs) {
        launch.set_config(config);
        ASSIGN_OR_RETURN(v1::LaunchResponse response, client.Launch(launch));
        if (round > 0) seconds[config].push_back(response.kernel_seconds());
      }
    for (int config : configs) result.entries.push_back({shape, config, Median(seconds[config])});
  }
  return result;
}

}  // namespace tessera::cli
