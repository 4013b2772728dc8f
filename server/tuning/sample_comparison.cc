// The online tuner's later look at a tuned bucket: do its other values want the same configuration?
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/tuning/online_tuner.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Trial = storage::TuningRecord::Trial;

// A sample of a tuned bucket is compared where a gain of this share would repay it.
constexpr double kGainOfASplit = 0.05;
constexpr int kComparedConfigs = 3;

}  // namespace

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
    const TuningPlace& place = job.subject.place;
    std::optional<storage::TuningRecord> split =
        table_->Record(place.kernel, place.source, sample.exact, place.model);
    if (split && !split->split()) split.reset();
    if (split && (split->pinned() ||
                  (name == split->sample() && MeasuredHere(*split, *job.subject.device))))
      continue;
    if (policy.kind == TuningPolicy::Kind::kAmortised) {
      TuningEconomics economics = EconomicsOf(job, 0, 0, job.gain);
      economics.candidates = kComparedConfigs;
      economics.calls = sample.calls;
      economics.gain = kGainOfASplit;
      if (!WeighTuning(economics).tune) continue;
    }
    if (CompareSample(&job, record, split, sample)) site->compared.insert(name);
    return;  // one a review
  }
}

bool OnlineTuner::CompareSample(Job* job, const storage::TuningRecord& bucket,
                                const std::optional<storage::TuningRecord>& split,
                                const TuningSite::Sample& sample) {
  TuningSite* site = job->site.get();
  // These very values were split off under another compiler or driver: once more from the bucket's.
  const bool again = split && !MeasuredHere(*split, *job->subject.device);
  const storage::TuningRecord& record = split && !again ? *split : bucket;
  if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) return true;
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
  if (candidates.size() < 2 || !SameConfig(candidates[0].config, chosen->config()))
    return true;
  std::unique_ptr<Contest> contest = NewContest(*job);
  if (contest == nullptr) return false;
  std::vector<Candidate*> entrants;
  for (Candidate& candidate : candidates) entrants.push_back(&candidate);
  contest->Admit(entrants);
  RaceOptions race;
  race.incumbent = 0;
  race.min_rounds = 6;
  race.max_rounds = 15;
  race.play_off_rounds = 30;
  contest->Run(entrants, race);
  if (stopping() || IsFrozen(site) || !contest->interrupted().ok()) return false;
  absl::StatusOr<storage::TuningRecord> result =
      tuner_->MakeRecord(job->subject, candidates, race, std::nullopt, 0);
  if (!result.ok()) return true;
  if (result->chosen() == 0 && !again) {
    site->Decide("tuned", absl::StrCat(bucket.reason(), "; confirmed for ", sample.exact));
    return true;
  }
  const storage::TuneConfig& other = result->trials(static_cast<int>(result->chosen())).config();
  double was = result->trials(0).median_seconds();
  double is = result->trials(static_cast<int>(result->chosen())).median_seconds();
  if (!again && absl::StrContains(record.sample(), sample.exact)) {
    std::string warning = absl::StrFormat(
        "an argument outside the key of %s changes the winner: with %s it is %s (%.4g ms against "
        "%.4g ms), with %s it is %s",
        site->kernel, sample.others, ConfigText(other), is * 1e3, was * 1e3, record.sample(),
        ConfigText(chosen->config()));
    if (site->Warn(warning)) spdlog::warn("tuning: {}", warning);
    return true;
  }
  result->set_bucket(sample.exact);
  result->set_split(true);
  // Where the bucket's choice has become the best one it is kept for these values all the same: the
  // record says that they were measured.
  site->Decide("tuned",
               result->chosen() == 0
                   ? absl::StrFormat("%s; %s is as the bucket again", bucket.reason(), sample.exact)
                   : absl::StrFormat("%s; %s is split off: %s takes %.4g ms there, %s %.4g ms",
                                     bucket.reason(), sample.exact, ConfigText(other), is * 1e3,
                                     ConfigText(chosen->config()), was * 1e3));
  metrics_->tune_config_changes->Increment();
  if (absl::Status stored = tuner_->Publish(*sample.request, job->subject, *std::move(result));
      !stored.ok())
    spdlog::warn("storing the tuning of {}: {}", site->kernel, stored.ToString());
  return true;
}

}  // namespace tessera::server
