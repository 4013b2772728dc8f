// Warm-up: compiles what a manifest lists, loads it onto the devices, and keeps the progress.
//
// Also answers what a manifest implies, and writes one of what was launched.
#ifndef TESSERA_SERVER_WARMUP_WARMUP_H_
#define TESSERA_SERVER_WARMUP_WARMUP_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/tessera/v1/warmup.pb.h"
#include "server/compile/module_table.h"
#include "server/launch/launcher.h"
#include "server/launch/op_catalog.h"
#include "server/telemetry/metrics.h"
#include "server/tuning/tuning_table.h"
#include "server/warmup/expand_manifest.h"
#include "server/warmup/jit_monitor.h"
#include "server/warmup/manifest.h"
#include "server/warmup/observed_traffic.h"

namespace tessera::server {

// Called after every item, at last with `finished`; must not block.
using OnWarmupProgress = std::function<void(const tessera::v1::WarmupProgress&)>;

// Thread-safe. All parts must outlive it, and every warm-up that was started.
class Warmup {
 public:
  struct Parts {
    ModuleTable* modules = nullptr;
    Launcher* launcher = nullptr;
    const OpCatalog* ops = nullptr;
    TuningTable* tunings = nullptr;
    DeviceTable* devices = nullptr;
    cache::CacheStore* store = nullptr;
    TaskPool* pool = nullptr;
    Metrics* metrics = nullptr;
    JitMonitor* jit_monitor = nullptr;
    ObservedTraffic* traffic = nullptr;
    SessionRegistry* sessions = nullptr;
    uint64_t scratch_bytes = uint64_t{4} << 30;  // for a first launch
  };
  using OnProgress = OnWarmupProgress;
  template <typename Response>
  using Done = std::function<void(absl::StatusOr<Response>)>;

  explicit Warmup(Parts parts) : parts_(parts) {}

  // Begins a warm-up and returns. INVALID_ARGUMENT: the manifest does not read; nothing is begun.
  absl::Status Start(absl::string_view text, absl::string_view path,
                     const ManifestFileReader& read_file, OnProgress on_progress);
  // Start on a file; its modules' paths are relative to it.
  absl::Status StartFile(const std::string& path, OnProgress on_progress);

  // Of the warm-up that was started last.
  tessera::v1::WarmupProgress Progress() const;
  // A manifest that could not be begun: shown as the state until the next one.
  void NoteUnreadable(const std::string& path, const absl::Status& why);

  // What the RPCs of these names answer. `done` runs on any thread.
  void Expand(const tessera::v1::ExpandManifestRequest& request,
              Done<tessera::v1::ExpandManifestResponse> done);
  void Diff(const tessera::v1::DiffManifestRequest& request,
            Done<tessera::v1::DiffManifestResponse> done);
  // Blocks on the store.
  absl::StatusOr<tessera::v1::RecordManifestResponse> Record(
      const tessera::v1::RecordManifestRequest& request);

  // Whether a manifest of this run names the artifact (its key's hash): it is not to be evicted.
  bool NamesArtifact(absl::string_view hash) const;

 private:
  struct Run;
  struct Resolved;
  struct Resolving;
  using OnResolved = std::function<void(std::shared_ptr<Resolved>)>;

  // Registers the manifest's modules and expands its entries.
  void Resolve(std::shared_ptr<const ParsedManifest> parsed, OnResolved done);
  void ExpandEntries(Resolving* resolving);
  TunedConfigs TunedConfigsNow() const;
  void ImportTunings(const Resolved& resolved, const std::shared_ptr<Run>& run);
  void Begin(const std::shared_ptr<Run>& run, std::shared_ptr<Resolved> resolved);
  void Pump(const std::shared_ptr<Run>& run);
  // The item's first launch, if it asks for one, then ItemDone.
  void FirstLaunch(const std::shared_ptr<Run>& run, const ManifestItem& item,
                   absl::StatusOr<Launcher::CompiledVariant> compiled);
  void ItemEnded(const std::shared_ptr<Run>& run, const ManifestItem& item,
                 const absl::StatusOr<Launcher::CompiledVariant>& compiled);
  void ItemDone(const std::shared_ptr<Run>& run, const std::string& where,
                const std::string& kernel, bool required,
                const absl::StatusOr<Launcher::CompiledVariant>& compiled);
  void Announce(const std::shared_ptr<Run>& run);
  void NoteCovered(const std::string& path, const Resolved& resolved);
  void FillVariants(const Resolved& resolved, uint32_t limit,
                    tessera::v1::ExpandManifestResponse* response) const;
  // How the module was, or would be, written in a manifest.
  bool Describe(const std::string& module, tessera::v1::ManifestModule* to) const;

  const Parts parts_;
  mutable std::mutex mutex_;
  std::shared_ptr<Run> last_;
  std::map<std::string, std::vector<CoveredVariant>> covered_;  // by manifest
  std::set<std::string> named_;                                 // hashes of artifacts
  // One at a time, so that their memory does not add up. Last: its tasks use the rest.
  TaskPool first_launches_{1};
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_WARMUP_H_
