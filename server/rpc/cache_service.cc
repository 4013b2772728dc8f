#include "server/rpc/cache_service.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr uint32_t kDefaultListLimit = 1000;
constexpr uint32_t kMostListLimit = 100000;

grpc::ServerUnaryReactor* NotYet(grpc::CallbackServerContext* context, absl::string_view what) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(Error(absl::StatusCode::kUnimplemented, "NOT_YET",
                            absl::StrCat(what, " is not supported yet")),
                      context));
  return call;
}

}  // namespace

grpc::ServerUnaryReactor* CacheService::Stats(grpc::CallbackServerContext* context,
                                              const api::CacheStatsRequest*,
                                              api::CacheStatsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    cache::StoreStats stats = store_->Stats();
    for (const cache::FamilyStats& family : stats.families) {
      api::CacheStatsResponse::Family* to = response->add_families();
      to->set_name(family.name);
      to->set_entries(family.entries);
      to->set_bytes(family.bytes);
    }
    response->set_hits(stats.hits);
    response->set_misses(stats.misses);
    response->set_corrupt_entries(stats.corrupt_entries);
    response->set_evictions(stats.evictions);
    response->set_disk_bytes(stats.disk_bytes);
    response->set_path(stats.path);
    response->set_state(stats.state);
    call->Finish(grpc::Status::OK);
  });
  return call;
}

grpc::ServerUnaryReactor* CacheService::List(grpc::CallbackServerContext* context,
                                             const api::CacheListRequest* request,
                                             api::CacheListResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    uint32_t limit =
        request->limit() == 0 ? kDefaultListLimit : std::min(request->limit(), kMostListLimit);
    absl::StatusOr<std::vector<cache::ListedEntry>> entries =
        store_->List(request->family(), request->prefix(), limit + 1);
    if (entries.ok())
      for (const cache::ListedEntry& entry : *entries) {
        if (static_cast<uint32_t>(response->entries_size()) == limit) {
          response->set_truncated(true);
          break;
        }
        api::CacheListResponse::Entry* to = response->add_entries();
        to->set_key(entry.key);
        to->set_summary(entry.summary);
        to->set_bytes(entry.bytes);
      }
    call->Finish(ToGrpc(entries.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* CacheService::Verify(grpc::CallbackServerContext* context,
                                               const api::CacheVerifyRequest*,
                                               api::CacheVerifyResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    uint64_t checked = 0;
    absl::StatusOr<std::vector<std::string>> findings = store_->Verify(&checked);
    response->set_checked(checked);
    if (findings.ok()) {
      response->set_damaged(findings->size());
      for (const std::string& finding : *findings) response->add_findings(finding);
    }
    call->Finish(ToGrpc(findings.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* CacheService::Explain(grpc::CallbackServerContext* context,
                                                const api::CacheExplainRequest*,
                                                api::CacheExplainResponse*) {
  return NotYet(context, "explaining cache keys");
}
grpc::ServerUnaryReactor* CacheService::Collect(grpc::CallbackServerContext* context,
                                                const api::CacheCollectRequest*,
                                                api::CacheCollectResponse*) {
  return NotYet(context, "collecting the cache");
}
grpc::ServerUnaryReactor* CacheService::Export(grpc::CallbackServerContext* context,
                                               const api::CacheExportRequest*,
                                               api::CacheExportResponse*) {
  return NotYet(context, "exporting the cache");
}
grpc::ServerUnaryReactor* CacheService::Import(grpc::CallbackServerContext* context,
                                               const api::CacheImportRequest*,
                                               api::CacheImportResponse*) {
  return NotYet(context, "importing into the cache");
}

}  // namespace tessera::server
