#include "server/rpc/bundle_streams.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "cache/bundle/bundle_export.h"
#include "cache/bundle/bundle_import.h"
#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

class ExportReactor : public grpc::ServerWriteReactor<api::CacheExportResponse> {
 public:
  explicit ExportReactor(grpc::CallbackServerContext* context) : context_(context), self_(this) {}

  std::shared_ptr<ExportReactor> self() { return self_; }

  void Run(cache::CacheStore* store, const cache::ExportFilter& filter) {
    std::string piece;
    absl::StatusOr<uint64_t> entries =
        cache::ExportBundle(store, filter, [&](absl::string_view more) {
          piece.append(more.data(), more.size());
          if (piece.size() < kPieceBytes) return true;
          bool sent = Send(std::move(piece), 0);
          piece.clear();
          return sent;
        });
    if (entries.ok() && Send(std::move(piece), *entries)) WaitUntilSent();
    Finish(ToGrpc(entries.status(), context_));
  }

  void OnWriteDone(bool ok) override {
    Wake([&] { writing_ = false, gone_ |= !ok; });
  }
  void OnCancel() override {
    Wake([&] { gone_ = true; });
  }
  void OnDone() override { self_.reset(); }

 private:
  // Waits for the piece before. False: the client has gone.
  bool Send(std::string data, uint64_t entries) {
    if (!WaitUntilSent()) return false;
    response_.set_data(std::move(data));
    response_.set_entries(entries);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      writing_ = true;
    }
    StartWrite(&response_);
    return true;
  }
  bool WaitUntilSent() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !writing_; });
    return !gone_;
  }
  template <typename Change>
  void Wake(const Change& change) {
    std::lock_guard<std::mutex> lock(mutex_);
    change();
    changed_.notify_all();
  }

  grpc::CallbackServerContext* const context_;
  std::shared_ptr<ExportReactor> self_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = false, gone_ = false;
  api::CacheExportResponse response_;
};

class ImportReactor : public grpc::ServerReadReactor<api::CacheImportRequest> {
 public:
  ImportReactor(cache::CacheStore* store, TaskPool* pool, api::CacheImportResponse* response,
                std::string compiler_build, std::function<void(uint64_t)> on_imported,
                grpc::CallbackServerContext* context)
      : store_(store),
        pool_(pool),
        response_(response),
        compiler_build_(std::move(compiler_build)),
        on_imported_(std::move(on_imported)),
        context_(context),
        self_(this) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    pool_->Run([self = self_, ok] { ok ? self->Feed() : self->End(); });
  }
  void OnDone() override { self_.reset(); }

 private:
  void Feed() {
    if (!import_)
      import_.emplace(store_, compiler_build_, request_.replace(),
                      absl::ToUnixSeconds(absl::Now()));
    absl::Status fed = import_->Feed(request_.data());
    if (!fed.ok()) {
      Finish(ToGrpc(fed, context_));
      return;
    }
    StartRead(&request_);
  }

  void End() {
    if (context_->IsCancelled()) {
      Finish(grpc::Status::CANCELLED);
      return;
    }
    absl::Status whole = import_ ? import_->Finish() : absl::InvalidArgumentError("nothing came");
    if (!whole.ok() && !absl::IsDataLoss(whole)) {
      Finish(ToGrpc(whole, context_));
      return;
    }
    const cache::BundleReport& report = import_->report();
    response_->set_entries(report.entries.imported);
    response_->set_rejected(report.entries.rejected);
    response_->set_already_there(report.entries.already_there);
    response_->set_other_build(report.other_build);
    for (const std::string& finding : report.entries.findings) response_->add_findings(finding);
    response_->set_complete(whole.ok());
    response_->set_manifest(report.manifest);
    on_imported_(report.entries.imported);
    Finish(grpc::Status::OK);
  }

  cache::CacheStore* const store_;
  TaskPool* const pool_;
  api::CacheImportResponse* const response_;
  const std::string compiler_build_;
  const std::function<void(uint64_t)> on_imported_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<ImportReactor> self_;
  api::CacheImportRequest request_;
  std::optional<cache::BundleImport> import_;
};

class RefusingReactor : public grpc::ServerReadReactor<api::CacheImportRequest> {
 public:
  explicit RefusingReactor(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<api::CacheExportResponse>* StartExport(
    cache::CacheStore* store, TaskPool* pool, const api::CacheExportRequest& request,
    const std::string& compiler_build, grpc::CallbackServerContext* context) {
  cache::ExportFilter filter;
  filter.kernels.assign(request.kernels().begin(), request.kernels().end());
  filter.families.assign(request.families().begin(), request.families().end());
  filter.targets.assign(request.targets().begin(), request.targets().end());
  filter.compiler_build = compiler_build;
  filter.manifest = request.manifest();
  auto* reactor = new ExportReactor(context);
  pool->Run([call = reactor->self(), store, filter] { call->Run(store, filter); });
  return reactor;
}

grpc::ServerReadReactor<api::CacheImportRequest>* StartImport(
    cache::CacheStore* store, TaskPool* pool, api::CacheImportResponse* response,
    const std::string& compiler_build, std::function<void(uint64_t entries)> on_imported,
    grpc::CallbackServerContext* context) {
  return new ImportReactor(store, pool, response, compiler_build, std::move(on_imported), context);
}

grpc::ServerReadReactor<api::CacheImportRequest>* RefuseImport(const grpc::Status& status) {
  return new RefusingReactor(status);
}

}  // namespace tessera::server
