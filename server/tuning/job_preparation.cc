// What a tuning of a site would try, in which order, and what it would save and cost.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "server/tuning/candidate_order.h"
#include "server/tuning/online_tuner.h"

namespace tessera::server {
namespace {

using Trial = storage::TuningRecord::Trial;

// The check of the result, and the rounds of a race that most candidates see.
constexpr double kRunsPerCandidate = 6;
// Where nothing of a kernel was compiled yet.
constexpr double kAssumedCompileSeconds = 0.1;
// In every bucket tuned so far at least so much slower than the best: not measured again. No less, for the largest shapes want
// what is twice as slow everywhere else.
constexpr double kHopeless = 3;
// What some candidates are expected to save is that of so many times as many: they are the most promising ones.
constexpr int kHopedFor = 2;
// What other buckets save is looked up where it is at least this share of the compiles' cost.
constexpr double kSavingWorthALook = 0.01;

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

std::vector<MeasuredConfig> MeasuredConfigs(const storage::TuningRecord& record) {
  std::vector<MeasuredConfig> measured;
  for (const Trial& trial : record.trials())
    if (Measured(trial)) measured.push_back({&trial.config(), trial.median_seconds()});
  return measured;
}

// Share of a launch's time that `more` candidates are expected to save, if they are like those that were measured.
double GainOfMoreThan(const storage::TuningRecord& record, int more) {
  std::vector<double> medians;
  for (const MeasuredConfig& one : MeasuredConfigs(record)) medians.push_back(one.seconds);
  return GainOfMore(medians, more);
}

// Of `count` candidates, from what `record` has measured.
double MeanPromise(const Candidate* candidates, int count, const storage::TuningRecord& record) {
  const std::vector<MeasuredConfig> measured = MeasuredConfigs(record);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += Promise(candidates[i].config, measured);
  return count == 0 ? 1 : sum / count;
}

absl::string_view ExactOf(const storage::TuningRecord& record) {
  return absl::string_view(record.sample()).substr(0, record.sample().find(", "));
}

}  // namespace

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

// What the configuration in force loses to the best one in the buckets where both were measured,
// beside the assumption, which weighs as much as one of them: other buckets are no proof.
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
  job->measured_gain = count > 0 || (job->known && MeasuredHere(*job->known, *job->subject.device));
  job->gain = (options_.assumed_gain + sum) / (1 + count);
}

// Behind the one in force: winners of other buckets, the rest.
void OnlineTuner::OrderCandidates(Job* job,
                                  const std::vector<storage::TuningRecord>& others) const {
  auto rest = std::stable_partition(
      job->candidates.begin() + 1, job->candidates.end(), [&](const Candidate& candidate) {
        return std::any_of(others.begin(), others.end(), [&](const storage::TuningRecord& record) {
          return record.chosen() < static_cast<uint32_t>(record.trials_size()) &&
                 SameConfig(record.trials(static_cast<int>(record.chosen())).config(),
                            candidate.config);
        });
      });
  std::stable_partition(job->candidates.begin() + 1, rest,
                        [](const Candidate& candidate) { return candidate.compiled; });
  OrderRest(job, static_cast<int>(rest - job->candidates.begin()));
}

void OnlineTuner::OrderRest(Job* job, int from) const {
  std::vector<Candidate> rest(std::make_move_iterator(job->candidates.begin() + from),
                              std::make_move_iterator(job->candidates.end()));
  job->candidates.resize(from);
  if (job->known && BestOf(*job->known) != nullptr) {
    const std::vector<MeasuredConfig> measured = MeasuredConfigs(*job->known);
    for (Candidate& candidate : rest) candidate.promise = Promise(candidate.config, measured);
    std::stable_sort(rest.begin(), rest.end(), [](const Candidate& a, const Candidate& b) {
      return a.promise > b.promise;
    });
    std::move(rest.begin(), rest.end(), std::back_inserter(job->candidates));
  } else {
    // So that few show much.
    for (size_t i : SpreadOut(rest.size())) job->candidates.push_back(std::move(rest[i]));
  }
  std::stable_partition(job->candidates.begin() + from, job->candidates.end(),
                        [](const Candidate& candidate) { return candidate.compiled; });
}

double OnlineTuner::GainOf(const Job& job, int from, int count) const {
  if (!job.known) return job.gain;
  // What this very bucket showed says more. The more was measured, the less is hoped for.
  const double gain =
      MeasuredHere(*job.known, *job.subject.device) ? GainOfMoreThan(*job.known, kHopedFor * count) : job.gain;
  return gain * MeanPromise(&job.candidates[from], count, *job.known);
}

TuningEconomics OnlineTuner::EconomicsOf(const Job& job, int from, int count, double gain) const {
  TuningEconomics economics;
  economics.calls = job.site->calls();
  economics.observed = job.site->observed_seconds();
  economics.call_seconds = job.site->call_seconds();
  economics.gain = gain;
  economics.gain_is_measured = job.measured_gain;
  economics.candidates = count;
  for (int i = from; i < from + count; ++i) economics.to_compile += !job.candidates[i].compiled;
  double compile_seconds = tuner_->CompileSeconds(job.site->kernel);
  economics.compile_seconds = compile_seconds > 0 ? compile_seconds : kAssumedCompileSeconds;
  if (job.subject.device->description().is_gpu())
    economics.compile_seconds *= options_.compile_weight_gpu;
  economics.runs = kRunsPerCandidate;
  economics.horizon = options_.horizon_seconds;
  AddOtherBuckets(job, from, count, &economics);
  return economics;
}

// Each hopes for what its own measurements leave to hope for.
void OnlineTuner::AddOtherBuckets(const Job& job, int from, int count, TuningEconomics* economics) const {
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
    const std::optional<storage::TuningRecord> record =
        table_->Record(job.subject.place.kernel, job.subject.place.source, site->bucket, job.subject.place.model);
    if (record && MeasuredHere(*record, *job.subject.device))
      there.gain = GainOfMoreThan(*record, kHopedFor * count) *
                   MeanPromise(&job.candidates[from], count, *record);
    AmortisationVerdict verdict = WeighTuning(there);
    if (!verdict.tune || verdict.saving - verdict.cost < least) continue;
    std::vector<TuningSite::Sample> samples = site->Samples();
    if (samples.empty() || !SharesVariants(samples[0].exact, job.subject.place.exact)) continue;
    ++economics->others;
    economics->others_saving += verdict.saving - verdict.cost;
  }
}

}  // namespace tessera::server
