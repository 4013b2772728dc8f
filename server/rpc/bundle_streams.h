// The two streaming calls of the cache service: bundles out and in, piece by piece.
#ifndef TESSERA_SERVER_RPC_BUNDLE_STREAMS_H_
#define TESSERA_SERVER_RPC_BUNDLE_STREAMS_H_

#include <functional>
#include <string>

#include "cache/store/cache_store.h"
#include "grpcpp/grpcpp.h"
#include "proto/tessera/v1/cache.pb.h"
#include "server/concurrency/task_pool.h"

namespace tessera::server {

// All of these live until they are done, and delete themselves. `pool` runs what blocks.
grpc::ServerWriteReactor<tessera::v1::CacheExportResponse>* StartExport(
    cache::CacheStore* store, TaskPool* pool, const tessera::v1::CacheExportRequest& request,
    const std::string& compiler_build, grpc::CallbackServerContext* context);

// `on_imported` runs after entries entered, before the answer.
grpc::ServerReadReactor<tessera::v1::CacheImportRequest>* StartImport(
    cache::CacheStore* store, TaskPool* pool, tessera::v1::CacheImportResponse* response,
    const std::string& compiler_build, std::function<void(uint64_t entries)> on_imported,
    grpc::CallbackServerContext* context);

// A stream of requests that is refused at once.
grpc::ServerReadReactor<tessera::v1::CacheImportRequest>* RefuseImport(const grpc::Status& status);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_BUNDLE_STREAMS_H_
