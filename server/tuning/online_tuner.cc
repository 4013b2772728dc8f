#include "server/tuning/online_tuner.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/concurrency/background_thread.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = Pace::Clock;
using Trial = storage::TuningRecord::Trial;

constexpr int kNice = 10;
// Contests that wait for their next stage; their copies stay in memory.
constexpr size_t kBegunContests = 4;
// A bucket with fewer launches is not weighed anew because another one was tuned.
constexpr uint64_t kCallsWorthALook = 64;
// Who came so close to the chosen one is raced again with it, so many of them. No fewer, for a part is no whole launch.
constexpr double kContender = 1.15;
constexpr size_t kContenders = 3;
// Of any race: each round holds launches up, for less and less.
constexpr int kRounds = 15;
constexpr double kIndifference = 0.02;
constexpr std::chrono::milliseconds kIdlePoll(20);

// What is launched most comes first: it has the most to gain. But launches that a review has seen
// count no more, so that all have their turn.
double Urgency(const TuningSite& site) {
  return static_cast<double>(site.calls() - site.reviewed_calls) * site.call_seconds();
}

// Of the debug log.
std::string TrialsText(const storage::TuningRecord& record) {
  std::string text = record.reason();
  for (const Trial& trial : record.trials())
    absl::StrAppend(&text, "; ", ConfigText(trial.config()), ": ",
                    Measured(trial)
                        ? absl::StrFormat("%.4g ms (%.4g to %.4g) of %d", trial.median_seconds() * 1e3,
                                          trial.low_seconds() * 1e3, trial.high_seconds() * 1e3,
                                          trial.samples())
                        : trial.failure());
  return text;
}

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
  for (const std::unique_ptr<Device>& device : devices_->all()) {
    if (device->tuning() == nullptr) continue;
    auto queue = std::make_unique<Queue>();
    queue->name = device->name();
    queue->pace = std::make_unique<Pace>(device->gate(), tuner_->PaceFor(*device));
    queues_.push_back(std::move(queue));
  }
  for (const std::unique_ptr<Queue>& queue : queues_)
    queue->thread = std::thread([this, &queue] { Loop(queue.get()); });
  table_->SetOnDue([this](std::shared_ptr<TuningSite> site) { Due(std::move(site)); });
}

void OnlineTuner::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  for (const std::unique_ptr<Queue>& queue : queues_) {
    queue->wake.notify_all();
    if (queue->thread.joinable()) queue->thread.join();
  }
}

bool OnlineTuner::stopping() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

OnlineTuner::Queue* OnlineTuner::QueueOf(const std::string& device) const {
  for (const std::unique_ptr<Queue>& queue : queues_)
    if (queue->name == device) return queue.get();
  return nullptr;
}

void OnlineTuner::Due(std::shared_ptr<TuningSite> site) {
  Queue* queue = QueueOf(site->device);
  if (queue == nullptr) {
    site->Decide("fixed", absl::StrCat("nothing is tuned on ", site->device));
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    queue->due.push_back(std::move(site));
  }
  queue->wake.notify_one();
}

void OnlineTuner::ReviewAll() {
  for (const std::shared_ptr<TuningSite>& site : table_->Sites("")) site->SetNextReview(0);
}

void OnlineTuner::ReviewOtherBuckets(const Job& job, bool new_variants) {
  for (const std::shared_ptr<TuningSite>& site : table_->Sites(job.site->kernel)) {
    if (site == job.site || site->source != job.site->source || site->device != job.site->device ||
        site->calls() < kCallsWorthALook)
      continue;
    if (new_variants && !site->has_new_variants) {
      const std::vector<TuningSite::Sample> samples = site->Samples();
      site->has_new_variants =
          !samples.empty() && SharesVariants(samples[0].exact, job.subject.place.exact);
    }
    if (site->BecomeDue()) Due(site);
  }
}

std::shared_ptr<TuningSite> OnlineTuner::NextSite(Queue* queue) {
  auto take = [](std::vector<std::shared_ptr<TuningSite>>* sites) {
    auto most = std::max_element(sites->begin(), sites->end(), [](const auto& a, const auto& b) {
      if (a->has_new_variants != b->has_new_variants) return b->has_new_variants;
      return Urgency(*a) < Urgency(*b);
    });
    std::shared_ptr<TuningSite> site = std::move(*most);
    sites->erase(most);
    return site;
  };
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (stopping_) return nullptr;
    if (!queue->due.empty()) return take(&queue->due);
    if (queue->parked.empty())
      queue->wake.wait(lock);
    else if (queue->pace->idle())
      return take(&queue->parked);
    else
      queue->wake.wait_for(lock, kIdlePoll);
  }
}

void OnlineTuner::Loop(Queue* queue) {
  pthread_setname_np(pthread_self(), "tuner");
  // Copies and comparisons of memory are no matter of hurry.
  RunInBackground(kNice);
  while (std::shared_ptr<TuningSite> site = NextSite(queue)) {
    Review(site);
    // The site of one that waits is due; else it was given up.
    auto is_due = [&](const BegunContest& one) {
      std::lock_guard<std::mutex> lock(mutex_);
      return std::find(queue->due.begin(), queue->due.end(), one.site) != queue->due.end();
    };
    queue->begun.erase(std::stable_partition(queue->begun.begin(), queue->begun.end(), is_due),
                       queue->begun.end());
  }
  queue->begun.clear();
}

bool OnlineTuner::AnotherIsMoreUrgent(const Job& job) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<std::shared_ptr<TuningSite>>& due = QueueOf(job.site->device)->due;
  return std::any_of(due.begin(), due.end(), [&](const std::shared_ptr<TuningSite>& site) {
    return Urgency(*site) > Urgency(*job.site);
  });
}

bool OnlineTuner::AnotherHasNewVariants(const Job& job) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<std::shared_ptr<TuningSite>>& due = QueueOf(job.site->device)->due;
  return std::any_of(due.begin(), due.end(), [](const std::shared_ptr<TuningSite>& site) {
    return site->has_new_variants;
  });
}

bool OnlineTuner::MustWaitForIdle(const Job& job) const {
  return !job.pace->options().yields && !job.pace->Fits(job.site->call_seconds());
}

void OnlineTuner::Park(const Job& job) {
  job.site->Decide("waiting",
                   absl::StrFormat("a launch takes %.3g ms, too long to run between others within "
                                   "the latency bound: tuned when %s has been idle for %s",
                                   job.site->call_seconds() * 1e3, job.site->device,
                                   absl::FormatDuration(job.pace->options().idle_window)));
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<TuningSite>>& parked = QueueOf(job.site->device)->parked;
  if (std::find(parked.begin(), parked.end(), job.site) == parked.end()) parked.push_back(job.site);
}

bool OnlineTuner::IsFrozen(TuningSite* site) const {
  if (!policies_->Of(site->kernel)->frozen) return false;
  site->Decide("frozen", "stored choices are used; nothing is measured");
  return true;
}

void OnlineTuner::Review(const std::shared_ptr<TuningSite>& site) {
  std::shared_ptr<const TuningPolicy> policy = policies_->Of(site->kernel);
  uint64_t calls = site->calls();
  site->reviewed_calls = calls;
  site->has_new_variants = false;
  if (IsFrozen(site.get())) return;  // ReviewAll brings it back, and what follows
  if (policy->kind == TuningPolicy::Kind::kFixed)
    return site->Decide("fixed", "the policy is fixed: the first configuration that fits");
  std::vector<TuningSite::Sample> samples = site->Samples();
  Job job;
  if (samples.empty() || !Prepare(site, samples[0], &job)) {
    site->SetNextReview(site->decision().state == "fixed" ? calls * 2 : calls + 1);
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
      if (policy->kind != TuningPolicy::Kind::kAmortised || RaceContenders(&job, job.known->reason()))
        CompareSamples(site, *job.known, *policy);
    } else {
      site->Decide("fixed", "there is nothing to choose from");
    }
    site->SetNextReview(calls * 2);
    return;
  }
  left = std::min(left, tuner_->limits().candidates - 1);
  if (policy->kind == TuningPolicy::Kind::kAmortised) {
    if (!TuneInStages(&job)) return;
    // The rest of the candidates may never repay; a final, and other values of the bucket, may.
    if (job.known && RaceContenders(&job, site->decision().text))
      CompareSamples(site, *job.known, *policy);
  } else {
    bool few = policy->kind == TuningPolicy::Kind::kCandidates;
    if (few && job.known && MeasuredHere(*job.known, *job.subject.device)) {
      // As many as the policy says were measured.
      if (site->decision().state == "observing")
        site->Decide("tuned", absl::StrCat("measured before: ", job.known->reason()));
      site->SetNextReview(calls * 2);
      CompareSamples(site, *job.known, *policy);
      return;
    }
    TuneAll(&job, few ? std::min(left, policy->candidates - 1) : left);
  }
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

void OnlineTuner::KeepContest(const Job& job, std::unique_ptr<Contest> contest) {
  std::vector<BegunContest>& begun = QueueOf(job.site->device)->begun;
  begun.push_back({job.site, job.launch, Clock::now(), std::move(contest)});
  uint64_t bytes = 0;
  for (const BegunContest& one : begun) bytes += one.contest->scratch_bytes();
  while (!begun.empty() && (begun.size() > kBegunContests || bytes > tuner_->limits().scratch_bytes / 2)) {
    bytes -= begun.front().contest->scratch_bytes();
    begun.erase(begun.begin());
  }
}

std::unique_ptr<Contest> OnlineTuner::TakeContest(const Job& job) {
  std::vector<BegunContest>& begun = QueueOf(job.site->device)->begun;
  auto found = std::find_if(begun.begin(), begun.end(),
                            [&](const BegunContest& one) { return one.site == job.site; });
  if (found == begun.end()) return nullptr;
  std::unique_ptr<Contest> contest;
  if (found->launch == job.launch && absl::FromChrono(Clock::now() - found->since) < options_.longest / 2)
    contest = std::move(found->contest);
  begun.erase(found);
  return contest;
}

bool OnlineTuner::MeasureAndPublish(Job* job, Contest* contest, int from, int count,
                                    double seconds_before, bool later) {
  Clock::time_point start = Clock::now();
  std::vector<Candidate*> entrants;
  // The one in force and the best so far take part again: all times are of one race.
  int best = -1;
  for (int i = 1; i < from; ++i) {
    const Candidate& candidate = job->candidates[i];
    if (candidate.failure.empty() && !candidate.seconds.empty() &&
        (best < 0 || FasterHalf(candidate.seconds) < FasterHalf(job->candidates[best].seconds)))
      best = i;
  }
  for (Candidate& candidate : job->candidates) candidate.in_race = false;
  const std::vector<double> times_before = job->candidates[0].seconds;
  entrants.push_back(&job->candidates[0]);
  if (best > 0) entrants.push_back(&job->candidates[best]);
  for (int i = from; i < from + count; ++i) entrants.push_back(&job->candidates[i]);
  for (Candidate* entrant : entrants) entrant->compile_seconds = 0;
  contest->Admit(entrants, later);
  if (!contest->overwritten().empty()) {
    std::lock_guard<std::mutex> lock(mutex_);
    overwritten_[job->site->source] = contest->overwritten();
  }
  tuner_->ObserveCompiles(job->site->kernel, entrants);
  RaceOptions race;
  race.incumbent = 0;
  race.max_rounds = kRounds;
  race.play_off_rounds = 3 * kRounds;
  race.indifference = kIndifference;
  contest->Run(entrants, race);
  if (stopping()) return false;
  // Other times of other races are told in terms of this one.
  if (!times_before.empty() && !entrants[0]->seconds.empty()) {
    const double scale = FasterHalf(entrants[0]->seconds) / FasterHalf(times_before);
    for (Candidate& candidate : job->candidates)
      if (std::find(entrants.begin(), entrants.end(), &candidate) == entrants.end())
        for (double& seconds : candidate.seconds) seconds *= scale;
  }
  double seconds = seconds_before + std::chrono::duration<double>(Clock::now() - start).count();
  // Half a race is none: what is kept must have been compared.
  absl::StatusOr<storage::TuningRecord> record = absl::CancelledError("the tuning ended early");
  while (contest->interrupted().ok()) {
    const std::vector<Candidate> measured(job->candidates.begin(),
                                          job->candidates.begin() + from + count);
    record = tuner_->MakeRecord(job->subject, measured, race, job->known, seconds);
    if (!record.ok()) break;
    const storage::TuneConfig& chosen = record->trials(static_cast<int>(record->chosen())).config();
    auto winner = std::find_if(entrants.begin(), entrants.end(), [&](const Candidate* entrant) {
      return SameConfig(entrant->config, chosen);
    });
    if (winner == entrants.end()) break;
    absl::StatusOr<bool> right = contest->Verify(*winner);
    if (right.ok() && *right) break;
    // Against it others may have looked hopeless.
    (*winner)->admitted = false;
    (*winner)->seconds.clear();
    contest->Run(entrants, race);
  }
  if (IsFrozen(job->site.get())) return false;  // meanwhile
  if (!contest->interrupted().ok()) record = contest->interrupted();
  if (!record.ok()) {
    job->site->Decide("failed", std::string(record.status().message()));
    if (absl::IsDeadlineExceeded(record.status()) && MustWaitForIdle(*job)) Park(*job);
    return false;
  }
  metrics_->tune_seconds->Observe(seconds);
  spdlog::debug("tuning {} for {}: {:.2f} s: {}", job->site->kernel, job->site->bucket, seconds,
                TrialsText(*record));
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
  ReviewOtherBuckets(*job, std::any_of(entrants.begin(), entrants.end(), [](const Candidate* one) {
    return one->compile_seconds > 0;
  }));
  return true;
}

void OnlineTuner::TuneAll(Job* job, int count) {
  if (MustWaitForIdle(*job)) return Park(*job);
  job->site->Decide("tuning", absl::StrCat(count + 1, " configurations, as the policy says"));
  std::unique_ptr<Contest> contest = NewContest(*job);
  if (contest == nullptr) return;
  if (MeasureAndPublish(job, contest.get(), 1, count, 0, /*later=*/false)) {
    metrics_->tune_tuned->Increment();
    job->site->Decide("tuned", job->known->reason());
  }
  job->site->SetNextReview(job->site->calls() * 2);
}

bool OnlineTuner::RaceContenders(Job* job, const std::string& decision) {
  TuningSite* site = job->site.get();
  const storage::TuningRecord known = *job->known;
  if (site->calls() < 2 * site->final_calls || known.pinned() ||
      known.chosen() >= static_cast<uint32_t>(known.trials_size()))
    return true;
  const Trial& chosen = known.trials(static_cast<int>(known.chosen()));
  std::vector<const Trial*> trials;
  for (const Trial& trial : known.trials())
    if (&trial != &chosen && tuner_->IsKnown(known, *job->subject.device, trial.config()) &&
        Measured(trial) && trial.median_seconds() < kContender * chosen.median_seconds())
      trials.push_back(&trial);
  std::sort(trials.begin(), trials.end(), [](const Trial* a, const Trial* b) {
    return a->median_seconds() < b->median_seconds();
  });
  trials.resize(std::min(trials.size(), kContenders));
  trials.insert(trials.begin(), &chosen);
  job->candidates.clear();
  for (const Trial* trial : trials)
    for (Candidate& candidate : tuner_->CandidatesOf(*job->subject.kernel))
      if (SameConfig(candidate.config, trial->config())) {
        candidate.compiled = true;
        job->candidates.push_back(std::move(candidate));
      }
  const int count = static_cast<int>(job->candidates.size()) - 1;
  if (count < 1 || !SameConfig(job->candidates[0].config, chosen.config())) return true;
  TuningEconomics economics = EconomicsOf(*job, 1, count, (kContender - 1) / 2);
  economics.runs = kRounds;
  if (!WeighTuning(economics).tune || MustWaitForIdle(*job)) return true;
  std::unique_ptr<Contest> contest = TakeContest(*job);
  if (contest == nullptr) contest = NewContest(*job);
  const bool ended = contest != nullptr &&
                     MeasureAndPublish(job, contest.get(), 1, count, known.tuning_seconds(),
                                       /*later=*/true);
  if (!ended && site->decision().state == "frozen") return false;
  if (ended) site->final_calls = site->calls();
  // What is in force is as good as before.
  site->Decide("tuned", ended ? absl::StrCat(job->known->reason(), ", in a final of ", count + 1,
                                             "; before it: ", decision)
                              : decision);
  return ended;
}

bool OnlineTuner::TuneInStages(Job* job) {
  TuningSite* site = job->site.get();
  const int all = std::min(static_cast<int>(job->candidates.size()), tuner_->limits().candidates);
  int done = 1;
  std::unique_ptr<Contest> contest;
  // What the bucket cost before, too.
  double seconds = job->known ? job->known->tuning_seconds() : 0;
  while (done < all) {
    // A few at a time: what they show decides on more. First those that cost no compile.
    const bool is_free = job->candidates[done].compiled;
    int count = std::min(all - done, is_free ? 2 * options_.stage : options_.stage);
    for (int i = 1; i < count; ++i)
      if (job->candidates[done + i].compiled != job->candidates[done].compiled) count = i;
    TuningEconomics economics = EconomicsOf(*job, done, count, GainOf(*job, done, count));
    AmortisationVerdict verdict = WeighTuning(economics);
    // The first ones are the most promising.
    if (const int half = (count + 1) / 2; !verdict.tune && job->known && half < count) {
      count = half;
      economics = EconomicsOf(*job, done, count, GainOf(*job, done, count));
      verdict = WeighTuning(economics);
    }
    if (!verdict.tune) {
      bool known = done > 1 || job->known;
      if (!known) metrics_->tune_abstained->Increment();
      site->Decide(known ? "tuned" : "abstained",
                   absl::StrCat(done > 1 ? absl::StrCat("after ", done, " candidates, the rest ")
                                         : known ? absl::StrCat(job->known->reason(), "; more ")
                                                 : "",
                                verdict.reason));
      // As launches go on the verdict may turn. A gain that was measured does not grow with them,
      // but other buckets do.
      uint64_t turn = CallsToTune(economics);
      uint64_t calls = site->calls();
      site->SetNextReview(
          turn == UINT64_MAX ? calls * 8 : std::max(calls + 1, std::min(turn, calls * 2)));
      return known;
    }
    if (MustWaitForIdle(*job)) {
      Park(*job);
      return false;
    }
    if (!is_free && AnotherHasNewVariants(*job)) {
      if (contest != nullptr) KeepContest(*job, std::move(contest));
      Due(job->site);
      return false;
    }
    site->Decide("tuning", verdict.reason);
    site->reviewed_calls = site->calls();
    if (contest == nullptr) contest = TakeContest(*job);
    if (contest == nullptr) contest = NewContest(*job);
    if (contest == nullptr) return false;
    Clock::time_point start = Clock::now();
    if (!MeasureAndPublish(job, contest.get(), done, count, seconds, /*later=*/true)) {
      if (site->decision().state != "waiting") site->SetNextReview(site->calls() * 4);
      return false;
    }
    if (done == 1) metrics_->tune_tuned->Increment();
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    done += count;
    if (done < all && AnotherIsMoreUrgent(*job)) {
      KeepContest(*job, std::move(contest));
      Due(job->site);
      return false;
    }
    job->measured_gain = true;
    OrderRest(job, done);
  }
  site->Decide("tuned",
               absl::StrCat(job->known->reason(), "; all ", done, " candidates were weighed"));
  site->SetNextReview(site->calls() * 2);
  return true;
}

bool OnlineTuner::MeasuredHere(const storage::TuningRecord& record, const Device& device) const {
  return std::any_of(record.trials().begin(), record.trials().end(), [&](const Trial& trial) {
    return trial.environment() == tuner_->Environment(device);
  });
}

void OnlineTuner::FillBudget(tessera::v1::ExplainTuningsResponse::Budget* budget) const {
  // Of the default device; figures of use are sums over all.
  const Device& device = *devices_->all()[0];
  const PaceOptions& pace = tuner_->PaceFor(device);
  const Queue* queue = QueueOf(device.name());
  budget->set_device_share(pace.device_share);
  budget->set_latency_bound_seconds(
      absl::ToDoubleSeconds(queue == nullptr ? pace.latency_bound : queue->pace->latency_bound()));
  for (const std::unique_ptr<Queue>& queue : queues_) {
    const Pace& used = *queue->pace;
    budget->set_spent_seconds(budget->spent_seconds() + used.spent_seconds());
    budget->set_used_ratio(std::max(budget->used_ratio(), used.used_ratio()));
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
