// Measures configurations of a kernel for a launch, and keeps the best.
#ifndef TESSERA_SERVER_TUNING_TUNER_H_
#define TESSERA_SERVER_TUNING_TUNER_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tessera/v1/tuning.pb.h"
#include "server/tuning/config_pruner.h"
#include "server/tuning/contest.h"
#include "server/tuning/kept_candidates.h"
#include "server/tuning/tuning_table.h"

namespace tessera::server {

// Explicit tunings (the Tune call), and what they share with the online tuner. All must outlive it.
class Tuner {
 public:
  Tuner(Launcher* launcher, SessionRegistry* sessions, ModuleTable* modules, TuningTable* table,
        const ConfigPruner* pruner, Metrics* metrics, std::string compiler_build,
        TunerLimits limits)
      : launcher_(launcher),
        sessions_(sessions),
        modules_(modules),
        table_(table),
        pruner_(pruner),
        metrics_(metrics),
        compiler_build_(std::move(compiler_build)),
        limits_(limits),
        kept_(
            [launcher](const KeptCandidates::Kernel& kernel) {
              launcher->UnloadVariants(kernel.module, kernel.kernel, kernel.device);
            },
            KeptCandidates::Limits()) {}

  // Blocks; one tuning at a time. The client's memory is only read. FAILED_PRECONDITION: nothing to
  // choose from, or none of the configurations runs. Configurations measured before, in this
  // environment, are not measured again unless the effort is full.
  absl::StatusOr<storage::TuningRecord> Tune(const api::TuneRequest& request);

  absl::StatusOr<TuningSubject> Inspect(const api::LaunchRequest& launch);
  std::vector<Candidate> CandidatesOf(const KernelModel& kernel) const;
  // Whether prune_configs_by leaves each of the kernel's configurations for the launch.
  std::vector<bool> KeptConfigs(const KernelModel& kernel, const api::LaunchRequest& launch) const {
    return pruner_->Kept(kernel, launch);
  }
  absl::StatusOr<std::unique_ptr<Contest>> NewContest(const api::LaunchRequest& launch,
                                                      const TuningSubject& subject, Pace* pace,
                                                      Pace::Clock::time_point deadline,
                                                      double expected_seconds, bool background);

  // Puts what was found into a record: the trials of `candidates`, those of `known` for other
  // configurations, the choice among those of the latest race, by its rules. What `known` has is told
  // in terms of what the incumbent takes now, for machines are faster at one time than at another.
  absl::StatusOr<storage::TuningRecord> MakeRecord(
      const TuningSubject& subject, const std::vector<Candidate>& candidates,
      const RaceOptions& options, const std::optional<storage::TuningRecord>& known,
      double tuning_seconds) const;
  // Loads the chosen variant on the serving device, then lets launches use it.
  absl::Status Publish(const api::LaunchRequest& launch, const TuningSubject& subject,
                       storage::TuningRecord record);

  // What times depend on besides kernel, bucket and device model.
  std::string Environment(const Device& device) const;
  // Whether `record` has the configuration measured, or rejected, in this environment.
  bool IsKnown(const std::optional<storage::TuningRecord>& record, const Device& device,
               const storage::TuneConfig& config) const;
  // Expected seconds to compile a configuration of the kernel; 0: nothing is known.
  double CompileSeconds(const std::string& kernel) const;
  void ObserveCompiles(const std::string& kernel, const std::vector<Candidate*>& candidates);
  const TunerLimits& limits() const { return limits_; }
  const PaceOptions& PaceFor(const Device& device) const {
    return device.description().is_gpu() ? limits_.gpu : limits_.cpu;
  }

 private:
  Launcher* const launcher_;
  SessionRegistry* const sessions_;
  ModuleTable* const modules_;
  TuningTable* const table_;
  const ConfigPruner* const pruner_;
  Metrics* const metrics_;
  const std::string compiler_build_;
  const TunerLimits limits_;
  KeptCandidates kept_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, double> compile_seconds_;  // by kernel; moving average
};

// Whether it has a time.
bool Measured(const storage::TuningRecord::Trial& trial);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_TUNER_H_
