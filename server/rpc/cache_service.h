#ifndef TESSERA_SERVER_RPC_CACHE_SERVICE_H_
#define TESSERA_SERVER_RPC_CACHE_SERVICE_H_

#include <functional>
#include <string>
#include <utility>

#include "cache/store/cache_store.h"
#include "proto/tessera/v1/cache.grpc.pb.h"
#include "server/compile/cache_keeper.h"
#include "server/concurrency/task_pool.h"

namespace tessera::server {

void FillCacheStats(const cache::StoreStats& stats, tessera::v1::CacheStatsResponse* response);

class CacheService : public tessera::v1::CacheService::CallbackService {
 public:
  struct Options {
    std::string compiler_build;
    bool import = true;  // whether clients may bring bundles
    // Runs after entries were imported, on a thread that may block.
    std::function<void(uint64_t entries)> on_imported;
  };
  CacheService(cache::CacheStore* store, CacheKeeper* keeper, TaskPool* pool, Options options)
      : store_(store), keeper_(keeper), pool_(pool), options_(std::move(options)), long_work_(1) {}

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
  grpc::ServerWriteReactor<tessera::v1::CacheExportResponse>* Export(
      grpc::CallbackServerContext* context,
      const tessera::v1::CacheExportRequest* request) override;
  grpc::ServerReadReactor<tessera::v1::CacheImportRequest>* Import(
      grpc::CallbackServerContext* context, tessera::v1::CacheImportResponse* response) override;

 private:
  cache::CacheStore* const store_;
  CacheKeeper* const keeper_;
  TaskPool* const pool_;
  const Options options_;
  TaskPool long_work_;  // what may take minutes, one after another
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_CACHE_SERVICE_H_
