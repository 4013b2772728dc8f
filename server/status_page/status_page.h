// The page that shows a daemon's state to people: one HTML text, without scripts. Pure.
#ifndef TESSERA_SERVER_STATUS_PAGE_STATUS_PAGE_H_
#define TESSERA_SERVER_STATUS_PAGE_STATUS_PAGE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/telemetry/history.h"
#include "server/telemetry/sampled_metrics.h"

namespace tessera::server {

// `points`: oldest first. The page loads itself again every few seconds.
std::string RenderStatusPage(const DaemonState& state, const std::vector<HistoryPoint>& points,
                             absl::Time now);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_STATUS_PAGE_STATUS_PAGE_H_
