#include "server/warmup/warmup.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("reading ", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

struct Warmup::Run {
  std::mutex mutex;  // also orders the calls of on_progress
  api::WarmupProgress progress;
  OnProgress on_progress;
};

absl::Status Warmup::Start(absl::string_view text, absl::string_view path,
                           const ManifestFileReader& read_file, OnProgress on_progress) {
  ASSIGN_OR_RETURN(std::vector<ManifestModule> modules, ParseManifest(text, path, read_file));
  auto run = std::make_shared<Run>();
  run->on_progress = std::move(on_progress);
  for (const ManifestModule& module : modules)
    run->progress.set_total(run->progress.total() + static_cast<uint32_t>(module.items.size()));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = run;
  }
  {
    std::lock_guard<std::mutex> lock(run->mutex);
    run->progress.set_finished(run->progress.total() == 0);
    Announce(run);
  }
  for (ManifestModule& module : modules) {
    std::vector<storage::SourceFile> files;
    for (const api::SourceFile& from : module.files) {
      storage::SourceFile file;
      file.set_path(from.path());
      file.set_text(from.text());
      files.push_back(std::move(file));
    }
    modules_->Register(std::move(files), absl::InfiniteDuration(),
                       [this, run, items = std::move(module.items)](
                           absl::StatusOr<std::shared_ptr<const Module>> registered) {
                         for (const ManifestItem& item : items) {
                           if (!registered.ok()) {
                             ItemDone(run, item.where, item.request.kernel(), registered.status());
                             continue;
                           }
                           api::CompileRequest request = item.request;
                           request.set_module((*registered)->id);
                           launcher_->Compile(
                               request, absl::InfiniteDuration(),
                               [this, run, where = item.where, kernel = item.request.kernel()](
                                   absl::StatusOr<Launcher::CompiledVariant> compiled) {
                                 ItemDone(run, where, kernel, compiled);
                               });
                         }
                       });
  }
  return absl::OkStatus();
}

absl::Status Warmup::StartFile(const std::string& path, OnProgress on_progress) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return Start(
      text, path, [folder](const std::string& file) { return ReadFile((folder / file).string()); },
      std::move(on_progress));
}

void Warmup::ItemDone(const std::shared_ptr<Run>& run, const std::string& where,
                      const std::string& kernel,
                      const absl::StatusOr<Launcher::CompiledVariant>& compiled) {
  std::lock_guard<std::mutex> lock(run->mutex);
  api::WarmupProgress& progress = run->progress;
  progress.set_done(progress.done() + 1);
  if (!compiled.ok()) {
    progress.set_failed(progress.failed() + 1);
    progress.add_failures(absl::StrCat(where, ": ", kernel, ": ", compiled.status().message()));
    spdlog::warn("warm-up of {} ({}): {}", kernel, where, compiled.status().ToString());
  } else if (compiled->outcome == CompileOutcome::kHit) {
    progress.set_cached(progress.cached() + 1);
  } else {
    progress.set_compiled(progress.compiled() + 1);
  }
  progress.set_finished(progress.done() == progress.total());
  Announce(run);
}

void Warmup::Announce(const std::shared_ptr<Run>& run) {
  metrics_->warmup_total->Set(run->progress.total());
  metrics_->warmup_done->Set(run->progress.done());
  metrics_->warmup_failed->Set(run->progress.failed());
  if (run->on_progress) run->on_progress(run->progress);
}

api::WarmupProgress Warmup::Progress() const {
  std::shared_ptr<Run> last;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last = last_;
  }
  if (last == nullptr) {
    api::WarmupProgress nothing;
    nothing.set_finished(true);
    return nothing;
  }
  std::lock_guard<std::mutex> lock(last->mutex);
  return last->progress;
}

}  // namespace tessera::server
