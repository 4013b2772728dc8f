// Regions as the daemon itself reads and writes them: host memory by its descriptor, memory of a
// GPU through a piece of host memory that the executor it lives in copies to and from.
//
// By read and write, not by mapping: a client that truncates its memory meanwhile gives us a short
// read, not a fault.
#ifndef TESSERA_SERVER_TUNING_HOST_WINDOW_H_
#define TESSERA_SERVER_TUNING_HOST_WINDOW_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/session/memory_copy.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// Not thread-safe; blocks.
class HostWindow {
 public:
  explicit HostWindow(SessionRegistry* sessions) : sessions_(sessions) {}

  absl::Status Read(const RegionPlace& from, uint64_t bytes, char* to);
  absl::Status Write(const char* from, uint64_t bytes, const RegionPlace& to);
  absl::Status Fill(char byte, uint64_t bytes, const RegionPlace& to);
  // Between two executors, neither of which sees the other's memory.
  absl::Status Copy(const RegionPlace& from, const RegionPlace& to, uint64_t bytes);

 private:
  absl::Status Open();

  SessionRegistry* const sessions_;
  std::shared_ptr<Region> window_;  // made when it is needed
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_HOST_WINDOW_H_
