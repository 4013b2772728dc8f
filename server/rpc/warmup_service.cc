#include "server/rpc/warmup_service.h"

#include <memory>
#include <mutex>

#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// Sends the newest progress whenever the last one has gone out. Shared with the warm-up, which
// outlives the call.
class ProgressReactor : public grpc::ServerWriteReactor<api::WarmupProgress> {
 public:
  ProgressReactor() : self_(this) {}

  std::shared_ptr<ProgressReactor> self() { return self_; }

  void Fail(const grpc::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (ended_) return;
      ended_ = true;
    }
    Finish(status);
  }

  void Offer(const api::WarmupProgress& progress) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (ended_) return;
    newest_ = progress;
    fresh_ = true;
    if (!writing_) WriteNext(&lock);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok || (sent_.finished() && !fresh_)) {
      End(&lock);
      return;
    }
    if (fresh_) WriteNext(&lock);
  }

  void OnCancel() override {
    std::unique_lock<std::mutex> lock(mutex_);
    End(&lock);
  }

  void OnDone() override { self_.reset(); }

 private:
  void WriteNext(std::unique_lock<std::mutex>* lock) {
    sent_ = newest_;
    fresh_ = false;
    writing_ = true;
    lock->unlock();
    StartWrite(&sent_);
  }
  void End(std::unique_lock<std::mutex>* lock) {
    if (ended_) return;
    ended_ = true;
    lock->unlock();
    Finish(grpc::Status::OK);
  }

  std::shared_ptr<ProgressReactor> self_;
  std::mutex mutex_;
  api::WarmupProgress newest_, sent_;
  bool fresh_ = false, writing_ = false, ended_ = false;
};

}  // namespace

grpc::ServerWriteReactor<api::WarmupProgress>* WarmupService::Warmup(
    grpc::CallbackServerContext* context, const api::WarmupRequest* request) {
  std::shared_ptr<ProgressReactor> reactor = (new ProgressReactor)->self();
  absl::Status started = warmup_->Start(
      request->manifest(), request->path(), FilesOfRequest(request->files(), nullptr),
      [reactor](const api::WarmupProgress& progress) { reactor->Offer(progress); });
  if (!started.ok()) reactor->Fail(ToGrpc(started, context));
  return reactor.get();
}

grpc::ServerWriteReactor<api::WarmupProgress>* WarmupService::ReloadManifest(
    grpc::CallbackServerContext* context, const api::ReloadManifestRequest*) {
  std::shared_ptr<ProgressReactor> reactor = (new ProgressReactor)->self();
  absl::Status started =
      reload_([reactor](const api::WarmupProgress& progress) { reactor->Offer(progress); });
  if (!started.ok()) reactor->Fail(ToGrpc(started, context));
  return reactor.get();
}

grpc::ServerUnaryReactor* WarmupService::GetWarmup(grpc::CallbackServerContext* context,
                                                   const api::GetWarmupRequest*,
                                                   api::WarmupProgress* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  *response = warmup_->Progress();
  call->Finish(grpc::Status::OK);
  return call;
}

grpc::ServerUnaryReactor* WarmupService::ExpandManifest(grpc::CallbackServerContext* context,
                                                        const api::ExpandManifestRequest* request,
                                                        api::ExpandManifestResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  warmup_->Expand(*request, [=](absl::StatusOr<api::ExpandManifestResponse> expanded) {
    if (expanded.ok()) *response = *std::move(expanded);
    call->Finish(ToGrpc(expanded.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* WarmupService::RecordManifest(grpc::CallbackServerContext* context,
                                                        const api::RecordManifestRequest* request,
                                                        api::RecordManifestResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    absl::StatusOr<api::RecordManifestResponse> recorded = warmup_->Record(*request);
    if (recorded.ok()) *response = *std::move(recorded);
    call->Finish(ToGrpc(recorded.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* WarmupService::DiffManifest(grpc::CallbackServerContext* context,
                                                      const api::DiffManifestRequest* request,
                                                      api::DiffManifestResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  warmup_->Diff(*request, [=](absl::StatusOr<api::DiffManifestResponse> difference) {
    if (difference.ok()) *response = *std::move(difference);
    call->Finish(ToGrpc(difference.status(), context));
  });
  return call;
}

}  // namespace tessera::server
