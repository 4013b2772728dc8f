// A contest of configurations for one launch, on copies of its memory.
//
// Candidates run in a tuning executor of the device, which maps no memory of clients. Each is
// compiled, runs once on fresh copies, and must give what the configuration in force gives, without
// touching the margins of its tensors; only then is it timed. (Where whole runs would hold up
// launches, parts of the grid are timed first, and the winner is compared before it is used.) One that
// faults, hangs or is wrong is rejected by name and costs only itself.
#ifndef TESSERA_SERVER_TUNING_CONTEST_H_
#define TESSERA_SERVER_TUNING_CONTEST_H_

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tessera/v1/tuning.pb.h"
#include "server/launch/launcher.h"
#include "server/session/session_registry.h"
#include "server/telemetry/metrics.h"
#include "server/tuning/kept_candidates.h"
#include "server/tuning/pace.h"
#include "server/tuning/race.h"
#include "server/tuning/scratch_launch.h"
#include "server/tuning/tuning_table.h"

namespace tessera::server {

struct TunerLimits {
  uint64_t scratch_bytes = uint64_t{4} << 30;  // copies of a launch's memory
  absl::Duration default_budget = absl::Seconds(30);
  absl::Duration longest_budget = absl::Minutes(10);
  int candidates = 256;  // a tuning
  // Compiling and loading one candidate; its first run.
  absl::Duration compile_limit = absl::Minutes(15);
  absl::Duration launch_limit = absl::Minutes(1);
  PaceOptions cpu, gpu;  // by kind of device
};

// A configuration on its way through a tuning.
struct Candidate {
  storage::TuneConfig config;
  int index = 0;       // of the kernel's list, from 1; 0: given by the request
  api::Config on_wire;  // where index is 0
  bool admitted = false;
  std::vector<double> seconds;
  std::string failure;
  bool in_race = false;        // took part in the latest race: its times compare with the others'
  double first_seconds = 0;    // of the checking run
  double compile_seconds = 0;  // 0: it was compiled before
  bool compiled = false;       // for a launch of the same specialisation, as far as is known
  double promise = 1;          // of one that the bucket has not measured, see candidate_order.h
};

// What a launch is tuned as.
struct TuningSubject {
  std::shared_ptr<KernelModel> kernel;
  Device* device = nullptr;  // where it serves
  TuningPlace place;
  // Tensors that a launch overwrites without reading, as Contest::overwritten gave them for another
  // launch of the kernel; empty: nobody knows.
  std::vector<bool> overwritten;
};

// Candidates for one launch. Not thread-safe; blocks.
class Contest {
 public:
  struct Parts {
    Launcher* launcher;
    SessionRegistry* sessions;
    ModuleTable* modules;
    Metrics* metrics;
    KeptCandidates* kept;
    Pace* pace;
  };
  // Makes the copies. `parts` must outlive it. `expected_seconds`: of a launch with the
  // configuration in force; 0: nobody knows. `background`: compiles at background priority.
  static absl::StatusOr<std::unique_ptr<Contest>> Create(const api::LaunchRequest& launch,
                                                         const TuningSubject& subject, Parts parts,
                                                         Pace::Clock::time_point deadline,
                                                         double expected_seconds, bool background,
                                                         const TunerLimits& limits);
  ~Contest();

  // Compiles them all, then runs each once and compares. The first candidate that ever runs is what
  // others are compared with: let it be the one in force. A failure is left in the candidate.
  // `later`: where whole runs would hold up launches, parts of the grid show how long candidates take
  // and whether they write outside their tensors; what wins is to be compared by Verify before it is
  // used.
  void Admit(const std::vector<Candidate*>& candidates, bool later = false);
  // Whether the candidate's result is right, if that was left for later. A failure is left in it. An
  // error: nobody knows.
  absl::StatusOr<bool> Verify(Candidate* candidate);
  // Times those that are admitted, by rounds.
  void Run(const std::vector<Candidate*>& candidates, const RaceOptions& options);

  // After Admit: see TuningSubject. Empty: it was not found out.
  const std::vector<bool>& overwritten() const { return overwritten_; }

  // Of the copies, all together.
  uint64_t scratch_bytes() const { return scratch_->bytes(); }

  // Why it ended before everything was measured: the time, a device that is never free, the daemon
  // stops. Candidates without times or failure were left out.
  const absl::Status& interrupted() const { return interrupted_; }

 private:
  struct Pending {
    api::LaunchResponse response;
    std::promise<absl::Status> ended;
    std::future<absl::Status> status = ended.get_future();
    std::shared_ptr<GridShare> share;
  };
  Contest() = default;
  std::shared_ptr<Pending> Begin(const Candidate& candidate, double grid_share, bool prepare_only,
                                 bool is_part = false);
  absl::StatusOr<double> Launch(const Candidate& candidate, double grid_share,
                                bool is_part = false);
  // Whether what is not timed whole is to be timed as LaunchCommand::part says: not where a run
  // must be prepared for.
  bool times_parts() const {
    return parts_.pace->options().yields && !scratch_->prepares_timed_runs();
  }
  // Of a race in which all run whole, or as parts.
  absl::StatusOr<double> Sample(const Candidate& candidate, double grid_share, bool whole);
  absl::Status Check(Candidate* candidate, bool later);
  absl::StatusOr<double> RunWhole(const Candidate& candidate, double expected);
  absl::Status MakeReference(Candidate* candidate, double expected);
  absl::Status CompareWithReference(Candidate* candidate, double expected);
  absl::StatusOr<double> Estimate(const Candidate& candidate);
  void FindOverwritten();
  // Whether the reference comes out the same where what is poisoned now was not restored.
  absl::StatusOr<bool> AgreesPoisoned();
  // After a candidate that was rejected: whether it left what others are compared with as it was.
  // Else the contest is interrupted.
  bool IsSound(const Candidate& rejected);
  KeptCandidates::Kernel kernel() const;
  // True: it was the candidate's fault. Else the contest is interrupted.
  bool Blame(Candidate* candidate, const absl::Status& status);

  Parts parts_;
  Device* device_ = nullptr;  // the tuning one
  Pace::Clock::time_point deadline_;
  double expected_seconds_ = 0;
  bool background_ = false;
  TunerLimits limits_;
  std::unique_ptr<ScratchLaunch> scratch_;
  std::vector<bool> overwritten_;
  std::map<int, double> admitted_;  // first_seconds of those that were, by index
  std::set<int> compared_;          // indices of those whose result is right
  std::optional<Candidate> reference_;  // whose result others are compared with
  uint32_t restarts_ = 0;               // of the executor, when the contest began
  absl::Status interrupted_;
};

// "BLOCK_M=64 BLOCK_N=128 num_warps=8"
std::string ConfigText(const storage::TuneConfig& config);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_CONTEST_H_
