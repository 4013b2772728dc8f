#include "server/tuning/tuner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/launch/recipe.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = Pace::Clock;

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

// Of a race: as many as fit into `budget` seconds of one configuration, between bounds. Few stay that long.
int RoundsFor(double seconds, double budget, int least, int most) {
  return seconds > 0 ? static_cast<int>(std::clamp<double>(budget / seconds, least, most))
                     : least;
}

}  // namespace

bool Measured(const storage::TuningRecord::Trial& trial) {
  return trial.failure().empty() && trial.samples() > 0;
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
    const RaceOptions& options, const std::optional<storage::TuningRecord>& known,
    double tuning_seconds) const {
  const TuningPlace& place = subject.place;
  Race race(static_cast<int>(candidates.size()), options);
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
    if (!candidate.in_race) race.Fail(static_cast<int>(i), "not in the latest race");
  }
  Race::Result result = race.Finish();
  if (result.winner < 0)
    return Error(absl::StatusCode::kFailedPrecondition, "NO_CONFIG_RUNS",
                 absl::StrCat("no configuration of ", place.kernel, " ran; the first: ",
                              candidates.empty() || candidates[0].failure.empty()
                                  ? "not measured"
                                  : candidates[0].failure));
  record.set_chosen(static_cast<uint32_t>(trial_of[result.winner]));
  record.set_reason(result.reason);
  if (!known) return record;
  auto trial_like = [](const storage::TuningRecord& one, const storage::TuneConfig& config) {
    return std::find_if(one.trials().begin(), one.trials().end(),
                        [&](const auto& trial) { return SameConfig(trial.config(), config); });
  };
  double now_over_then = 1;
  std::string then_environment;
  if (options.incumbent && trial_of[*options.incumbent] >= 0) {
    const storage::TuningRecord::Trial& now = record.trials(trial_of[*options.incumbent]);
    const auto then = trial_like(*known, now.config());
    if (then != known->trials().end() && Measured(*then) && Measured(now) && then->median_seconds() > 0) {
      now_over_then = now.median_seconds() / then->median_seconds();
      then_environment = then->environment();
    }
  }
  for (const storage::TuningRecord::Trial& trial : known->trials()) {
    if (trial_like(record, trial.config()) != record.trials().end()) continue;
    storage::TuningRecord::Trial* kept = record.add_trials();
    *kept = trial;
    const double scale = trial.environment() == then_environment ? now_over_then : 1;
    kept->set_median_seconds(scale * trial.median_seconds());
    kept->set_low_seconds(scale * trial.low_seconds());
    kept->set_high_seconds(scale * trial.high_seconds());
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
  race.incumbent = incumbent;
  race.min_rounds = effort == "full" ? 15 : 3;
  double shortest = 0;
  for (const Candidate* entrant : entrants)
    if (entrant->admitted && (shortest == 0 || entrant->first_seconds < shortest))
      shortest = entrant->first_seconds;
  race.max_rounds = effort == "full" ? RoundsFor(shortest, 0.2, 31, 401) : RoundsFor(shortest, 0.02, 9, 51);
  race.play_off_rounds = 3 * race.max_rounds;
  contest->Run(entrants, race);
  absl::Status interrupted = contest->interrupted();
  contest.reset();

  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  metrics_->tune_budget_used->Set(seconds / absl::ToDoubleSeconds(budget));
  absl::StatusOr<storage::TuningRecord> made =
      MakeRecord(subject, candidates, race, known, seconds);
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
