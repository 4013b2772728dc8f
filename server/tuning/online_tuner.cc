#include "server/tuning/online_tuner.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = Pace::Clock;
using Trial = storage::TuningRecord::Trial;

// The check of the result, and the rounds of a race that most candidates see.
constexpr double kRunsPerCandidate = 6;
// Where nothing of a kernel was compiled yet.
constexpr double kAssumedCompileSeconds = 0.1;
// In every bucket tuned so far at least so much slower than the best: not measured again.
constexpr double kHopeless = 1.5;
// A sample of a tuned bucket is compared where a gain of this share would repay it.
constexpr double kGainOfASplit = 0.05;
constexpr int kComparedConfigs = 3;
constexpr int kNice = 10;

bool Measured(const Trial& trial) { return trial.failure().empty() && trial.samples() > 0; }

const Trial* BestOf(const storage::TuningRecord& record) {
  const Trial* best = nullptr;
  for (const Trial& trial : record.trials())
    if (Measured(trial) && (best == nullptr || trial.median_seconds() < best->median_seconds())) best = &trial;
  return best;
}

const Trial* TrialOf(const storage::TuningRecord& record, const storage::TuneConfig& config) {
  for (const Trial& trial : record.trials())
    if (Measured(trial) && SameConfig(trial.config(), config)) return &trial;
  return nullptr;
}

double MedianOf(const Candidate& candidate) { return MedianInterval(candidate.seconds).median; }

}  // namespace

OnlineTuner::OnlineTuner(TuningTable* table, Tuner* tuner, const TuningPolicies* policies,
                         const DeviceTable* devices, Metrics* metrics, OnlineTunerOptions options)
    : table_(table),
      tuner_(tuner),
      policies_(policies),
      devices_(devices),
      metrics_(metrics),
      options_(options) {}

OnlineTuner::~OnlineTuner() { Stop(); }

void OnlineTuner::Start() {
  table_->SetOnDue([this](std::shared_ptr<TuningSite> site) { Due(std::move(site)); });
  thread_ = std::thread([this] { Loop(); });
}

void OnlineTuner::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool OnlineTuner::stopping() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

void OnlineTuner::Due(std::shared_ptr<TuningSite> site) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    due_.push_back(std::move(site));
  }
  wake_.notify_one();
}

void OnlineTuner::ReviewAll() {
  for (const std::shared_ptr<TuningSite>& site : table_->Sites("")) site->SetNextReview(0);
}

void OnlineTuner::Loop() {
  pthread_setname_np(pthread_self(), "tuner");
  // Copies and comparisons of memory are no matter of hurry.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  for (;;) {
    std::shared_ptr<TuningSite> site;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !due_.empty(); });
      if (stopping_) return;
      // What is launched most comes first: it has the most to gain.
      auto spent = [](const TuningSite& site) {
        return static_cast<double>(site.calls()) * site.call_seconds();
      };
      auto most = std::max_element(due_.begin(), due_.end(), [&](const auto& a, const auto& b) {
        return spent(*a) < spent(*b);
      });
      site = std::move(*most);
      due_.erase(most);
    }
    Review(site);
  }
}

Pace* OnlineTuner::PaceOf(Device* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Pace>& pace = paces_[device->index()];
  if (pace == nullptr) pace = std::make_unique<Pace>(device->gate(), tuner_->PaceFor(*device));
  return pace.get();
}

void OnlineTuner::Review(const std::shared_ptr<TuningSite>& site) {
  std::shared_ptr<const TuningPolicy> policy = policies_->Of(site->kernel);
  uint64_t calls = site->calls();
  if (policy->frozen || policy->kind == TuningPolicy::Kind::kFixed) {
    site->Decide(policy->frozen ? "frozen" : "fixed",
                 policy->frozen ? "stored choices are used; nothing is measured"
                                : "the policy is fixed: the first configuration that fits");
    return;  // ReviewAll brings it back
  }
  std::vector<TuningSite::Sample> samples = site->Samples();
  Job job;
  if (samples.empty() || !Prepare(site, samples[0], &job)) {
    if (site->decision().state != "fixed") site->SetNextReview(calls + 1);
    return;
  }
  if (job.subject.place.bucket != site->bucket) {
    site->Decide("observing", "the policy changed: launches count elsewhere");
    return;
  }
  if (job.known && job.known->pinned()) {
    site->Decide("fixed", "pinned");
    site->SetNextReview(calls * 2);
    return;
  }
  int left = static_cast<int>(job.candidates.size()) - 1;  // the one in force is known
  if (left <= 0) {
    if (job.known) {
      if (site->decision().state == "observing")
        site->Decide("tuned", absl::StrCat("measured before: ", job.known->reason()));
      CompareSamples(site, *job.known, *policy);
    } else {
      site->Decide("fixed", "there is nothing to choose from");
    }
    site->SetNextReview(calls * 2);
    return;
  }
  left = std::min(left, tuner_->limits().candidates - 1);
  if (policy->kind == TuningPolicy::Kind::kAmortised) {
    TuneInStages(&job);
  } else {
    bool few = policy->kind == TuningPolicy::Kind::kCandidates;
    if (few && job.known) {
      site->SetNextReview(calls * 2);
      return;  // as many as the policy says were measured
    }
    TuneAll(&job, few ? std::min(left, policy->candidates - 1) : left);
  }
}

bool OnlineTuner::Prepare(const std::shared_ptr<TuningSite>& site,
                          const TuningSite::Sample& sample, Job* job) {
  if (sample.request == nullptr || site->call_seconds() <= 0) return false;
  absl::StatusOr<TuningSubject> subject = tuner_->Inspect(*sample.request);
  if (!subject.ok()) {
    // The client has gone; the next launch brings another.
    site->ForgetRequest(sample.exact, sample.others);
    return false;
  }
  job->site = site;
  job->launch = sample.request;
  job->subject = *std::move(subject);
  Device* device = job->subject.device;
  if (device->tuning() == nullptr) {
    site->Decide("fixed", absl::StrCat("nothing is tuned on ", device->name()));
    return false;
  }
  job->pace = PaceOf(device);
  const KernelModel& kernel = *job->subject.kernel;
  const TuningPlace& place = job->subject.place;
  job->known = table_->Record(place.kernel, place.source, place.bucket, place.model);
  std::vector<storage::TuningRecord> others =
      table_->RecordsOf(place.kernel, place.source, place.model);
  others.erase(std::remove_if(others.begin(), others.end(),
                              [&](const storage::TuningRecord& record) {
                                return record.bucket() == place.bucket || record.split();
                              }),
               others.end());

  job->candidates = tuner_->CandidatesOf(kernel);
  if (job->candidates.empty()) return false;
  TuningSite::InForce in_force = site->choice(sample.exact);
  int first = std::max(in_force.index - 1, 0);
  while (in_force.index <= 0 && first + 1 < static_cast<int>(job->candidates.size()) &&
         !kernel.Usable(first + 1, *device))
    ++first;
  std::rotate(job->candidates.begin(), job->candidates.begin() + first,
              job->candidates.begin() + first + 1);
  // Pruned, known in this environment, out of limits, or hopeless everywhere else: not again.
  std::vector<bool> kept = tuner_->KeptConfigs(kernel, *sample.request);
  auto skip = [&](const Candidate& candidate) {
    if (!kept[candidate.index - 1]) return true;
    if (!kernel.Usable(candidate.index, *device)) return true;
    if (tuner_->IsKnown(job->known, *device, candidate.config)) return true;
    if (others.size() < 2) return false;
    return std::all_of(others.begin(), others.end(), [&](const storage::TuningRecord& record) {
      const Trial* best = BestOf(record);
      const Trial* trial = TrialOf(record, candidate.config);
      return best != nullptr && trial != nullptr &&
             trial->median_seconds() > kHopeless * best->median_seconds();
    });
  };
  job->candidates.erase(
      std::remove_if(job->candidates.begin() + 1, job->candidates.end(), skip),
      job->candidates.end());
  EstimateGain(job, others);
  OrderCandidates(job, others);
  bool compiled_before =
      std::any_of(others.begin(), others.end(), [&](const storage::TuningRecord& record) {
        return !record.trials().empty() &&
               record.trials(0).environment() == tuner_->Environment(*device);
      });
  job->to_compile = compiled_before ? 0 : static_cast<int>(job->candidates.size()) - 1;
  return true;
}

std::unique_ptr<Contest> OnlineTuner::NewContest(const Job& job) {
  absl::StatusOr<std::unique_ptr<Contest>> contest = tuner_->NewContest(
      *job.launch, job.subject, job.pace,
      Clock::now() + absl::ToChronoNanoseconds(options_.longest), job.site->call_seconds(),
      /*background=*/true);
  if (contest.ok()) return *std::move(contest);
  if (absl::IsNotFound(contest.status()) || absl::IsUnauthenticated(contest.status())) {
    // The memory has gone; the next launch brings other.
    for (const TuningSite::Sample& sample : job.site->Samples())
      if (sample.request == job.launch) job.site->ForgetRequest(sample.exact, sample.others);
    job.site->SetNextReview(job.site->calls() + 1);
  } else {
    job.site->Decide("failed", std::string(contest.status().message()));
    job.site->SetNextReview(job.site->calls() * 4);
  }
  return nullptr;
}

// What the configuration in force loses to the best one in the buckets where both were measured; an
// assumption where there are none.
void OnlineTuner::EstimateGain(Job* job,
                               const std::vector<storage::TuningRecord>& others) const {
  double sum = 0;
  int count = 0;
  for (const storage::TuningRecord& record : others) {
    const Trial* best = BestOf(record);
    const Trial* trial = TrialOf(record, job->candidates[0].config);
    if (best == nullptr || trial == nullptr) continue;
    // The bucket that the choice came from says nothing about it.
    if (absl::EndsWith(job->site->choice("").from, record.bucket())) continue;
    sum += 1 - best->median_seconds() / trial->median_seconds();
    ++count;
  }
  job->measured_gain = count > 0;
  job->gain = count > 0 ? sum / count : options_.assumed_gain * (others.empty() ? 1 : 0.5);
}

// Behind the one in force: winners of other buckets; then a spread over the rest, so that few show
// much.
void OnlineTuner::OrderCandidates(Job* job,
                                  const std::vector<storage::TuningRecord>& others) const {
  std::vector<Candidate> ordered, rest;
  for (Candidate& candidate : job->candidates) {
    bool won = std::any_of(others.begin(), others.end(), [&](const storage::TuningRecord& record) {
      return record.chosen() < static_cast<uint32_t>(record.trials_size()) &&
             SameConfig(record.trials(static_cast<int>(record.chosen())).config(), candidate.config);
    });
    (ordered.empty() || won ? ordered : rest).push_back(std::move(candidate));
  }
  // Strides that halve: the middle, the quarters, ...
  size_t stride = 1;
  while (stride * 2 < rest.size()) stride *= 2;
  std::vector<bool> taken(rest.size(), false);
  for (; stride > 0; stride /= 2)
    for (size_t i = stride / 2; i < rest.size(); i += stride)
      if (!taken[i]) {
        taken[i] = true;
        ordered.push_back(std::move(rest[i]));
      }
  for (size_t i = 0; i < rest.size(); ++i)
    if (!taken[i]) ordered.push_back(std::move(rest[i]));
  job->candidates = std::move(ordered);
}

TuningEconomics OnlineTuner::EconomicsOf(const Job& job, int candidates) const {
  TuningEconomics economics;
  economics.calls = job.site->calls();
  economics.observed = job.site->observed_seconds();
  economics.call_seconds = job.site->call_seconds();
  economics.gain = job.gain;
  economics.gain_is_measured = job.measured_gain;
  economics.candidates = candidates;
  economics.to_compile = std::min(candidates, job.to_compile);
  double compile_seconds = tuner_->CompileSeconds(job.site->kernel);
  economics.compile_seconds = compile_seconds > 0 ? compile_seconds : kAssumedCompileSeconds;
  economics.runs = kRunsPerCandidate;
  economics.horizon = options_.horizon_seconds;
  return economics;
}

bool OnlineTuner::MeasureAndPublish(Job* job, Contest* contest, int from, int count,
                                    double seconds_before) {
  Clock::time_point start = Clock::now();
  std::vector<Candidate*> entrants;
  // The one in force and the best so far take part again: all times are of one race.
  int best = -1;
  for (int i = 1; i < from; ++i) {
    const Candidate& candidate = job->candidates[i];
    if (candidate.failure.empty() && !candidate.seconds.empty() &&
        (best < 0 || MedianOf(candidate) < MedianOf(job->candidates[best])))
      best = i;
  }
  entrants.push_back(&job->candidates[0]);
  if (best > 0) entrants.push_back(&job->candidates[best]);
  for (int i = from; i < from + count; ++i) entrants.push_back(&job->candidates[i]);
  contest->Admit(entrants);
  tuner_->ObserveCompiles(job->site->kernel, entrants);
  RaceOptions race;
  race.max_rounds = 11;
  contest->Run(entrants, race);
  if (stopping()) return false;
  double seconds = seconds_before + std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<Candidate> measured(job->candidates.begin(),
                                  job->candidates.begin() + from + count);
  // Half a race is none: what is kept must have been compared.
  absl::StatusOr<storage::TuningRecord> record =
      contest->interrupted().ok()
          ? tuner_->MakeRecord(job->subject, measured, 0, job->known, seconds)
          : contest->interrupted();
  if (!record.ok()) {
    job->site->Decide("failed", std::string(record.status().message()));
    return false;
  }
  metrics_->tune_seconds->Observe(seconds);
  if (record->chosen() != 0) {
    metrics_->tune_config_changes->Increment();
    spdlog::info("tuned {} for {}: {} ({})", job->site->kernel, job->site->bucket,
                 ConfigText(record->trials(static_cast<int>(record->chosen())).config()),
                 record->reason());
  }
  job->known = *record;
  if (absl::Status stored = tuner_->Publish(*job->launch, job->subject, *std::move(record));
      !stored.ok())
    spdlog::warn("storing the tuning of {}: {}", job->site->kernel, stored.ToString());
  return true;
}

void OnlineTuner::TuneAll(Job* job, int count) {
  job->site->Decide("tuning", absl::StrCat(count + 1, " configurations, as the policy says"));
  std::unique_ptr<Contest> contest = NewContest(*job);
  if (contest == nullptr) return;
  if (MeasureAndPublish(job, contest.get(), 1, count, 0)) {
    metrics_->tune_tuned->Increment();
    job->site->Decide("tuned", job->known->reason());
  }
  job->site->SetNextReview(job->site->calls() * 2);
}

void OnlineTuner::TuneInStages(Job* job) {
  TuningSite* site = job->site.get();
  const int all = std::min(static_cast<int>(job->candidates.size()), tuner_->limits().candidates);
  int done = 1;
  std::unique_ptr<Contest> contest;
  double seconds = 0;
  while (done < all) {
    // First a few that differ; what they show decides on the rest.
    int left = all - done;
    int count = done == 1 && left > options_.first_stage + 2 ? options_.first_stage : left;
    TuningEconomics economics = EconomicsOf(*job, count);
    AmortisationVerdict verdict = WeighTuning(economics);
    if (!verdict.tune) {
      bool known = done > 1 || job->known;
      if (!known) metrics_->tune_abstained->Increment();
      site->Decide(known ? "tuned" : "abstained",
                   absl::StrCat(done > 1 ? absl::StrCat("after ", done, " candidates, the rest ")
                                         : known ? absl::StrCat(job->known->reason(), "; more ")
                                                 : "",
                                verdict.reason));
      // As launches go on the verdict may turn.
      uint64_t turn = CallsToTune(economics);
      uint64_t calls = site->calls();
      site->SetNextReview(
          turn == UINT64_MAX ? calls * 8 : std::max(calls + 1, std::min(turn, calls * 4)));
      return;
    }
    site->Decide("tuning", verdict.reason);
    if (contest == nullptr) contest = NewContest(*job);
    if (contest == nullptr) return;
    Clock::time_point start = Clock::now();
    if (!MeasureAndPublish(job, contest.get(), done, count, seconds)) {
      site->SetNextReview(site->calls() * 4);
      return;
    }
    if (done == 1) metrics_->tune_tuned->Increment();
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    done += count;
    job->to_compile = std::max(0, job->to_compile - count);
    // What more candidates may bring: a quarter of the spread of those that were measured, beyond
    // the best of them.
    double low = 0, high = 0;
    for (int i = 0; i < done; ++i) {
      const Candidate& candidate = job->candidates[i];
      if (candidate.seconds.empty()) continue;
      double median = MedianOf(candidate);
      low = low == 0 ? median : std::min(low, median);
      high = std::max(high, median);
    }
    job->gain = low > 0 ? std::min(0.5, 0.25 * (high - low) / high) : 0;
    job->measured_gain = true;
  }
  site->Decide("tuned",
               absl::StrCat(job->known->reason(), "; all ", done, " candidates were weighed"));
  site->SetNextReview(site->calls() * 2);
}

// Other values of a tuned bucket, where there are enough launches to repay a look.
void OnlineTuner::CompareSamples(const std::shared_ptr<TuningSite>& site,
                                 const storage::TuningRecord& record,
                                 const TuningPolicy& policy) {
  for (const TuningSite::Sample& sample : site->Samples()) {
    std::string name =
        absl::StrCat(sample.exact, sample.others.empty() ? "" : ", ", sample.others);
    if (name == record.sample() || site->compared.count(name) > 0 || sample.request == nullptr)
      continue;
    Job job;
    if (!Prepare(site, sample, &job)) continue;
    if (policy.kind == TuningPolicy::Kind::kAmortised) {
      TuningEconomics economics = EconomicsOf(job, kComparedConfigs);
      economics.calls = sample.calls;
      economics.gain = kGainOfASplit;
      economics.to_compile = 0;
      if (!WeighTuning(economics).tune) continue;
    }
    site->compared.insert(name);
    CompareSample(&job, record, sample);
    return;  // one a review
  }
}

void OnlineTuner::CompareSample(Job* job, const storage::TuningRecord& record,
                                const TuningSite::Sample& sample) {
  TuningSite* site = job->site.get();
  if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) return;
  std::vector<const Trial*> trials;
  for (const Trial& trial : record.trials())
    if (Measured(trial)) trials.push_back(&trial);
  const Trial* chosen = &record.trials(static_cast<int>(record.chosen()));
  std::sort(trials.begin(), trials.end(), [&](const Trial* a, const Trial* b) {
    if ((a == chosen) != (b == chosen)) return a == chosen;
    return a->median_seconds() < b->median_seconds();
  });
  std::vector<Candidate> candidates;
  for (const Candidate& known : tuner_->CandidatesOf(*job->subject.kernel))
    for (size_t i = 0; i < trials.size() && i < kComparedConfigs; ++i)
      if (SameConfig(known.config, trials[i]->config())) {
        candidates.push_back(known);
        if (trials[i] == chosen) std::swap(candidates.front(), candidates.back());
      }
  if (candidates.size() < 2 || !SameConfig(candidates[0].config, chosen->config())) return;
  std::unique_ptr<Contest> contest = NewContest(*job);
  if (contest == nullptr) return;
  std::vector<Candidate*> entrants;
  for (Candidate& candidate : candidates) entrants.push_back(&candidate);
  contest->Admit(entrants);
  RaceOptions race;
  race.min_rounds = 6;
  race.max_rounds = 15;
  contest->Run(entrants, race);
  if (stopping() || !contest->interrupted().ok()) return;
  absl::StatusOr<storage::TuningRecord> result =
      tuner_->MakeRecord(job->subject, candidates, 0, std::nullopt, 0);
  if (!result.ok()) return;
  if (result->chosen() == 0) {
    site->Decide("tuned", absl::StrCat(record.reason(), "; confirmed for ", sample.exact));
    return;
  }
  const storage::TuneConfig& other = result->trials(static_cast<int>(result->chosen())).config();
  double was = result->trials(0).median_seconds();
  double is = result->trials(static_cast<int>(result->chosen())).median_seconds();
  if (absl::StrContains(record.sample(), sample.exact)) {
    std::string warning = absl::StrFormat(
        "an argument outside the key of %s changes the winner: with %s it is %s (%.4g ms against "
        "%.4g ms), with %s it is %s",
        site->kernel, sample.others, ConfigText(other), is * 1e3, was * 1e3, record.sample(),
        ConfigText(chosen->config()));
    if (site->Warn(warning)) spdlog::warn("tuning: {}", warning);
    return;
  }
  result->set_bucket(sample.exact);
  result->set_split(true);
  site->Decide("tuned", absl::StrFormat(
                            "%s; %s is split off: %s takes %.4g ms there, %s %.4g ms",
                            record.reason(), sample.exact, ConfigText(other), is * 1e3,
                            ConfigText(chosen->config()), was * 1e3));
  metrics_->tune_config_changes->Increment();
  if (absl::Status stored = tuner_->Publish(*sample.request, job->subject, *std::move(result));
      !stored.ok())
    spdlog::warn("storing the tuning of {}: {}", site->kernel, stored.ToString());
}

void OnlineTuner::FillBudget(tessera::v1::ExplainTuningsResponse::Budget* budget) const {
  // Of the default device; figures of use are sums over all.
  const PaceOptions& pace = tuner_->PaceFor(*devices_->all()[0]);
  budget->set_device_share(pace.device_share);
  budget->set_latency_bound_seconds(absl::ToDoubleSeconds(pace.latency_bound));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [device, used] : paces_) {
      budget->set_spent_seconds(budget->spent_seconds() + used->spent_seconds());
      budget->set_used_ratio(std::max(budget->used_ratio(), used->used_ratio()));
    }
  }
  for (const std::unique_ptr<Device>& device : devices_->all()) {
    MeasurementGate* gate = device->gate();
    budget->set_launches_held_up(budget->launches_held_up() + gate->held_up());
    budget->set_held_up_seconds(budget->held_up_seconds() + gate->held_up_seconds());
    budget->set_overruns(budget->overruns() + gate->overruns());
  }
}

void OnlineTuner::RefreshMetrics() {
  api::ExplainTuningsResponse::Budget budget;
  FillBudget(&budget);
  auto raise = [](prometheus::Counter* counter, double value) {
    if (value > counter->Value()) counter->Increment(value - counter->Value());
  };
  raise(metrics_->tune_held_up, static_cast<double>(budget.launches_held_up()));
  raise(metrics_->tune_held_up_seconds, budget.held_up_seconds());
  raise(metrics_->tune_violations, static_cast<double>(budget.overruns()));
  raise(metrics_->tune_device_seconds, budget.spent_seconds());
  if (budget.spent_seconds() > 0) metrics_->tune_budget_used->Set(budget.used_ratio());
}

}  // namespace tessera::server
