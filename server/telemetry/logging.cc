#include "server/telemetry/logging.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace tessera::server {

absl::Status SetUpLogging(const std::string& level) {
  spdlog::level::level_enum parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off")
    return absl::InvalidArgumentError(absl::StrCat(
        "'", level, "' is no log level; accepted: trace, debug, info, warn, error, off"));
  auto logger = std::make_shared<spdlog::logger>("tesserad",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(logger);
  return absl::OkStatus();
}

}  // namespace tessera::server
