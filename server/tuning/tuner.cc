#include "server/tuning/tuner.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"
#include "server/tuning/race.h"
#include "server/tuning/scratch_launch.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

RaceOptions RaceFor(const std::string& effort) {
  RaceOptions options;
  options.min_rounds = effort == "full" ? 7 : 3;
  options.max_rounds = effort == "full" ? 25 : 7;
  return options;
}

struct Candidate {
  KernelModel::Config config;
  int index = 0;  // of the kernel's list, from 1; 0: given by the request
};

// What a race knows of an entrant, for the record.
storage::TuningRecord::Trial TrialOf(const Race& race, int entrant, const Candidate& candidate) {
  storage::TuningRecord::Trial trial;
  *trial.mutable_config() = candidate.config.config;
  trial.set_failure(race.failure(entrant));
  std::vector<double> seconds = race.samples(entrant);
  trial.set_samples(static_cast<uint32_t>(seconds.size()));
  if (seconds.empty()) return trial;
  trial.set_median_seconds(MedianInterval(seconds).median);
  std::sort(seconds.begin(), seconds.end());
  auto quantile = [&](double share) {
    return seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1) + 0.5)];
  };
  trial.set_low_seconds(quantile(0.2));
  trial.set_high_seconds(quantile(0.8));
  return trial;
}

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

// The request's launch with this configuration in force.
api::LaunchRequest WithCandidate(const api::LaunchRequest& launch, const Candidate& candidate,
                                 const api::Config* wire) {
  api::LaunchRequest request = launch;
  request.clear_config_values();
  request.set_config(candidate.index);
  if (candidate.index == 0 && wire != nullptr) {
    *request.mutable_config_values() = wire->values();
    *request.mutable_options() = wire->options();
  }
  return request;
}

}  // namespace

absl::StatusOr<api::LaunchResponse> Tuner::LaunchAndWait(const api::LaunchRequest& request,
                                                         absl::Duration timeout) {
  // Shared: the launch may end after we gave up on it.
  struct Pending {
    api::LaunchResponse response;
    std::promise<absl::Status> ended;
  };
  auto pending = std::make_shared<Pending>();
  std::future<absl::Status> ended = pending->ended.get_future();
  LaunchWait wait;
  wait.timeout = timeout;
  wait.may_compile = true;  // candidates are compiled on purpose
  launcher_->Launch(request, wait, &pending->response, [pending](absl::Status status) {
    pending->ended.set_value(std::move(status));
  });
  RETURN_IF_ERROR(ended.get());
  return pending->response;
}

absl::StatusOr<storage::TuningRecord> Tuner::Tune(const api::TuneRequest& request) {
  Clock::time_point start = Clock::now();
  absl::Duration budget = request.budget_seconds() > 0 ? absl::Seconds(request.budget_seconds())
                                                       : limits_.default_budget;
  budget = std::min(budget, limits_.longest_budget);
  Clock::time_point deadline = start + absl::ToChronoMilliseconds(budget);
  auto time_left = [&] { return absl::FromChrono(deadline - Clock::now()); };

  // Shared: set_value may still run when the waiter has gone on.
  auto loaded = std::make_shared<std::promise<absl::Status>>();
  modules_->Load(request.launch().module(), absl::InfiniteDuration(),
                 [loaded](absl::StatusOr<std::shared_ptr<const Module>> module) {
                   loaded->set_value(module.status());
                 });
  RETURN_IF_ERROR(loaded->get_future().get());
  ASSIGN_OR_RETURN(Launcher::Inspection inspection, launcher_->Inspect(request.launch()));
  const KernelModel& kernel = *inspection.kernel;

  std::vector<Candidate> candidates;
  for (const api::Config& wire : request.configs()) {
    ASSIGN_OR_RETURN(storage::TuneConfig config, ToConfig(wire));
    Candidate candidate;
    ASSIGN_OR_RETURN(candidate.config, kernel.ModelConfig(std::move(config)));
    candidates.push_back(std::move(candidate));
  }
  if (request.configs().empty())
    for (size_t i = 0; i < kernel.configs().size(); ++i) {
      Candidate candidate;
      ASSIGN_OR_RETURN(candidate.config, kernel.ModelConfig(kernel.configs()[i].config));
      candidate.index = static_cast<int>(i) + 1;
      candidates.push_back(std::move(candidate));
    }
  if (candidates.empty())
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_AUTOTUNED",
                 absl::StrCat("kernel ", kernel.name(), " has no configurations to choose from"));

  const std::string& model = inspection.device->description().model;
  std::optional<storage::TuningRecord> known =
      table_->Record(kernel.name(), kernel.module().id, inspection.bucket, model);
  if (request.effort() == "none") {
    if (known) return *known;
    return Error(absl::StatusCode::kNotFound, "NOT_TUNED",
                 absl::StrCat("nothing is known of ", kernel.name(), " for ", inspection.bucket));
  }
  if (request.effort() != "" && request.effort() != "quick" && request.effort() != "full")
    return Error(
        absl::StatusCode::kInvalidArgument, "BAD_EFFORT",
        absl::StrCat("'", request.effort(), "' is no effort; accepted: none, quick, full"));

  ASSIGN_OR_RETURN(
      std::unique_ptr<ScratchLaunch> scratch,
      ScratchLaunch::Create(request.launch(), sessions_, inspection.device, limits_.scratch_bytes));
  auto run = [&](size_t i) -> absl::StatusOr<double> {
    const api::Config* wire =
        request.configs().empty() ? nullptr : &request.configs(static_cast<int>(i));
    metrics_->tune_trials->Increment();
    ASSIGN_OR_RETURN(
        api::LaunchResponse response,
        LaunchAndWait(WithCandidate(scratch->request(), candidates[i], wire), time_left()));
    return response.kernel_seconds();
  };
  Race race(static_cast<int>(candidates.size()), RaceFor(request.effort()));
  // Once each to compile, load and warm; what fails here is out.
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (Clock::now() > deadline) {
      race.Fail(static_cast<int>(i), "not measured: the budget ran out");
      continue;
    }
    if (absl::StatusOr<double> first = run(i); !first.ok())
      race.Fail(static_cast<int>(i), std::string(first.status().message()));
    RETURN_IF_ERROR(scratch->Restore());
  }
  for (std::vector<int> round = race.NextRound(); !round.empty(); round = race.NextRound())
    for (int i : round) {
      // The first round may run over the budget: without it nothing is known.
      if (race.rounds() > 1 && Clock::now() > deadline) continue;
      absl::StatusOr<double> seconds = run(static_cast<size_t>(i));
      if (seconds.ok())
        race.Add(i, *seconds);
      else
        race.Fail(i, std::string(seconds.status().message()));
    }

  storage::TuningRecord record;
  record.set_kernel(kernel.name());
  record.set_module(kernel.module().id);
  record.set_bucket(inspection.bucket);
  record.set_device(model);
  std::vector<storage::TuningRecord::Trial> trials;
  std::optional<int> incumbent;
  for (const Candidate& candidate : candidates) {
    storage::TuningRecord::Trial trial =
        TrialOf(race, static_cast<int>(trials.size()), candidate);
    if (known && known->chosen() < static_cast<uint32_t>(known->trials_size()) &&
        known->trials(known->chosen()).config().SerializeAsString() ==
            trial.config().SerializeAsString())
      incumbent = static_cast<int>(trials.size());
    trials.push_back(std::move(trial));
  }
  // Nobody decided yet: the first configuration is the one in force.
  if (!known && request.configs().empty()) incumbent = 0;
  Race::Result result = race.Finish(incumbent);
  if (result.winner < 0)
    return Error(absl::StatusCode::kFailedPrecondition, "NO_CONFIG_RUNS",
                 absl::StrCat("no configuration of ", kernel.name(),
                              " ran; the first: ", trials[0].failure()));
  record.set_chosen(static_cast<uint32_t>(result.winner));
  record.set_reason(result.reason);
  if (known && known->pinned() && incumbent) {
    record.set_chosen(static_cast<uint32_t>(*incumbent));
    record.set_pinned(true);
    record.set_reason("pinned");
  }
  for (storage::TuningRecord::Trial& trial : trials) *record.add_trials() = std::move(trial);
  record.set_measured_unix_seconds(absl::ToUnixSeconds(absl::Now()));
  if (!incumbent || static_cast<uint32_t>(*incumbent) != record.chosen())
    metrics_->tune_config_changes->Increment();
  double spent = std::chrono::duration<double>(Clock::now() - start).count();
  metrics_->tune_seconds->Observe(spent);
  metrics_->tune_budget_used->Set(spent / absl::ToDoubleSeconds(budget));
  if (absl::Status stored = table_->Put(record); !stored.ok())
    spdlog::warn("storing the tuning of {}: {}", kernel.name(), stored.ToString());
  spdlog::info("tuned {} for {}: configuration {} ({})", kernel.name(), inspection.bucket,
               record.chosen(), record.reason());
  return record;
}

}  // namespace tessera::server
