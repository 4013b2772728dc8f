#ifndef TESSERA_SERVER_RPC_CACHE_SERVICE_H_
#define TESSERA_SERVER_RPC_CACHE_SERVICE_H_

#include "cache/store/cache_store.h"
#include "proto/tessera/v1/cache.grpc.pb.h"
#include "server/concurrency/task_pool.h"

namespace tessera::server {

class CacheService : public tessera::v1::CacheService::CallbackService {
 public:
  CacheService(cache::CacheStore* store, TaskPool* pool) : store_(store), pool_(pool) {}

  grpc::ServerUnaryReactor* Stats(grpc::CallbackServerContext* context,
                                  const tessera::v1::CacheStatsRequest* request,
                                  tessera::v1::CacheStatsResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const tessera::v1::CacheListRequest* request,
                                 tessera::v1::CacheListResponse* response) override;
  grpc::ServerUnaryReactor* Verify(grpc::CallbackServerContext* context,
                                   const tessera::v1::CacheVerifyRequest* request,
                                   tessera::v1::CacheVerifyResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const tessera::v1::CacheExplainRequest* request,
                                    tessera::v1::CacheExplainResponse* response) override;
  grpc::ServerUnaryReactor* Collect(grpc::CallbackServerContext* context,
                                    const tessera::v1::CacheCollectRequest* request,
                                    tessera::v1::CacheCollectResponse* response) override;
  grpc::ServerUnaryReactor* Export(grpc::CallbackServerContext* context,
                                   const tessera::v1::CacheExportRequest* request,
                                   tessera::v1::CacheExportResponse* response) override;
  grpc::ServerUnaryReactor* Import(grpc::CallbackServerContext* context,
                                   const tessera::v1::CacheImportRequest* request,
                                   tessera::v1::CacheImportResponse* response) override;

 private:
  cache::CacheStore* const store_;
  TaskPool* const pool_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_CACHE_SERVICE_H_
