#include "server/tuning/contest.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
// At a short part, until what it says is believed.
constexpr int kMostLooks = 5;
// Of a launch of which nobody knows how long it takes, a part is run first.
constexpr double kPilotShare = 1.0 / 64;

constexpr size_t kCompilesAhead = 32;
constexpr absl::Duration kSpin = absl::Microseconds(500);

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

absl::Duration TimeLeft(Clock::time_point deadline) {
  return absl::FromChrono(deadline - Clock::now());
}

}  // namespace

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
                                                 bool prepare_only, bool is_part) {
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
  wait.is_part = is_part;
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

absl::StatusOr<double> Contest::Launch(const Candidate& candidate, double grid_share,
                                       bool is_part) {
  std::shared_ptr<Pending> pending =
      Begin(candidate, grid_share, /*prepare_only=*/false, is_part);
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
  auto once = [&]() -> absl::StatusOr<double> {
    RETURN_IF_ERROR(scratch_->PrepareTimedRun());
    return parts_.pace->RunOnce(deadline_, 0,
                                [&] { return Launch(candidate, share, times_parts()); });
  };
  ASSIGN_OR_RETURN(double seconds, once());
  if (!parts_.pace->options().yields) return seconds;
  // Not believed: that a short part ran for the first time shows; one that looks hopeless.
  auto believed = [&](int looks) {
    return looks > (times_parts() ? 0 : 1) &&
           !(expected_seconds_ > 0 && seconds > kHopeless * expected_seconds_);
  };
  for (int looks = 1; looks < kMostLooks && !believed(looks); ++looks) {
    ASSIGN_OR_RETURN(double again, once());
    seconds = std::min(seconds, again);
  }
  return seconds;
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

absl::StatusOr<double> Contest::Sample(const Candidate& candidate, double grid_share, bool whole) {
  RETURN_IF_ERROR(scratch_->PrepareTimedRun());
  const bool is_part = !whole && times_parts();
  auto run = [&] { return Launch(candidate, grid_share, is_part); };
  // Processor time tells how long it takes alone, even where launches went on beside it: a device that is so busy
  // that no turn ends in time would never be tuned.
  return is_part ? parts_.pace->RunOnce(deadline_, 0, run) : parts_.pace->Measure(deadline_, run);
}

void Contest::Run(const std::vector<Candidate*>& candidates, const RaceOptions& options) {
  Race race(static_cast<int>(candidates.size()), options);
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i]->seconds.clear();
    candidates[i]->in_race = true;
    if (candidates[i]->admitted)
      least = std::min(least, candidates[i]->first_seconds);
    else
      race.Fail(static_cast<int>(i), "not admitted");
  }
  // The hopeless are not timed again: they would hold up launches. The first one is what others are
  // compared with.
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (!candidates[i]->admitted || candidates[i]->first_seconds <= kHopeless * least) continue;
    candidates[i]->seconds.push_back(candidates[i]->first_seconds);
    candidates[i]->in_race = false;
    race.Fail(static_cast<int>(i), "much slower than another");
  }
  // All whole, or all as parts; of about the same length, so that what a launch costs besides its
  // programs is the same share of each.
  const bool idle = parts_.pace->idle();
  std::vector<double> shares;
  for (const Candidate* candidate : candidates)
    shares.push_back(idle ? 1 : parts_.pace->PartOf(candidate->first_seconds));
  const bool whole = std::all_of(shares.begin(), shares.end(), [](double share) { return share == 1; });
  for (std::vector<int> round = race.NextRound(); !round.empty(); round = race.NextRound()) {
    for (int i : round) {
      Candidate& candidate = *candidates[i];
      // The first round may run over the budget: without it nothing is known.
      if (race.rounds() > 1 && Clock::now() > deadline_) return;
      // Somebody has come: half a race of parts would not compare.
      if (whole && parts_.pace->FittingShare(candidate.first_seconds) < 1)
        return Run(candidates, options);
      absl::StatusOr<double> seconds = Sample(candidate, shares[i], whole);
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

}  // namespace tessera::server
