// What was launched: every variant with a recipe that would compile it again.
#ifndef TESSERA_SERVER_WARMUP_OBSERVED_TRAFFIC_H_
#define TESSERA_SERVER_WARMUP_OBSERVED_TRAFFIC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/tessera/v1/modules.pb.h"

namespace tessera::server {

struct ObservedVariant {
  std::string key;                                            // of the artifact, hex
  std::shared_ptr<const tessera::v1::CompileRequest> recipe;  // its module is the module's id
  uint64_t launches = 0;
  int64_t first_unix_seconds = 0, last_unix_seconds = 0;
};

// Thread-safe. Bounded: beyond the limit the variants go that were launched longest ago.
class ObservedTraffic {
 public:
  explicit ObservedTraffic(size_t limit = 20000) : limit_(limit) {}

  void Add(const std::string& key, const std::shared_ptr<const tessera::v1::CompileRequest>& recipe,
           uint64_t launches, int64_t unix_seconds);
  // Launched at `since` (Unix time) or later; most launches first.
  std::vector<ObservedVariant> Since(int64_t since) const;

  // The file survives restarts: a manifest may be recorded over days. It is replaced as a whole.
  // Reading: a file that is not there or not readable as such is no traffic.
  absl::Status WriteFile(const std::string& path);  // OK and nothing done if nothing is new
  absl::Status ReadFile(const std::string& path);

 private:
  std::string Key(const std::string& key, const tessera::v1::CompileRequest& recipe) const;
  void TrimLocked();

  const size_t limit_;
  mutable std::mutex mutex_;
  bool changed_ = false;
  std::map<std::string, ObservedVariant> variants_;  // by key and device
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_OBSERVED_TRAFFIC_H_
