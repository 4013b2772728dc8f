#ifndef TESSERA_SERVER_RPC_WARMUP_SERVICE_H_
#define TESSERA_SERVER_RPC_WARMUP_SERVICE_H_

#include <functional>
#include <utility>

#include "proto/tessera/v1/warmup.grpc.pb.h"
#include "server/concurrency/task_pool.h"
#include "server/warmup/warmup.h"

namespace tessera::server {

class WarmupService : public tessera::v1::WarmupService::CallbackService {
 public:
  // Begins the warm-up by the daemon's own manifest.
  using Reload = std::function<absl::Status(OnWarmupProgress)>;

  WarmupService(class Warmup* warmup, TaskPool* pool, Reload reload)
      : warmup_(warmup), pool_(pool), reload_(std::move(reload)) {}

  grpc::ServerWriteReactor<tessera::v1::WarmupProgress>* Warmup(
      grpc::CallbackServerContext* context, const tessera::v1::WarmupRequest* request) override;
  grpc::ServerUnaryReactor* GetWarmup(grpc::CallbackServerContext* context,
                                      const tessera::v1::GetWarmupRequest* request,
                                      tessera::v1::WarmupProgress* response) override;
  grpc::ServerWriteReactor<tessera::v1::WarmupProgress>* ReloadManifest(
      grpc::CallbackServerContext* context,
      const tessera::v1::ReloadManifestRequest* request) override;
  grpc::ServerUnaryReactor* ExpandManifest(grpc::CallbackServerContext* context,
                                           const tessera::v1::ExpandManifestRequest* request,
                                           tessera::v1::ExpandManifestResponse* response) override;
  grpc::ServerUnaryReactor* RecordManifest(grpc::CallbackServerContext* context,
                                           const tessera::v1::RecordManifestRequest* request,
                                           tessera::v1::RecordManifestResponse* response) override;
  grpc::ServerUnaryReactor* DiffManifest(grpc::CallbackServerContext* context,
                                         const tessera::v1::DiffManifestRequest* request,
                                         tessera::v1::DiffManifestResponse* response) override;

 private:
  class Warmup* const warmup_;
  TaskPool* const pool_;
  const Reload reload_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_WARMUP_SERVICE_H_
