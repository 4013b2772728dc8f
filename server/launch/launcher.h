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
#include "absl/functional/function_ref.h"
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
#include "server/launch/grid_share.h"
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
  // Somebody asked for what this launch compiles (the tuner): no matter of the JIT observer.
  bool may_compile = false;
  // A client's: it is told the variant's notes, and counts as use, for eviction and for manifests
  // recorded from traffic.
  bool is_traffic = true;
  // Compiles are no matter of hurry: at the priority of background work. The response counts their
  // processor time.
  bool background = false;
  // Everything is made ready, nothing runs.
  bool prepare_only = false;
  // Of the tuner: a Device::tuning() to run on, whatever the request says. Such launches count
  // nowhere, and the gate of the device is theirs to see to.
  Device* tuning_device = nullptr;
  std::shared_ptr<GridShare> grid_share;  // null: the whole grid
  bool is_part = false;                   // LaunchCommand::part, as large as `grid_share` says
};

// Told of compiles that launches wait for after the daemon is ready.
class JitObserver {
 public:
  struct Event {
    const KernelModel& kernel;
    const Device& device;
    const api::CompileRequest& recipe;  // of the variant; its arguments are the launch's
    const storage::CompileJob& job;
    const std::string& key;  // of the artifact, hex
    double seconds;          // of the compile; 0 where it was refused
    bool refused;
  };
  virtual ~JitObserver() = default;
  // Whether launches that would compile are to be refused. Thread-safe, as the next.
  virtual bool refuses() const = 0;
  // Returns what a refused launch is told. Must not block.
  virtual std::string OnJit(const Event& event) = 0;
};

class Launcher {
 public:
  // Runs exactly once, on any thread, the caller's included; must not block.
  using Done = std::function<void(absl::Status)>;

  // All must outlive this object.
  Launcher(SessionRegistry* sessions, DeviceTable* devices, ModuleTable* modules,
           CompileService* compiler, cache::CacheStore* store, ConfigChoices* choices,
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

  // The variant that Compile would make, without making it.
  struct PlannedVariant {
    std::string key_hex;   // of the artifact
    std::string identity;  // equal for two requests that Compile serves with one loaded variant
    std::string text;      // VariantText
    std::string device;
    cache::CompileKey key;
    int config = 0;  // counts from 1
    bool loaded = false;
  };
  absl::StatusOr<PlannedVariant> Plan(std::shared_ptr<const Module> module,
                                      const api::CompileRequest& request);

  // Waits for the session's launches that were answered before they ended.
  using SynchronizeDone = std::function<void(absl::Status, api::SynchronizeResponse)>;
  void Synchronize(absl::string_view session, SynchronizeDone done);

  // Binds a launch and shows it, without launching. The module must be loaded.
  using Look = absl::FunctionRef<void(const std::shared_ptr<KernelModel>& kernel,
                                      const BoundLaunch& bound, Device* device)>;
  absl::Status Inspect(const api::LaunchRequest& request, Look look);

  // What is loaded of a kernel on the device with this index.
  int CountVariants(const std::string& module, const std::string& kernel, int device) const;
  // Unloads it, save what runs.
  void UnloadVariants(const std::string& module, const std::string& kernel, int device);

  // Refuses new launches from now on (UNAVAILABLE).
  void StopAccepting() { accepting_.store(false, std::memory_order_relaxed); }
  bool accepts() const { return accepting_.load(std::memory_order_relaxed); }
  // Compiles that launches wait for count as "during serving" from now on.
  void SetServing() { serving_.store(true, std::memory_order_relaxed); }
  // Both before the first launch. `observer` must outlive this object. `on_usage` is called by
  // FlushUsage for every variant that was launched since the last time.
  void SetJitObserver(JitObserver* observer) { jit_observer_ = observer; }
  using OnUsage = std::function<void(const KernelModel& kernel, const Variant& variant,
                                     uint64_t launches, int64_t unix_seconds)>;
  void SetOnUsage(OnUsage on_usage) { on_usage_ = std::move(on_usage); }

  uint32_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  uint32_t variants() const { return variant_count_.load(std::memory_order_relaxed); }
  std::map<std::string, uint32_t> VariantsByKernel() const;  // loaded ones, by kernel name
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
  enum class Missing { kNothing, kModule, kMappings, kVariant, kStages };
  struct LoadedVariant {
    std::shared_ptr<Variant> variant;
    CompileOutcome outcome = CompileOutcome::kHit;
    double compile_seconds = 0, cpu_seconds = 0;
    std::shared_ptr<const storage::Artifact> artifact;
  };

  // Submits if nothing is missing; then the attempt's end comes through its InFlight.
  absl::Status TrySubmit(Attempt* attempt, Missing* missing);
  absl::Status ChooseConfig(Attempt* attempt, const BoundLaunch& bound, ChosenConfig* chosen);
  // Where the configuration in force is not compiled for these arguments, but the one that would
  // run without it is: that one runs, and the other is made ready behind it.
  bool RunsDefaultMeanwhile(Attempt* attempt, const ConfigChoice& choice,
                            const BoundLaunch& bound);
  absl::Status Submit(Attempt* attempt, std::shared_ptr<Variant> variant, const uint32_t grid[3],
                      BoundLaunch* bound);
  // Puts the guarded variant in the place of the launch's own, where it is that one's turn.
  void ApplyGuard(Attempt* attempt, const ConfigChoice& choice, BoundLaunch* bound,
                  std::shared_ptr<Variant>* variant);
  void MakeReady(std::shared_ptr<Attempt> attempt, Missing missing);
  void TryAgain(const std::shared_ptr<Attempt>& attempt);
  void Finish(Attempt* attempt, absl::Status status);
  // `counts`: in metrics, too.
  void End(Session* session, const absl::Status& status, bool reached_device, bool counts);
  // The launch needs a variant that is not loaded.
  void MakeVariantReady(std::shared_ptr<Attempt> attempt);
  void EnsureAttemptsVariant(std::shared_ptr<Attempt> attempt);
  bool RefusesCompiles(const Attempt& attempt) const;
  void WithoutGuard(std::shared_ptr<Attempt> attempt, const absl::Status& reason);
  std::string TellJitObserver(const Attempt& attempt, double seconds, bool refused);

  std::shared_ptr<KernelModel> FindKernel(const std::string& module,
                                          const std::string& kernel) const;
  absl::StatusOr<std::shared_ptr<KernelModel>> KernelOf(std::shared_ptr<const Module> module,
                                                        const std::string& kernel);

  using Recipe = std::shared_ptr<const api::CompileRequest>;
  // `anew`: compiles also where it is loaded or cached.
  void EnsureVariant(std::shared_ptr<KernelModel> kernel, Device* device, const std::string& key,
                     const storage::CompileJob& job, Recipe recipe, bool anew,
                     absl::Duration timeout,
                     std::function<void(absl::StatusOr<LoadedVariant>)> done,
                     bool background = false);
  void LoadVariant(const std::string& flight, std::shared_ptr<KernelModel> kernel, Device* device,
                   const std::string& key, Recipe recipe, const CompiledArtifact& compiled);
  void TrimVariants();
  void CompileKnown(std::shared_ptr<const Module> module, const api::CompileRequest& request,
                    absl::Duration timeout, CompileDone done);
  // The configuration in force: stored for the bucket, else the first that fits the device.
  // `request` and `observer` as in ConfigChoices; null: there will be no launch.
  absl::Status ConfigInForce(const KernelModel& kernel, const Device& device,
                             const BoundLaunch& bound, const api::LaunchRequest* request,
                             ChosenConfig* chosen,
                             std::shared_ptr<ConfigChoices::Observer>* observer) const;
  absl::Status DefaultConfig(const KernelModel& kernel, const Device& device,
                             ChosenConfig* chosen) const;
  // A compile request bound to its kernel and device.
  struct BoundCompile {
    std::shared_ptr<KernelModel> kernel;
    Device* device = nullptr;
    ChosenConfig chosen;
    bool config_is_ours = false;
    storage::CompileJob job;
    std::string key;
    // Of the guarded variant, where launches need it by default; else the key is empty.
    storage::CompileJob guarded_job;
    std::string guarded_key;
  };
  absl::Status BindCompile(std::shared_ptr<const Module> module,
                           const api::CompileRequest& request, BoundCompile* bound);

  SessionRegistry* const sessions_;
  DeviceTable* const devices_;
  ModuleTable* const modules_;
  CompileService* const compiler_;
  cache::CacheStore* const store_;
  ConfigChoices* const choices_;
  TaskPool* const pool_;
  Metrics* const metrics_;
  const LauncherLimits limits_;
  SingleFlight<LoadedVariant> flights_;
  JitObserver* jit_observer_ = nullptr;
  OnUsage on_usage_;

  std::atomic<bool> accepting_{true}, serving_{false};
  std::atomic<uint32_t> in_flight_{0}, variant_count_{0};
  std::atomic<uint64_t> launches_{0}, failures_{0}, next_kernel_id_{1};

  mutable absl::Mutex mutex_;
  // By module and kernel, joined by '/'.
  absl::flat_hash_map<std::string, std::shared_ptr<KernelModel>> kernels_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_LAUNCHER_H_
