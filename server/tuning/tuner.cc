#include "server/tuning/tuner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/launch/recipe.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = Pace::Clock;

// A candidate that is so much slower than the one in force is still worth a full run.
constexpr double kSlowest = 4;
// So much slower than another at first sight, a candidate does not take part in the race.
constexpr double kHopeless = 3;
// Of a launch of which nobody knows how long it takes, a part is run first.
constexpr double kPilotShare = 1.0 / 64;

constexpr size_t kCompilesAhead = 32;
constexpr absl::Duration kSpin = absl::Microseconds(500);

absl::StatusOr<storage::TuneConfig> ToConfig(const api::Config& wire) {
  storage::TuneConfig config;
  for (const api::NamedConstant& value : wire.values()) {
    storage::NamedConstant* named = config.add_values();
    named->set_name(value.name());
    ASSIGN_OR_RETURN(*named->mutable_value(), ToConstant(value.value()));
  }
  MergeOptions(wire.options(), ConfigChoice(), config.mutable_options());
  return config;
}

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

void Summarise(std::vector<double> seconds, storage::TuningRecord::Trial* trial) {
  trial->set_samples(static_cast<uint32_t>(seconds.size()));
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  trial->set_median_seconds(MedianInterval(seconds).median);
  trial->set_low_seconds(Quantile(seconds, 0.2));
  trial->set_high_seconds(Quantile(seconds, 0.8));
}

std::string ReasonOf(const absl::Status& status) {
  std::optional<api::ErrorDetail> detail = DetailOf(status);
  return detail ? detail->reason() : "";
}

// For the metric: few words.
const char* RejectionOf(const absl::Status& status) {
  if (absl::StrContains(status.message(), "out of bounds") || absl::IsOutOfRange(status))
    return "out_of_bounds";
  if (absl::StrContains(status.message(), "wrong result")) return "wrong_result";
  if (absl::StrContains(status.message(), "ran longer")) return "hangs";
  if (absl::StartsWith(status.message(), "slow: ")) return "slow";
  if (absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status)) return "limits";
  if (absl::IsUnavailable(status) || absl::IsAborted(status)) return "faults";
  return "other";
}

// Of a race: as many as fit into `budget` seconds of one configuration, between bounds. Few stay that long.
int RoundsFor(double seconds, double budget, int least, int most) {
  return seconds > 0 ? static_cast<int>(std::clamp<double>(budget / seconds, least, most))
                     : least;
}

absl::Duration TimeLeft(Clock::time_point deadline) {
  return absl::FromChrono(deadline - Clock::now());
}

}  // namespace

bool Measured(const storage::TuningRecord::Trial& trial) {
  return trial.failure().empty() && trial.samples() > 0;
}

std::string ConfigText(const storage::TuneConfig& config) {
  std::vector<std::string> parts;
  for (const storage::NamedConstant& value : config.values())
    parts.push_back(absl::StrCat(value.name(), "=", LiteralText(value.value())));
  const storage::LaunchOptions& options = config.options();
  if (options.num_warps() > 0) parts.push_back(absl::StrCat("num_warps=", options.num_warps()));
  if (options.num_stages() > 0) parts.push_back(absl::StrCat("num_stages=", options.num_stages()));
  if (options.num_ctas() > 0) parts.push_back(absl::StrCat("num_ctas=", options.num_ctas()));
  if (options.maxnreg() > 0) parts.push_back(absl::StrCat("maxnreg=", options.maxnreg()));
  return absl::StrJoin(parts, " ");
}

absl::StatusOr<std::unique_ptr<Contest>> Contest::Create(
    const api::LaunchRequest& launch, const TuningSubject& subject, Parts parts,
    Clock::time_point deadline, double expected_seconds, bool background,
    const TunerLimits& limits) {
  std::unique_ptr<Contest> contest(new Contest);
  contest->parts_ = parts;
  contest->device_ = subject.device->tuning();
  contest->deadline_ = deadline;
  contest->expected_seconds_ = expected_seconds;
  contest->background_ = background;
  contest->overwritten_ = subject.overwritten;
  contest->limits_ = limits;
  // Here, and not on a thread that launches share.
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, contest->device_->Start());
  contest->restarts_ = executor->restarts();
  ASSIGN_OR_RETURN(
      contest->scratch_,
      ScratchLaunch::Create(launch, *subject.kernel,
                            {parts.launcher, parts.modules, parts.sessions, background},
                            contest->device_, limits.scratch_bytes));
  return contest;
}

Contest::~Contest() {
  if (scratch_ == nullptr) return;
  // A restarted executor refuses the candidates that killed it: the next contest gives them another chance.
  if (device_->started()->restarts() != restarts_)
    parts_.kept->Drop(kernel());
  else
    parts_.kept->Keep(kernel(), parts_.launcher->CountVariants(kernel().module, kernel().kernel,
                                                               kernel().device));
}

KeptCandidates::Kernel Contest::kernel() const {
  return {scratch_->request().module(), scratch_->request().kernel(), device_->index()};
}

std::shared_ptr<Contest::Pending> Contest::Begin(const Candidate& candidate, double grid_share,
                                                 bool prepare_only) {
  api::LaunchRequest request = scratch_->request();
  request.set_config(candidate.index);
  if (candidate.index == 0) {
    *request.mutable_config_values() = candidate.on_wire.values();
    *request.mutable_options() = candidate.on_wire.options();
  }
  // Shared: the launch may end after we gave up on it.
  auto pending = std::make_shared<Pending>();
  LaunchWait wait;
  wait.timeout = prepare_only ? limits_.compile_limit : limits_.launch_limit;
  wait.may_compile = true;
  wait.is_traffic = false;
  wait.background = background_;
  wait.prepare_only = prepare_only;
  wait.tuning_device = device_;
  // Launches of clients wait for its end: the way back from a GPU is no place to sleep.
  if (!prepare_only && device_->description().is_gpu()) wait.spin = kSpin;
  if (grid_share < 1) {
    pending->share = std::make_shared<GridShare>();
    pending->share->wanted = grid_share;
    wait.grid_share = pending->share;
  }
  parts_.launcher->Launch(request, wait, &pending->response, [pending](absl::Status status) {
    pending->ended.set_value(std::move(status));
  });
  return pending;
}

absl::StatusOr<double> Contest::Launch(const Candidate& candidate, double grid_share) {
  std::shared_ptr<Pending> pending = Begin(candidate, grid_share, /*prepare_only=*/false);
  RETURN_IF_ERROR(pending->status.get());
  return pending->response.kernel_seconds() / (pending->share ? pending->share->ran : 1);
}

bool Contest::Blame(Candidate* candidate, const absl::Status& status) {
  std::string reason = ReasonOf(status);
  if (absl::IsDeadlineExceeded(status) && reason != "COMPILE_TIMEOUT") {
    interrupted_ = status;
    return false;
  }
  if (!parts_.launcher->accepts() || reason == "COMPILE_QUEUE_FULL" || reason == "TOO_MANY_LAUNCHES" ||
      absl::IsUnauthenticated(status) || absl::IsCancelled(status) ||
      (absl::IsUnavailable(status) && reason.empty())) {
    interrupted_ = status;
    return false;
  }
  candidate->failure = std::string(status.message());
  parts_.metrics->CountRejectedCandidate(RejectionOf(status));
  spdlog::info("tuning {}: candidate {} is rejected: {}", scratch_->request().kernel(),
               ConfigText(candidate->config), candidate->failure);
  return true;
}

// How long a full run takes, from a part of it that fits between launches.
absl::StatusOr<double> Contest::Estimate(const Candidate& candidate) {
  double share = kPilotShare;
  if (expected_seconds_ > 0) {
    share = parts_.pace->FittingShare(kSlowest * expected_seconds_);
    if (share >= 1) return expected_seconds_;
  }
  auto once = [&] {
    return parts_.pace->RunOnce(deadline_, 0, [&] { return Launch(candidate, share); });
  };
  ASSIGN_OR_RETURN(double seconds, once());
  if (!parts_.pace->options().yields) return seconds;
  // A short part: that it ran for the first time shows.
  ASSIGN_OR_RETURN(double again, once());
  return std::min(seconds, again);
}

absl::Status Contest::Check(Candidate* candidate, bool later) {
  const bool yields = parts_.pace->options().yields;
  double expected = expected_seconds_;
  if (reference_ || expected <= 0 || yields) {
    ASSIGN_OR_RETURN(expected, Estimate(*candidate));
  }
  if (!reference_) return MakeReference(candidate, expected);
  // What is slower than the one in force, and too long to run between launches, is not waited for.
  if (!yields && !parts_.pace->Fits(expected) && expected > reference_->first_seconds)
    return absl::FailedPreconditionError(absl::StrFormat(
        "slow: by a part of its grid it takes %.3g ms, the configuration in force %.3g ms",
        expected * 1e3, reference_->first_seconds * 1e3));
  if (later && yields && parts_.pace->FittingShare(expected) < 1 && scratch_->MarginsIntact()) {
    candidate->first_seconds = expected;
    return absl::OkStatus();
  }
  return CompareWithReference(candidate, expected);
}

absl::StatusOr<double> Contest::RunWhole(const Candidate& candidate, double expected) {
  RETURN_IF_ERROR(scratch_->Restore());
  ASSIGN_OR_RETURN(double seconds, parts_.pace->RunOnce(deadline_, expected, [&] {
    return Launch(candidate, 1);
  }));
  // Beside launches, as it may have run, it took longer than it takes.
  return parts_.pace->options().yields ? std::min(seconds, expected) : seconds;
}

absl::Status Contest::MakeReference(Candidate* candidate, double expected) {
  ASSIGN_OR_RETURN(candidate->first_seconds, RunWhole(*candidate, expected));
  RETURN_IF_ERROR(scratch_->KeepReference());
  reference_ = *candidate;
  compared_.insert(candidate->index);
  if (expected_seconds_ <= 0) expected_seconds_ = candidate->first_seconds;
  FindOverwritten();
  return absl::OkStatus();
}

absl::Status Contest::CompareWithReference(Candidate* candidate, double expected) {
  ASSIGN_OR_RETURN(candidate->first_seconds, RunWhole(*candidate, expected));
  ASSIGN_OR_RETURN(std::string difference, scratch_->Compare());
  if (!difference.empty()) return absl::FailedPreconditionError(difference);
  compared_.insert(candidate->index);
  return absl::OkStatus();
}

absl::StatusOr<bool> Contest::Verify(Candidate* candidate) {
  if (compared_.count(candidate->index) > 0) return true;
  absl::Status status = CompareWithReference(candidate, candidate->first_seconds);
  if (status.ok()) return true;
  if (!Blame(candidate, status) || !IsSound(*candidate)) return interrupted_;
  return false;
}

bool Contest::IsSound(const Candidate& rejected) {
  if (!reference_ || !scratch_->exposed()) return true;
  absl::Status status = scratch_->Restore();
  if (status.ok())
    status = parts_.pace
                 ->RunOnce(deadline_, expected_seconds_, [&] { return Launch(*reference_, 1); })
                 .status();
  absl::StatusOr<std::string> difference =
      status.ok() ? scratch_->Compare() : absl::StatusOr<std::string>(status);
  if (!difference.ok())
    interrupted_ = difference.status();
  else if (!difference->empty())
    interrupted_ = absl::InternalError(absl::StrCat("candidate ", ConfigText(rejected.config),
                                                    " damaged the copies, or results vary: ",
                                                    *difference));
  return interrupted_.ok();
}

absl::StatusOr<bool> Contest::AgreesPoisoned() {
  RETURN_IF_ERROR(scratch_->Restore());
  RETURN_IF_ERROR(
      parts_.pace->RunOnce(deadline_, expected_seconds_, [&] { return Launch(*reference_, 1); })
          .status());
  return scratch_->Agrees();
}

void Contest::FindOverwritten() {
  const int tensors = scratch_->tensors();
  if (overwritten_.size() == static_cast<size_t>(tensors)) {
    for (int i = 0; i < tensors; ++i) scratch_->Poison(i, overwritten_[i] && scratch_->MayPoison(i));
    absl::StatusOr<bool> agrees = AgreesPoisoned();
    if (agrees.ok() && *agrees) return;
    for (int i = 0; i < tensors; ++i) scratch_->Poison(i, false);
  }
  overwritten_.assign(tensors, false);
  for (int i = 0; i < tensors; ++i) {
    if (!scratch_->MayPoison(i)) continue;
    scratch_->Poison(i, true);
    absl::StatusOr<bool> agrees = AgreesPoisoned();
    overwritten_[i] = agrees.ok() && *agrees;
    scratch_->Poison(i, overwritten_[i]);
    if (!agrees.ok()) return overwritten_.clear();
  }
}

void Contest::Admit(const std::vector<Candidate*>& candidates, bool later) {
  for (Candidate* candidate : candidates)
    if (auto known = admitted_.find(candidate->index); candidate->index > 0 && known != admitted_.end()) {
      candidate->admitted = true;
      candidate->first_seconds = known->second;
    }
  // The compiler works on the next ones while the first are checked.
  std::vector<std::shared_ptr<Pending>> prepared;
  for (size_t i = 0; i < candidates.size(); ++i) {
    while (prepared.size() < std::min(candidates.size(), i + kCompilesAhead)) {
      const Candidate& next = *candidates[prepared.size()];
      prepared.push_back(next.admitted || !next.failure.empty()
                             ? nullptr
                             : Begin(next, 1, /*prepare_only=*/true));
    }
    if (prepared[i] == nullptr) continue;
    Candidate* candidate = candidates[i];
    if (Clock::now() > deadline_ && interrupted_.ok())
      interrupted_ = absl::DeadlineExceededError("the budget ran out");
    if (!interrupted_.ok()) return;
    // Where compiles and candidates share processors they do not run at the same time.
    const size_t last = parts_.pace->options().yields && background_ ? prepared.size() : i + 1;
    for (size_t j = i; j < last; ++j) {
      if (prepared[j] == nullptr) continue;
      absl::Duration patience = std::max(TimeLeft(deadline_), absl::ZeroDuration());
      if (prepared[j]->status.wait_for(absl::ToChronoNanoseconds(patience)) ==
          std::future_status::ready)
        continue;
      interrupted_ = absl::DeadlineExceededError("the budget ran out while candidates compiled");
      return;
    }
    absl::Status status = prepared[i]->status.get();
    candidate->compile_seconds = prepared[i]->response.compile_seconds();
    const bool is_there = status.ok();
    if (is_there) {
      parts_.metrics->tune_trials->Increment();
      status = Check(candidate, later);
    }
    candidate->admitted = status.ok();
    if (status.ok()) admitted_[candidate->index] = candidate->first_seconds;
    if (!status.ok() && !Blame(candidate, status)) return;
    if (is_there && !status.ok() && !IsSound(*candidate)) return;
  }
}

void Contest::Run(const std::vector<Candidate*>& candidates, const RaceOptions& options) {
  Race race(static_cast<int>(candidates.size()), options);
  double longest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i]->seconds.clear();
    if (candidates[i]->admitted)
      longest = std::max(longest, candidates[i]->first_seconds);
    else
      race.Fail(static_cast<int>(i), "not admitted");
  }
  // The hopeless are not timed again: they would hold up launches, or cut down the others' grids. The first one is what
  // others are compared with.
  double least = longest;
  for (const Candidate* candidate : candidates)
    if (candidate->admitted) least = std::min(least, candidate->first_seconds);
  longest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]->admitted) continue;
    if (i == 0 || candidates[i]->first_seconds <= kHopeless * least) {
      longest = std::max(longest, candidates[i]->first_seconds);
    } else {
      candidates[i]->seconds.push_back(candidates[i]->first_seconds);
      race.Fail(static_cast<int>(i), "much slower than another");
    }
  }
  // One share for all, so that their times compare; the whole grid only while nobody is there.
  double share = parts_.pace->FittingShare(longest);
  for (std::vector<int> round = race.NextRound(); !round.empty(); round = race.NextRound()) {
    for (int i : round) {
      Candidate& candidate = *candidates[i];
      // The first round may run over the budget: without it nothing is known.
      if (race.rounds() > 1 && Clock::now() > deadline_) return;
      if (share == 1 && parts_.pace->FittingShare(longest) < 1) return Run(candidates, options);
      absl::Status prepared = scratch_->PrepareTimedRun();
      absl::StatusOr<double> seconds =
          prepared.ok()
              ? parts_.pace->Measure(deadline_, [&] { return Launch(candidate, share); })
              : prepared;
      if (seconds.ok()) {
        candidate.seconds.push_back(*seconds);
        race.Add(i, *seconds);
      } else if (Blame(&candidate, seconds.status())) {
        candidate.admitted = false;
        race.Fail(i, candidate.failure);
      } else {
        return;
      }
    }
  }
}

absl::StatusOr<TuningSubject> Tuner::Inspect(const api::LaunchRequest& launch) {
  // Shared: set_value may still run when the waiter has gone on.
  auto loaded = std::make_shared<std::promise<absl::Status>>();
  modules_->Load(launch.module(), absl::InfiniteDuration(),
                 [loaded](absl::StatusOr<std::shared_ptr<const Module>> module) {
                   loaded->set_value(module.status());
                 });
  RETURN_IF_ERROR(loaded->get_future().get());
  TuningSubject subject;
  RETURN_IF_ERROR(launcher_->Inspect(
      launch, [&](const std::shared_ptr<KernelModel>& kernel, const BoundLaunch& bound,
                  Device* device) {
        subject.kernel = kernel;
        subject.device = device;
        subject.place = table_->PlaceOf(*kernel, bound, *device);
      }));
  return subject;
}

std::vector<Candidate> Tuner::CandidatesOf(const KernelModel& kernel) const {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < kernel.configs().size(); ++i) {
    Candidate candidate;
    candidate.config = kernel.configs()[i].config;
    candidate.index = static_cast<int>(i) + 1;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

absl::StatusOr<std::unique_ptr<Contest>> Tuner::NewContest(
    const api::LaunchRequest& launch, const TuningSubject& subject, Pace* pace,
    Clock::time_point deadline, double expected_seconds, bool background) {
  if (subject.device->tuning() == nullptr)
    return Error(absl::StatusCode::kUnimplemented, "NO_TUNING_EXECUTOR",
                 absl::StrCat("nothing is tuned on device ", subject.device->name()));
  return Contest::Create(launch, subject,
                         {launcher_, sessions_, modules_, metrics_, &kept_, pace}, deadline,
                         expected_seconds, background, limits_);
}

std::string Tuner::Environment(const Device& device) const {
  const DeviceDescription& description = device.description();
  if (!description.is_gpu()) return compiler_build_;
  return absl::StrCat(compiler_build_, ", driver ", description.driver_version);
}

bool Tuner::IsKnown(const std::optional<storage::TuningRecord>& record, const Device& device,
                    const storage::TuneConfig& config) const {
  if (!record) return false;
  for (const storage::TuningRecord::Trial& trial : record->trials())
    if (trial.environment() == Environment(device) &&
        (trial.samples() > 0 || !trial.failure().empty()) && SameConfig(trial.config(), config))
      return true;
  return false;
}

double Tuner::CompileSeconds(const std::string& kernel) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = compile_seconds_.find(kernel);
  return found == compile_seconds_.end() ? 0 : found->second;
}

void Tuner::ObserveCompiles(const std::string& kernel, const std::vector<Candidate*>& candidates) {
  // The shortest: the others waited for a worker, too.
  double seconds = 0;
  for (const Candidate* candidate : candidates)
    if (candidate->compile_seconds > 0 && (seconds == 0 || candidate->compile_seconds < seconds))
      seconds = candidate->compile_seconds;
  if (seconds == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  auto [it, is_new] = compile_seconds_.emplace(kernel, seconds);
  if (!is_new) it->second = 0.5 * it->second + 0.5 * seconds;
}

absl::StatusOr<storage::TuningRecord> Tuner::MakeRecord(
    const TuningSubject& subject, const std::vector<Candidate>& candidates,
    std::optional<int> in_force, const std::optional<storage::TuningRecord>& known,
    double tuning_seconds) const {
  const TuningPlace& place = subject.place;
  Race race(static_cast<int>(candidates.size()));
  storage::TuningRecord record;
  record.set_kernel(place.kernel);
  record.set_module(place.module);
  record.set_source(place.source);
  record.set_bucket(place.bucket);
  record.set_device(place.model);
  record.set_sample(
      absl::StrCat(place.exact, place.others.empty() ? "" : ", ", place.others));
  record.set_tuning_seconds(tuning_seconds);
  record.set_measured_unix_seconds(absl::ToUnixSeconds(absl::Now()));
  std::vector<int> trial_of(candidates.size(), -1);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (candidate.seconds.empty() && candidate.failure.empty()) {
      race.Fail(static_cast<int>(i), "not measured");
      continue;
    }
    trial_of[i] = record.trials_size();
    storage::TuningRecord::Trial* trial = record.add_trials();
    *trial->mutable_config() = candidate.config;
    trial->set_failure(candidate.failure);
    trial->set_environment(Environment(*subject.device));
    Summarise(candidate.seconds, trial);
    for (double seconds : candidate.seconds) race.Add(static_cast<int>(i), seconds);
    if (!candidate.failure.empty()) race.Fail(static_cast<int>(i), candidate.failure);
  }
  Race::Result result = race.Finish(in_force);
  if (result.winner < 0)
    return Error(absl::StatusCode::kFailedPrecondition, "NO_CONFIG_RUNS",
                 absl::StrCat("no configuration of ", place.kernel, " ran; the first: ",
                              candidates.empty() || candidates[0].failure.empty()
                                  ? "not measured"
                                  : candidates[0].failure));
  record.set_chosen(static_cast<uint32_t>(trial_of[result.winner]));
  record.set_reason(result.reason);
  if (!known) return record;
  for (const storage::TuningRecord::Trial& trial : known->trials()) {
    bool again = std::any_of(record.trials().begin(), record.trials().end(), [&](const auto& other) {
      return SameConfig(other.config(), trial.config());
    });
    if (!again) *record.add_trials() = trial;
  }
  *record.mutable_warnings() = known->warnings();
  if (!known->pinned() || known->chosen() >= static_cast<uint32_t>(known->trials_size()))
    return record;
  const storage::TuneConfig& pinned = known->trials(static_cast<int>(known->chosen())).config();
  for (int i = 0; i < record.trials_size(); ++i)
    if (SameConfig(record.trials(i).config(), pinned)) {
      record.set_chosen(static_cast<uint32_t>(i));
      record.set_pinned(true);
      record.set_reason("pinned");
    }
  return record;
}

absl::Status Tuner::Publish(const api::LaunchRequest& launch, const TuningSubject& subject,
                            storage::TuningRecord record) {
  // Loaded before launches ask for it: the first one with the new configuration finds it there.
  const storage::TuneConfig& config = record.trials(static_cast<int>(record.chosen())).config();
  for (size_t i = 0; i < subject.kernel->configs().size(); ++i) {
    if (!SameConfig(subject.kernel->configs()[i].config, config)) continue;
    struct Ready {
      api::LaunchResponse response;
      std::promise<absl::Status> status;
    };
    auto ready = std::make_shared<Ready>();
    api::LaunchRequest request = launch;
    request.set_config(static_cast<int>(i) + 1);
    LaunchWait wait;
    wait.timeout = limits_.launch_limit;
    wait.may_compile = true;
    wait.is_traffic = false;
    wait.background = true;
    wait.prepare_only = true;
    launcher_->Launch(request, wait, &ready->response,
                      [ready](absl::Status status) { ready->status.set_value(std::move(status)); });
    if (absl::Status status = ready->status.get_future().get(); !status.ok())
      spdlog::info("{} is not loaded before it is needed: {}", subject.kernel->name(),
                   status.ToString());
    break;
  }
  return table_->Put(std::move(record));
}

absl::StatusOr<storage::TuningRecord> Tuner::Tune(const api::TuneRequest& request) {
  Clock::time_point start = Clock::now();
  const std::string& effort = request.effort();
  if (effort != "" && effort != "none" && effort != "quick" && effort != "full")
    return Error(absl::StatusCode::kInvalidArgument, "BAD_EFFORT",
                 absl::StrCat("'", effort, "' is no effort; accepted: none, quick, full"));
  absl::Duration budget = request.budget_seconds() > 0 ? absl::Seconds(request.budget_seconds())
                                                       : limits_.default_budget;
  budget = std::min(budget, limits_.longest_budget);
  Clock::time_point deadline = start + absl::ToChronoNanoseconds(budget);
  ASSIGN_OR_RETURN(TuningSubject subject, Inspect(request.launch()));
  const KernelModel& kernel = *subject.kernel;
  const TuningPlace& place = subject.place;

  std::vector<Candidate> candidates;
  for (const api::Config& wire : request.configs()) {
    Candidate candidate;
    ASSIGN_OR_RETURN(candidate.config, ToConfig(wire));
    RETURN_IF_ERROR(kernel.ModelConfig(candidate.config).status());
    candidate.on_wire = wire;
    candidates.push_back(std::move(candidate));
  }
  if (request.configs().empty()) {
    std::vector<bool> kept = KeptConfigs(kernel, request.launch());
    for (Candidate& candidate : CandidatesOf(kernel))
      if (kept[candidate.index - 1]) candidates.push_back(std::move(candidate));
  }
  if (candidates.empty())
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_AUTOTUNED",
                 absl::StrCat("kernel ", kernel.name(), " has no configurations to choose from"));
  if (candidates.size() > static_cast<size_t>(limits_.candidates))
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CANDIDATES",
                 absl::StrCat(candidates.size(), " configurations; the limit of a tuning is ",
                              limits_.candidates));
  std::optional<storage::TuningRecord> known =
      table_->Record(place.kernel, place.source, place.bucket, place.model);
  if (effort == "none") {
    if (known) return *known;
    return Error(absl::StatusCode::kNotFound, "NOT_TUNED",
                 absl::StrCat("nothing is known of ", kernel.name(), " for ", place.bucket));
  }

  // The one in force comes first: others are compared with its result. It is measured again with
  // those that are new.
  const storage::TuneConfig* in_force = nullptr;
  if (known && known->chosen() < static_cast<uint32_t>(known->trials_size()))
    in_force = &known->trials(static_cast<int>(known->chosen())).config();
  else if (request.configs().empty())
    in_force = &candidates[0].config;
  auto is_in_force = [&](const Candidate& candidate) {
    return in_force != nullptr && SameConfig(candidate.config, *in_force);
  };
  auto is_known = [&](const Candidate& candidate) {
    return effort != "full" && IsKnown(known, *subject.device, candidate.config);
  };
  if (std::all_of(candidates.begin(), candidates.end(), is_known)) return *known;
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate& candidate) {
                                    return is_known(candidate) && !is_in_force(candidate);
                                  }),
                   candidates.end());
  auto first = std::find_if(candidates.begin(), candidates.end(), is_in_force);
  std::optional<int> incumbent;
  if (first != candidates.end()) {
    std::rotate(candidates.begin(), first, first + 1);
    incumbent = 0;
  }

  PaceOptions pace_options = PaceFor(*subject.device);
  pace_options.device_share = 1;  // somebody asked for it and waits
  pace_options.patience_for_idle = absl::Seconds(1);
  Pace pace(subject.device->gate(), pace_options);
  pace.FitBound();
  ASSIGN_OR_RETURN(std::unique_ptr<Contest> contest,
                   NewContest(request.launch(), subject, &pace, deadline, 0, false));
  std::vector<Candidate*> entrants;
  for (Candidate& candidate : candidates) entrants.push_back(&candidate);
  contest->Admit(entrants);
  ObserveCompiles(kernel.name(), entrants);
  RaceOptions race;
  race.min_rounds = effort == "full" ? 15 : 3;
  double shortest = 0;
  for (const Candidate* entrant : entrants)
    if (entrant->admitted && (shortest == 0 || entrant->first_seconds < shortest))
      shortest = entrant->first_seconds;
  race.max_rounds = effort == "full" ? RoundsFor(shortest, 0.2, 31, 401) : RoundsFor(shortest, 0.02, 9, 51);
  contest->Run(entrants, race);
  absl::Status interrupted = contest->interrupted();
  contest.reset();

  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  metrics_->tune_budget_used->Set(seconds / absl::ToDoubleSeconds(budget));
  absl::StatusOr<storage::TuningRecord> made =
      MakeRecord(subject, candidates, incumbent, known, seconds);
  if (!made.ok()) return interrupted.ok() ? made.status() : interrupted;
  if (!interrupted.ok())
    made->set_reason(absl::StrCat(made->reason(), "; ended early: ", interrupted.message()));
  if (!incumbent || made->chosen() != 0) metrics_->tune_config_changes->Increment();
  metrics_->tune_seconds->Observe(seconds);
  if (absl::Status stored = Publish(request.launch(), subject, *made); !stored.ok())
    spdlog::warn("storing the tuning of {}: {}", kernel.name(), stored.ToString());
  spdlog::info("tuned {} for {}: {} ({})", kernel.name(), place.bucket,
               ConfigText(made->trials(static_cast<int>(made->chosen())).config()),
               made->reason());
  return made;
}

}  // namespace tessera::server
