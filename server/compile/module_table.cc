#include "server/compile/module_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/key/compile_key.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxLoadedModules = 4096;

}  // namespace

const storage::KernelDescription* Module::FindKernel(absl::string_view name) const {
  for (const storage::KernelDescription& kernel : record.description().kernels())
    if (kernel.name() == name) return &kernel;
  return nullptr;
}

ModuleTable::ModuleTable(cache::CacheStore* store, CompileBackend* backend, TaskPool* pool,
                         Timer* timer, std::string compiler_build, uint64_t max_source_bytes)
    : store_(store),
      backend_(backend),
      pool_(pool),
      compiler_build_(std::move(compiler_build)),
      max_source_bytes_(max_source_bytes),
      flights_(timer, "reading the module") {}

std::shared_ptr<const Module> ModuleTable::FindLoaded(absl::string_view id) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = modules_.find(id);
  return found == modules_.end() ? nullptr : found->second;
}

std::vector<std::string> ModuleTable::LoadedIds() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, module] : modules_) ids.push_back(id);
  return ids;
}

void ModuleTable::Register(std::vector<storage::SourceFile> files, absl::Duration timeout,
                           Callback done) {
  if (files.empty()) {
    done(Error(absl::StatusCode::kInvalidArgument, "MODULE_EMPTY",
               "a module needs at least one file"));
    return;
  }
  auto record = std::make_shared<storage::ModuleRecord>();
  record->set_format_version(1);
  uint64_t bytes = 0;
  for (storage::SourceFile& file : files) {
    bytes += file.text().size();
    *record->add_files() = std::move(file);
  }
  if (bytes > max_source_bytes_) {
    done(Error(absl::StatusCode::kResourceExhausted, "MODULE_TOO_LARGE",
               absl::StrCat("the module holds ", bytes, " bytes of source; the limit is ",
                            max_source_bytes_)));
    return;
  }
  std::string id = cache::ModuleId(*record);
  if (std::shared_ptr<const Module> loaded = FindLoaded(id)) {
    done(loaded);
    return;
  }
  std::string flight = absl::StrCat("register ", id);
  bool lead = flights_.Join(flight, timeout, [done](const auto& result, bool) { done(result); });
  if (lead) pool_->Run([this, flight, id, record] { LoadBlocking(flight, id, record.get()); });
}

void ModuleTable::Load(const std::string& id, absl::Duration timeout, Callback done) {
  if (std::shared_ptr<const Module> loaded = FindLoaded(id)) {
    done(loaded);
    return;
  }
  std::string flight = absl::StrCat("load ", id);
  bool lead = flights_.Join(flight, timeout, [done](const auto& result, bool) { done(result); });
  if (lead) pool_->Run([this, flight, id] { LoadBlocking(flight, id, nullptr); });
}

absl::Status ModuleTable::ForEachStored(
    const std::function<void(const std::string& id, const storage::ModuleRecord& record)>& visit)
    const {
  absl::StatusOr<std::vector<std::string>> ids = store_->ListModules();
  if (!ids.ok()) return ids.status();
  for (const std::string& id : *ids) {
    absl::StatusOr<cache::Lookup<storage::ModuleRecord>> found = store_->FindModule(id);
    if (found.ok() && found->found()) visit(id, found->record);
  }
  return absl::OkStatus();
}

void ModuleTable::LoadBlocking(const std::string& flight, const std::string& id,
                               const storage::ModuleRecord* files) {
  absl::StatusOr<cache::Lookup<storage::ModuleRecord>> found = store_->FindModule(id);
  if (found.ok() && found->found()) {
    if (found->record.compiler_build() != compiler_build_) {
      Describe(flight, id, std::move(found->record), 0);
      return;
    }
    auto module = std::make_shared<Module>();
    module->id = id;
    module->record = std::move(found->record);
    Publish(flight, std::move(module));
    return;
  }
  if (files != nullptr) {
    Describe(flight, id, *files, 0);
    return;
  }
  if (!found.ok()) {
    flights_.Finish(flight, found.status());
    return;
  }
  flights_.Finish(
      flight,
      Error(absl::StatusCode::kNotFound, "MODULE_UNKNOWN",
            absl::StrCat("module ", id, " is not registered here; register its source again")));
}

void ModuleTable::Describe(const std::string& flight, const std::string& id,
                           storage::ModuleRecord record, int attempt) {
  worker::WorkerRequest request;
  *request.mutable_describe()->mutable_files() = record.files();
  auto shared = std::make_shared<storage::ModuleRecord>(std::move(record));
  backend_->Run(std::move(request), [this, flight, id, shared,
                                     attempt](absl::StatusOr<worker::WorkerResponse> response) {
    if (!response.ok()) {
      // Once more if the worker died: it may have been killed from outside.
      std::optional<api::ErrorDetail> detail = DetailOf(response.status());
      if (attempt == 0 && detail && detail->reason() == "COMPILER_DIED") {
        pool_->Run([this, flight, id, shared] { Describe(flight, id, *shared, 1); });
        return;
      }
      flights_.Finish(flight, response.status());
      return;
    }
    *shared->mutable_description() = std::move(*response->mutable_description());
    shared->set_compiler_build(compiler_build_);
    shared->set_registered_unix_seconds(absl::ToUnixSeconds(absl::Now()));
    pool_->Run([this, flight, id, shared] {
      // Losing the write is fine: clients register again. The store counts and reports it.
      store_->PutModule(id, *shared).IgnoreError();
      auto module = std::make_shared<Module>();
      module->id = id;
      module->record = std::move(*shared);
      Publish(flight, std::move(module));
    });
  });
}

void ModuleTable::Publish(const std::string& flight, std::shared_ptr<const Module> module) {
  {
    absl::MutexLock lock(&mutex_);
    // A loaded module costs its source; what goes from here is read from the store again when
    // somebody wants it.
    if (modules_.size() >= kMaxLoadedModules) modules_.erase(modules_.begin());
    modules_[module->id] = module;
  }
  flights_.Finish(flight, module);
}

}  // namespace tessera::server
