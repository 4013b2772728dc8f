// Measures the configurations of a kernel for a given launch and keeps the best.
#ifndef TESSERA_SERVER_TUNING_TUNER_H_
#define TESSERA_SERVER_TUNING_TUNER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tessera/v1/tuning.pb.h"
#include "server/launch/launcher.h"
#include "server/session/session_registry.h"
#include "server/telemetry/metrics.h"
#include "server/tuning/tuning_table.h"

namespace tessera::server {

struct TunerLimits {
  uint64_t scratch_bytes = uint64_t{4} << 30;  // copies of the client's memory
  absl::Duration default_budget = absl::Seconds(30);
  absl::Duration longest_budget = absl::Minutes(10);
};

// Blocks; one tuning at a time. All must outlive it.
class Tuner {
 public:
  Tuner(Launcher* launcher, SessionRegistry* sessions, ModuleTable* modules, TuningTable* table,
        Metrics* metrics, TunerLimits limits)
      : launcher_(launcher),
        sessions_(sessions),
        modules_(modules),
        table_(table),
        metrics_(metrics),
        limits_(limits) {}

  // Candidates run on scratch copies; the client's memory is only read. FAILED_PRECONDITION:
  // nothing to choose from.
  absl::StatusOr<storage::TuningRecord> Tune(const api::TuneRequest& request);

 private:
  absl::StatusOr<api::LaunchResponse> LaunchAndWait(const api::LaunchRequest& request,
                                                    absl::Duration timeout);

  Launcher* const launcher_;
  SessionRegistry* const sessions_;
  ModuleTable* const modules_;
  TuningTable* const table_;
  Metrics* const metrics_;
  const TunerLimits limits_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_TUNER_H_
