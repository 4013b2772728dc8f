// Compiles what a manifest lists, in parallel, and keeps the progress.
#ifndef TESSERA_SERVER_WARMUP_WARMUP_H_
#define TESSERA_SERVER_WARMUP_WARMUP_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "proto/tessera/v1/warmup.pb.h"
#include "server/compile/module_table.h"
#include "server/launch/launcher.h"
#include "server/telemetry/metrics.h"
#include "server/warmup/manifest.h"

namespace tessera::server {

// Thread-safe. All must outlive it, and every warm-up that was started.
class Warmup {
 public:
  // Called after every item, at last with `finished`; must not block.
  using OnProgress = std::function<void(const tessera::v1::WarmupProgress&)>;

  Warmup(ModuleTable* modules, Launcher* launcher, Metrics* metrics)
      : modules_(modules), launcher_(launcher), metrics_(metrics) {}

  // Begins a warm-up and returns. INVALID_ARGUMENT: the manifest does not read; nothing is begun.
  absl::Status Start(absl::string_view text, absl::string_view path,
                     const ManifestFileReader& read_file, OnProgress on_progress);
  // Start on a file; its modules' paths are relative to it.
  absl::Status StartFile(const std::string& path, OnProgress on_progress);

  // Of the warm-up that was started last.
  tessera::v1::WarmupProgress Progress() const;

 private:
  struct Run;
  void ItemDone(const std::shared_ptr<Run>& run, const std::string& where,
                const std::string& kernel,
                const absl::StatusOr<Launcher::CompiledVariant>& compiled);
  void Announce(const std::shared_ptr<Run>& run);

  ModuleTable* const modules_;
  Launcher* const launcher_;
  Metrics* const metrics_;
  mutable std::mutex mutex_;
  std::shared_ptr<Run> last_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_WARMUP_H_
