// Tunes while serving, without anyone waiting for it.
//
// Launches count at their site; when a site is due, the tuner weighs what tuning it would save and
// cost (amortisation.h), measures inside the budget (pace.h), in stages where the policy is amortised
// (a few candidates that differ first, more when what they showed says so, and when no other site
// is more urgent), and writes down why. What was compiled for one bucket is weighed anew for the others. Launches that are longer
// than the latency bound are tuned once the device is idle. Later other values of a tuned bucket are
// compared: they confirm it or split it, and an argument outside the key that changes the winner is
// named.
#ifndef TESSERA_SERVER_TUNING_ONLINE_TUNER_H_
#define TESSERA_SERVER_TUNING_ONLINE_TUNER_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/device/device_table.h"
#include "server/telemetry/metrics.h"
#include "server/tuning/amortisation.h"
#include "server/tuning/pace.h"
#include "server/tuning/policy.h"
#include "server/tuning/tuner.h"
#include "server/tuning/tuning_table.h"

namespace tessera::server {

struct OnlineTunerOptions {
  double assumed_gain = 0.3;      // of a kernel of which nothing is known: share of its time
  double horizon_seconds = 3600;  // how far ahead a rate is trusted
  // A compile's seconds, beside seconds of a GPU: other processors spend them.
  double compile_weight_gpu = 0.5;
  int stage = 4;  // candidates that are measured before more are weighed
  absl::Duration longest = absl::Minutes(10);  // one tuning
};

// Thread-safe; tunes on all devices at once, one site at a time on each. All must outlive it; Stop
// before they go.
class OnlineTuner {
 public:
  OnlineTuner(TuningTable* table, Tuner* tuner, const TuningPolicies* policies,
              const DeviceTable* devices, Metrics* metrics, OnlineTunerOptions options);
  ~OnlineTuner();  // Stop

  // Before the first launch.
  void Start();
  // Ends the tuning under way without a record. The launcher must answer or refuse its launches.
  void Stop();
  // A policy changed: what was decided before may be decided otherwise.
  void ReviewAll();

  void FillBudget(tessera::v1::ExplainTuningsResponse::Budget* budget) const;
  // Brings the metrics up to date. One caller at a time.
  void RefreshMetrics();

 private:
  // One tuning of one site.
  struct Job {
    std::shared_ptr<TuningSite> site;
    std::shared_ptr<const api::LaunchRequest> launch;
    TuningSubject subject;
    std::optional<storage::TuningRecord> known;
    std::vector<Candidate> candidates;  // the one in force first
    Pace* pace = nullptr;
    bool measured_gain = false;
    double gain = 0;
  };

  // Between two stages of a tuning.
  struct BegunContest {
    std::shared_ptr<TuningSite> site;
    std::shared_ptr<const api::LaunchRequest> launch;
    Pace::Clock::time_point since;
    std::unique_ptr<Contest> contest;
  };

  // The sites of one device.
  struct Queue {
    std::string name;  // the device's
    std::vector<std::shared_ptr<TuningSite>> due;
    std::vector<std::shared_ptr<TuningSite>> parked;  // until the device is idle
    std::unique_ptr<Pace> pace;
    std::vector<BegunContest> begun;  // the thread's own
    std::condition_variable wake;
    std::thread thread;
  };

  void Due(std::shared_ptr<TuningSite> site);
  void Loop(Queue* queue);
  // Waits for a site to review; null: stop.
  std::shared_ptr<TuningSite> NextSite(Queue* queue);
  void Review(const std::shared_ptr<TuningSite>& site);
  // Whether nothing may be tuned, or published, by now; then the site says so.
  bool IsFrozen(TuningSite* site) const;
  // The device is too busy for launches as long as the site's: it is reviewed when it is idle.
  void Park(const Job& job);
  bool AnotherIsMoreUrgent(const Job& job) const;
  // What was compiled is tried everywhere before more is.
  bool AnotherHasNewVariants(const Job& job) const;
  bool MustWaitForIdle(const Job& job) const;
  // The job's kernel has new times, or variants too: what was decided elsewhere may change, now.
  void ReviewOtherBuckets(const Job& job, bool new_variants);
  // Fills in what a tuning of this sample would start from. False: it cannot be tuned now; the site
  // says why.
  bool Prepare(const std::shared_ptr<TuningSite>& site, const TuningSite::Sample& sample, Job* job);
  std::unique_ptr<Contest> NewContest(const Job& job);
  void KeepContest(const Job& job, std::unique_ptr<Contest> contest);
  std::unique_ptr<Contest> TakeContest(const Job& job);
  // Of the next `count` candidates, from `from` on.
  TuningEconomics EconomicsOf(const Job& job, int from, int count, double gain) const;
  // Expected share of a launch's time that these candidates save, the gain of the job less what lies far from the best.
  double GainOf(const Job& job, int from, int count) const;
  void AddOtherBuckets(const Job& job, int from, int count, TuningEconomics* economics) const;
  void OrderCandidates(Job* job, const std::vector<storage::TuningRecord>& others) const;
  // Those from `from` on: what is compiled, and what promises most, comes first.
  void OrderRest(Job* job, int from) const;
  void EstimateGain(Job* job, const std::vector<storage::TuningRecord>& others) const;
  // Whether it came to its end with a record: false also where others go first, or nothing repays.
  bool TuneInStages(Job* job);
  // Those that came close to the chosen one, in races in which chance had its part, once more
  // together; again when launches have doubled. `decision`: what the site is told anyhow. False: it
  // came to a final, and that came to no end. The job must have a record.
  bool RaceContenders(Job* job, const std::string& decision);
  void TuneAll(Job* job, int count);
  // Times `count` candidates more; publishes what is best so far. False: nothing ran, or the tuning
  // ended early. `later`: see Contest::Admit.
  bool MeasureAndPublish(Job* job, Contest* contest, int from, int count, double seconds_before,
                         bool later);
  void CompareSamples(const std::shared_ptr<TuningSite>& site, const storage::TuningRecord& record,
                      const TuningPolicy& policy);
  // `split`: what is in force for the sample's values alone. False: it did not come to a comparison.
  bool CompareSample(Job* job, const storage::TuningRecord& bucket,
                     const std::optional<storage::TuningRecord>& split,
                     const TuningSite::Sample& sample);
  // In this environment, at least in part.
  bool MeasuredHere(const storage::TuningRecord& record, const Device& device) const;
  Queue* QueueOf(const std::string& device) const;
  bool stopping() const;

  TuningTable* const table_;
  Tuner* const tuner_;
  const TuningPolicies* const policies_;
  const DeviceTable* const devices_;
  Metrics* const metrics_;
  const OnlineTunerOptions options_;

  std::vector<std::unique_ptr<Queue>> queues_;  // of every device that tunes; fixed after Start
  mutable std::mutex mutex_;  // of what is in the queues, and of what follows
  std::map<std::string, std::vector<bool>> overwritten_;  // see TuningSubject; by source
  bool stopping_ = false;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_ONLINE_TUNER_H_
