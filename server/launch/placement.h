// Where a launch runs on its device: stream, priority, events before and behind it.
#ifndef TESSERA_SERVER_LAUNCH_PLACEMENT_H_
#define TESSERA_SERVER_LAUNCH_PLACEMENT_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/tessera/v1/launch.pb.h"
#include "runtime/executor/executor_client.h"
#include "server/device/device_table.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// Fills in the command's part. `events` are to be held until the launch has ended.
// INVALID_ARGUMENT: a stream number out of range, an event of another device, events for a device
// that has none. NOT_FOUND: an event that the session does not have.
absl::Status PlaceLaunch(const tessera::v1::LaunchRequest& request, const Device& device,
                         const Session& session, runtime::LaunchCommand* command,
                         std::vector<std::shared_ptr<DeviceEvent>>* events);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_PLACEMENT_H_
