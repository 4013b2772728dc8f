#include "server/rpc/cache_service.h"

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "cache/store/explain_entry.h"
#include "server/rpc/bundle_streams.h"
#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr uint32_t kDefaultListLimit = 1000;
constexpr uint32_t kMostListLimit = 100000;

void AddEntry(const cache::ListedEntry& entry, api::CacheListResponse::Entry* to) {
  to->set_key(entry.key);
  to->set_summary(entry.summary);
  to->set_bytes(entry.bytes);
}

}  // namespace

void FillCacheStats(const cache::StoreStats& stats, api::CacheStatsResponse* response) {
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
}

grpc::ServerUnaryReactor* CacheService::Stats(grpc::CallbackServerContext* context,
                                              const api::CacheStatsRequest*,
                                              api::CacheStatsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    FillCacheStats(store_->Stats(), response);
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
        AddEntry(entry, response->add_entries());
      }
    call->Finish(ToGrpc(entries.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* CacheService::Verify(grpc::CallbackServerContext* context,
                                               const api::CacheVerifyRequest*,
                                               api::CacheVerifyResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  long_work_.Run([=] {
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
                                                const api::CacheExplainRequest* request,
                                                api::CacheExplainResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    absl::StatusOr<std::string> text =
        cache::ExplainEntry(store_, request->key(), request->other());
    if (text.ok()) response->set_text(*std::move(text));
    call->Finish(ToGrpc(text.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* CacheService::Collect(grpc::CallbackServerContext* context,
                                                const api::CacheCollectRequest* request,
                                                api::CacheCollectResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  long_work_.Run([=] {
    absl::StatusOr<cache::CollectReport> report = keeper_->Collect(request->dry_run(), absl::Now());
    if (report.ok()) {
      response->set_entries(report->entries);
      response->set_bytes(report->bytes);
      response->set_kept_entries(report->kept_entries);
      response->set_kept_bytes(report->kept_bytes);
      response->set_max_bytes(keeper_->budget().max_bytes);
      response->set_max_entries_per_kernel(keeper_->budget().max_entries_per_kernel);
      for (const cache::ListedEntry& entry : report->evicted)
        AddEntry(entry, response->add_evicted());
    }
    call->Finish(ToGrpc(report.status(), context));
  });
  return call;
}

grpc::ServerWriteReactor<api::CacheExportResponse>* CacheService::Export(
    grpc::CallbackServerContext* context, const api::CacheExportRequest* request) {
  return StartExport(store_, &long_work_, *request, options_.compiler_build, context);
}

grpc::ServerReadReactor<api::CacheImportRequest>* CacheService::Import(
    grpc::CallbackServerContext* context, api::CacheImportResponse* response) {
  // A bundle is machine code: whoever may bring one runs what he likes in everybody's launches.
  std::string peer = context->peer();
  if (!options_.import || !absl::StartsWith(peer, "unix:"))
    return RefuseImport(
        ToGrpc(Error(absl::StatusCode::kPermissionDenied, "IMPORT_NOT_ALLOWED",
                     options_.import ? "bundles are taken over the Unix socket only"
                                     : "this daemon takes no bundles (cache_import is off)"),
               context));
  return StartImport(store_, &long_work_, response, options_.compiler_build, options_.on_imported,
                     context);
}

}  // namespace tessera::server
