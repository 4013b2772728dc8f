// Runs a declared trace of calls against a daemon under tuning policies, one after the other, each
// from a cold start.
//
// Arrivals are closed-loop: one call at a time, the next when the last has answered. What the
// daemon does in the background lies inside the wall time. Kernels carry a name of their own for
// every policy, so that no policy finds what another compiled or tuned, on whatever daemon.
#ifndef TESSERA_CLIENT_CLI_BENCH_TRACE_STUDY_H_
#define TESSERA_CLIENT_CLI_BENCH_TRACE_STUDY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/workload.h"
#include "client/cpp/client.h"

namespace tessera::cli {

struct StudyPolicy {
  std::string name;
  std::string text;           // what it is, for the report
  std::string server_policy;  // for SetPolicy
  bool frozen = false;        // the daemon measures nothing of its own
  // The client tunes before the first call of a shape: these configurations, or all.
  bool first_use = false;
  std::vector<int> candidates;
};
// exhaustive, candidates, bucketed, fixed, amortised.
const std::vector<StudyPolicy>& StudyPolicies();

struct Call {
  int shape = 0;
  double begin = 0;                                // seconds since the trace began
  double seconds = 0;                              // latency, a tuning that it waited for included
  double kernel_seconds = 0, compile_seconds = 0;  // as the daemon says
  double tune_seconds = 0;                         // the client's Tune before it
  int config = 0;                                  // 1 + index
  // The first call of its shape, or one that waited for a compile or a tuning.
  bool cold = false;
};

// One policy on one trace.
struct PolicyRun {
  std::string policy;
  std::vector<Call> calls;
  double total_seconds = 0;
  // By the daemon's counters.
  uint64_t compiles = 0, trials = 0;
  uint64_t artifact_entries = 0, tuning_entries = 0;  // that it added to the cache
  uint64_t tuned_buckets = 0;
  double background_seconds = 0;  // of tunings that no call waited for
  double background_device_seconds = 0;
  uint64_t calls_beside_tuning =
      0;  // that ran, even in part, while a tuning was going on: at most so many
  // A product that nothing tunes, before and after: how fast the machine was.
  double yardstick_seconds[2] = {0, 0};
  std::vector<std::string> decisions;  // of the daemon, for the common shapes
};

// Where the steady state begins: with the last tenth of the calls, at most 1,000.
size_t SteadyBegin(const PolicyRun& run);

// Kernel time of each configuration that ran in a steady state, measured in turns on one daemon and the same memory, for each
// common shape.
struct SideBySide {
  struct Entry {
    int shape = 0, config = 0;
    double seconds = 0;  // median
  };
  std::vector<Entry> entries;
};

struct StudyOptions {
  std::string device;                                // empty: the first GPU, else the CPU
  std::string effort = "quick";                      // of the client's tunings
  std::function<void(const std::string&)> progress;  // a line for people
};

// A daemon for one policy.
class StudyDaemon {
 public:
  virtual ~StudyDaemon() = default;
  virtual Client& client() = 0;
};
using NewDaemon = std::function<absl::StatusOr<std::unique_ptr<StudyDaemon>>()>;

absl::StatusOr<PolicyRun> RunPolicy(const Workload& workload, const StudyPolicy& policy,
                                    const NewDaemon& new_daemon, const StudyOptions& options);
absl::StatusOr<SideBySide> MeasureSideBySide(const Workload& workload,
                                             const std::vector<std::vector<PolicyRun>>& rounds,
                                             const NewDaemon& new_daemon,
                                             const StudyOptions& options);

// The kernel's source, and how many configurations it has.
// 0 of none.
double Median(std::vector<double> values);

const char* StudyKernelSource();
constexpr int kStudyConfigs = 24;

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_TRACE_STUDY_H_
