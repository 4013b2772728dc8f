// The daemon's log: one line an event, on stderr.
#ifndef TESSERA_SERVER_TELEMETRY_LOGGING_H_
#define TESSERA_SERVER_TELEMETRY_LOGGING_H_

#include <string>

#include "absl/status/status.h"

namespace tessera::server {

// `level`: trace, debug, info, warn, error. INVALID_ARGUMENT otherwise.
absl::Status SetUpLogging(const std::string& level);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_LOGGING_H_
