#include "server/telemetry/exposition.h"

#include <iterator>
#include <utility>

#include "prometheus/text_serializer.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

std::string MetricsText(const Collectables& collectables) {
  std::vector<prometheus::MetricFamily> families;
  for (const prometheus::Collectable* collectable : collectables) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    // A family without series has no line but its comments.
    for (prometheus::MetricFamily& family : more)
      if (!family.metric.empty()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

Exposition::Exposition(const std::string& address, Collectables collectables,
                       HttpServer::Handlers more_pages) {
  if (address == "off" || address.empty()) return;
  HttpServer::Handlers handlers = std::move(more_pages);
  handlers["/metrics"] = [collectables = std::move(collectables)] {
    return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(collectables)};
  };
  absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Listen(address, std::move(handlers));
  if (!server.ok()) {
    spdlog::warn("no metrics and no status page: {}; set metrics to another address or to off",
                 std::string(server.status().message()));
    return;
  }
  server_ = *std::move(server);
  address_ = server_->address();
  spdlog::info("metrics at http://{0}/metrics, status page at http://{0}/", address_);
}

}  // namespace tessera::server
