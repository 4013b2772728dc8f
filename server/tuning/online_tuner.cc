#include "server/tuning/online_tuner.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/concurrency/background_thread.h"
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
constexpr int kNice = 10;
// Contests that wait for their next stage; their copies stay in memory.
constexpr size_t kBegunContests = 4;
// A bucket with fewer launches is not weighed anew because another one was tuned.
constexpr uint64_t kCallsWorthALook = 64;
// What other buckets save is looked up where it is at least this share of the compiles' cost.
constexpr double kSavingWorthALook = 0.01;
constexpr std::chrono::milliseconds kIdlePoll(20);

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

// What is launched most comes first: it has the most to gain. But launches that a review has seen
// count no more, so that all have their turn.
double Urgency(const TuningSite& site) {
  return static_cast<double>(site.calls() - site.reviewed_calls) * site.call_seconds();
}

double MedianOf(const Candidate& candidate) { return MedianInterval(candidate.seconds).median; }

absl::string_view ExactOf(const storage::TuningRecord& record) {
  return absl::string_view(record.sample()).substr(0, record.sample().find(", "));
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

void OnlineTuner::ReviewOtherBuckets(const Job& job) {
  for (const std::shared_ptr<TuningSite>& site : table_->Sites(job.site->kernel))
    if (site != job.site && site->source == job.site->source && site->device == job.site->device &&
        site->calls() >= kCallsWorthALook)
      site->SetNextReview(0);
}

std::shared_ptr<TuningSite> OnlineTuner::NextSite(Queue* queue) {
  auto take = [](std::vector<std::shared_ptr<TuningSite>>* sites) {
    auto most = std::max_element(sites->begin(), sites->end(), [](const auto& a, const auto& b) {
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

void OnlineTuner::Review(const std::shared_ptr<TuningSite>& site) {
  std::shared_ptr<const TuningPolicy> policy = policies_->Of(site->kernel);
  uint64_t calls = site->calls();
  site->reviewed_calls = calls;
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
    // The rest of the candidates may never repay; other values of the bucket may.
    if (job.known && site->decision().state == "tuned") CompareSamples(site, *job.known, *policy);
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
  job->pace = QueueOf(site->device)->pace.get();
  job->pace->FitBound();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = overwritten_.find(site->source); found != overwritten_.end())
      job->subject.overwritten = found->second;
  }
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
  for (const storage::TuningRecord& record : others) {
    if (!SharesVariants(ExactOf(record), place.exact)) continue;
    for (Candidate& candidate : job->candidates)
      candidate.compiled |= tuner_->IsKnown(record, *device, candidate.config);
  }
  OrderCandidates(job, others);
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

// What the configuration in force loses to the best one in the buckets where both were measured,
// beside the assumption, which weighs as much as one of them: other buckets are no proof.
void OnlineTuner::EstimateGain(Job* job,
                               const std::vector<storage::TuningRecord>& others) const {
  double sum = 0;
  int count = 0;
  if (job->known && MeasuredHere(*job->known, *job->subject.device)) {
    // What this very bucket showed says more. The more was measured, the less is hoped for.
    std::vector<double> medians;
    for (const Trial& trial : job->known->trials())
      if (Measured(trial)) medians.push_back(trial.median_seconds());
    job->measured_gain = true;
    job->gain = GainOfMore(medians, 2 * options_.stage);
    return;
  }
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
  job->gain = (options_.assumed_gain + sum) / (1 + count);
}

// Behind the one in force: winners of other buckets, what is compiled already; then a spread over the
// rest, so that few show much.
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
  std::stable_partition(ordered.begin() + 1, ordered.end(),
                        [](const Candidate& candidate) { return candidate.compiled; });
  auto uncompiled = std::stable_partition(
      rest.begin(), rest.end(), [](const Candidate& candidate) { return candidate.compiled; });
  ordered.insert(ordered.end(), std::make_move_iterator(rest.begin()),
                 std::make_move_iterator(uncompiled));
  rest.erase(rest.begin(), uncompiled);
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

TuningEconomics OnlineTuner::EconomicsOf(const Job& job, int from, int count) const {
  TuningEconomics economics;
  economics.calls = job.site->calls();
  economics.observed = job.site->observed_seconds();
  economics.call_seconds = job.site->call_seconds();
  economics.gain = job.gain;
  economics.gain_is_measured = job.measured_gain;
  economics.candidates = count;
  for (int i = from; i < from + count; ++i) economics.to_compile += !job.candidates[i].compiled;
  double compile_seconds = tuner_->CompileSeconds(job.site->kernel);
  economics.compile_seconds = compile_seconds > 0 ? compile_seconds : kAssumedCompileSeconds;
  if (job.subject.device->description().is_gpu())
    economics.compile_seconds *= options_.compile_weight_gpu;
  economics.runs = kRunsPerCandidate;
  economics.horizon = options_.horizon_seconds;
  AddOtherBuckets(job, &economics);
  return economics;
}

void OnlineTuner::AddOtherBuckets(const Job& job, TuningEconomics* economics) const {
  if (economics->to_compile == 0) return;
  const double least = kSavingWorthALook * economics->to_compile * economics->compile_seconds;
  for (const std::shared_ptr<TuningSite>& site : table_->Sites(job.site->kernel)) {
    if (site == job.site || site->source != job.site->source || site->device != job.site->device)
      continue;
    TuningEconomics there = *economics;
    there.calls = site->calls();
    there.observed = site->observed_seconds();
    there.call_seconds = site->call_seconds();
    there.to_compile = 0;
    AmortisationVerdict verdict = WeighTuning(there);
    if (!verdict.tune || verdict.saving - verdict.cost < least) continue;
    std::vector<TuningSite::Sample> samples = site->Samples();
    if (samples.empty() || !SharesVariants(samples[0].exact, job.subject.place.exact)) continue;
    ++economics->others;
    economics->others_saving += verdict.saving - verdict.cost;
  }
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
        (best < 0 || MedianOf(candidate) < MedianOf(job->candidates[best])))
      best = i;
  }
  entrants.push_back(&job->candidates[0]);
  if (best > 0) entrants.push_back(&job->candidates[best]);
  for (int i = from; i < from + count; ++i) entrants.push_back(&job->candidates[i]);
  contest->Admit(entrants, later);
  if (!contest->overwritten().empty()) {
    std::lock_guard<std::mutex> lock(mutex_);
    overwritten_[job->site->source] = contest->overwritten();
  }
  tuner_->ObserveCompiles(job->site->kernel, entrants);
  RaceOptions race;
  race.max_rounds = 21;
  contest->Run(entrants, race);
  if (stopping()) return false;
  double seconds = seconds_before + std::chrono::duration<double>(Clock::now() - start).count();
  // Half a race is none: what is kept must have been compared.
  absl::StatusOr<storage::TuningRecord> record = absl::CancelledError("the tuning ended early");
  while (contest->interrupted().ok()) {
    const std::vector<Candidate> measured(job->candidates.begin(),
                                          job->candidates.begin() + from + count);
    record = tuner_->MakeRecord(job->subject, measured, 0, job->known, seconds);
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
  if (!contest->interrupted().ok()) record = contest->interrupted();
  if (!record.ok()) {
    job->site->Decide("failed", std::string(record.status().message()));
    if (absl::IsDeadlineExceeded(record.status()) && MustWaitForIdle(*job)) Park(*job);
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
  ReviewOtherBuckets(*job);
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

void OnlineTuner::TuneInStages(Job* job) {
  TuningSite* site = job->site.get();
  const int all = std::min(static_cast<int>(job->candidates.size()), tuner_->limits().candidates);
  int done = 1;
  std::unique_ptr<Contest> contest;
  double seconds = 0;
  while (done < all) {
    // A few at a time: what they show decides on more. First those that cost no compile.
    int count = std::min(all - done, job->known ? 2 * options_.stage : options_.stage);
    for (int i = 1; i < count; ++i)
      if (job->candidates[done + i].compiled != job->candidates[done].compiled) count = i;
    TuningEconomics economics = EconomicsOf(*job, done, count);
    AmortisationVerdict verdict = WeighTuning(economics);
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
      return;
    }
    if (MustWaitForIdle(*job)) return Park(*job);
    site->Decide("tuning", verdict.reason);
    site->reviewed_calls = site->calls();
    if (contest == nullptr) contest = TakeContest(*job);
    if (contest == nullptr) contest = NewContest(*job);
    if (contest == nullptr) return;
    Clock::time_point start = Clock::now();
    if (!MeasureAndPublish(job, contest.get(), done, count, seconds, /*later=*/true)) {
      if (site->decision().state != "waiting") site->SetNextReview(site->calls() * 4);
      return;
    }
    if (done == 1) metrics_->tune_tuned->Increment();
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    done += count;
    if (done < all && AnotherIsMoreUrgent(*job)) {
      KeepContest(*job, std::move(contest));
      return Due(job->site);
    }
    std::vector<double> medians;
    for (int i = 0; i < done; ++i)
      if (!job->candidates[i].seconds.empty()) medians.push_back(MedianOf(job->candidates[i]));
    job->gain = GainOfMore(medians, 2 * options_.stage);
    job->measured_gain = true;
  }
  site->Decide("tuned",
               absl::StrCat(job->known->reason(), "; all ", done, " candidates were weighed"));
  site->SetNextReview(site->calls() * 2);
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
