// One launch on zeroed memory of the daemon's own: what a first launch makes (code on the device,
// its stack, pages of memory) is there before anybody waits for it.
#ifndef TESSERA_SERVER_WARMUP_FIRST_LAUNCH_H_
#define TESSERA_SERVER_WARMUP_FIRST_LAUNCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/device/device_table.h"
#include "server/launch/launcher.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// Blocks until it has ended. `launch` names no memory; each of its tensors gets a region of its
// own, as large as its extents and strides ask for. RESOURCE_EXHAUSTED beyond `max_bytes` in all.
absl::Status LaunchOnScratch(tessera::v1::LaunchRequest launch, uint64_t max_bytes,
                             Launcher* launcher, SessionRegistry* sessions, DeviceTable* devices);

// Bytes from a tensor's first element to the end of its last, strides of elements counted.
// INVALID_ARGUMENT: no dtype, a negative extent or stride, or more than 64 bits hold.
absl::StatusOr<uint64_t> BytesOf(const tessera::v1::TensorRef& tensor);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_FIRST_LAUNCH_H_
