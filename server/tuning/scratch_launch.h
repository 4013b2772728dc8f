// A launch redirected to scratch copies of its memory, so that candidates can run without the
// client noticing.
#ifndef TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_
#define TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/device/device_table.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// Owns a session of its own; its regions go with it.
class ScratchLaunch {
 public:
  // Copies every region that `launch` names. RESOURCE_EXHAUSTED beyond `max_bytes`.
  static absl::StatusOr<std::unique_ptr<ScratchLaunch>> Create(
      const tessera::v1::LaunchRequest& launch, SessionRegistry* sessions, Device* device,
      uint64_t max_bytes);
  ~ScratchLaunch();

  // The launch on the copies.
  const tessera::v1::LaunchRequest& request() const { return request_; }
  // Gives the copies the clients' contents again.
  absl::Status Restore();

 private:
  explicit ScratchLaunch(SessionRegistry* sessions) : sessions_(sessions) {}

  SessionRegistry* const sessions_;
  std::shared_ptr<Session> session_;
  std::vector<std::pair<std::shared_ptr<Region>, std::shared_ptr<Region>>>
      copies_;  // client's, ours
  tessera::v1::LaunchRequest request_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_
