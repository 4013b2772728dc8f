// Launches kernels: from a request to the executor and back.
//
// The hot path (a variant that is loaded) runs on the caller's thread without locks held across it:
// bind, specialise, look up, submit. Whatever is missing (the module, a mapping, the variant) is
// made ready in the background, and the launch is tried again; nothing waits for a compile but the
// launches that need it.
#ifndef TESSERA_SERVER_LAUNCH_LAUNCHER_H_
#define TESSERA_SERVER_LAUNCH_LAUNCHER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/tessera/v1/launch.pb.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/compile/compile_service.h"
#include "server/compile/module_table.h"
#include "server/device/device_table.h"
#include "server/launch/bound_launch.h"
#include "server/launch/config_choices.h"
#include "server/launch/kernel_model.h"
#include "server/session/session_registry.h"
#include "server/telemetry/metrics.h"

namespace tessera::server {

struct LauncherLimits {
  uint32_t variants = 4096;  // loaded at once; beyond it those unused longest go
};

// How a caller waits for its launch.
struct LaunchWait {
  absl::Duration timeout = absl::InfiniteDuration();  // for what must be made ready first
  absl::Duration spin = absl::ZeroDuration();         // see ExecutorClient::Submit
};

class Launcher {
 public:
  // Runs exactly once, on any thread, the caller's included; must not block.
  using Done = std::function<void(absl::Status)>;

  // All must outlive this object.
  Launcher(SessionRegistry* sessions, DeviceTable* devices, ModuleTable* modules,
           CompileService* compiler, cache::CacheStore* store, const ConfigChoices* choices,
           TaskPool* pool, Timer* timer, Metrics* metrics, LauncherLimits limits);

  // `request` is only read before this returns; `response` must live until `done` runs.
  void Launch(const api::LaunchRequest& request, LaunchWait wait, api::LaunchResponse* response,
              Done done);

  // Compiles and loads a variant described by signature strings ("x=*fp16:16").
  struct CompiledVariant {
    CompileOutcome outcome = CompileOutcome::kHit;
    double compile_seconds = 0;
    std::string key_hex;
    std::map<std::string, std::string> stages;  // texts, as `emit` asked
    std::vector<std::string> notes;
  };
  using CompileDone = std::function<void(absl::StatusOr<CompiledVariant>)>;
  void Compile(const api::CompileRequest& request, absl::Duration timeout, CompileDone done);

  // Waits for the session's launches that were answered before they ended.
  using SynchronizeDone = std::function<void(absl::Status, api::SynchronizeResponse)>;
  void Synchronize(absl::string_view session, SynchronizeDone done);

  // What a launch would be tuned under. The module must be loaded.
  struct Inspection {
    std::shared_ptr<KernelModel> kernel;
    Device* device = nullptr;
    std::string bucket;
  };
  absl::StatusOr<Inspection> Inspect(const api::LaunchRequest& request);

  // Refuses new launches from now on (UNAVAILABLE).
  void StopAccepting() { accepting_.store(false, std::memory_order_relaxed); }
  // Compiles that launches wait for count as "during serving" from now on.
  void SetServing() { serving_.store(true, std::memory_order_relaxed); }

  uint32_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  uint32_t variants() const { return variant_count_.load(std::memory_order_relaxed); }
  // Writes usage counts to the store. Called now and then.
  void FlushUsage();
  // The hashes of the compile keys of all variants that are loaded.
  std::vector<std::string> LoadedKeys() const;

 private:
  struct Attempt;
  struct ChosenConfig {
    ConfigChoice choice;
    std::shared_ptr<const KernelModel::Config>
        keep;  // what `choice` points to, where it is not the kernel's own
  };
  enum class Missing { kNothing, kModule, kMappings, kVariant };
  struct LoadedVariant {
    std::shared_ptr<Variant> variant;
    CompileOutcome outcome = CompileOutcome::kHit;
    double compile_seconds = 0;
    std::shared_ptr<const storage::Artifact> artifact;
  };

  // Submits if nothing is missing; then the attempt's end comes through its InFlight.
  absl::Status TrySubmit(Attempt* attempt, Missing* missing);
  absl::Status ChooseConfig(Attempt* attempt, const BoundLaunch& bound, ChosenConfig* chosen);
  absl::Status Submit(Attempt* attempt, std::shared_ptr<Variant> variant, const uint32_t grid[3],
                      BoundLaunch* bound);
  void MakeReady(std::shared_ptr<Attempt> attempt, Missing missing);
  void TryAgain(const std::shared_ptr<Attempt>& attempt);
  void Finish(Attempt* attempt, absl::Status status);
  void End(Session* session, const absl::Status& status);

  std::shared_ptr<KernelModel> FindKernel(const std::string& module,
                                          const std::string& kernel) const;
  absl::StatusOr<std::shared_ptr<KernelModel>> KernelOf(std::shared_ptr<const Module> module,
                                                        const std::string& kernel);

  void EnsureVariant(std::shared_ptr<KernelModel> kernel, Device* device, const std::string& key,
                     const storage::CompileJob& job, absl::Duration timeout,
                     std::function<void(absl::StatusOr<LoadedVariant>)> done);
  void LoadVariant(const std::string& flight, std::shared_ptr<KernelModel> kernel, Device* device,
                   const std::string& key, const CompiledArtifact& compiled);
  void TrimVariants();
  void CompileKnown(std::shared_ptr<const Module> module, const api::CompileRequest& request,
                    absl::Duration timeout, CompileDone done);

  SessionRegistry* const sessions_;
  DeviceTable* const devices_;
  ModuleTable* const modules_;
  CompileService* const compiler_;
  cache::CacheStore* const store_;
  const ConfigChoices* const choices_;
  TaskPool* const pool_;
  Metrics* const metrics_;
  const LauncherLimits limits_;
  SingleFlight<LoadedVariant> flights_;

  std::atomic<bool> accepting_{true}, serving_{false};
  std::atomic<uint32_t> in_flight_{0}, variant_count_{0};
  std::atomic<uint64_t> launches_{0}, failures_{0}, next_kernel_id_{1};

  mutable absl::Mutex mutex_;
  // By module and kernel, joined by '/'.
  absl::flat_hash_map<std::string, std::shared_ptr<KernelModel>> kernels_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_LAUNCHER_H_
