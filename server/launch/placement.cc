#include "server/launch/placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr uint32_t kStreams = 16;  // of a session on a device
constexpr int kMaxPriority = 16;   // GPUs have fewer levels
constexpr int kMaxEvents = 64;     // before, and behind, one launch

using EventIds = google::protobuf::RepeatedField<google::protobuf::uint64>;

absl::Status AddEvents(const EventIds& ids, const Device& device, const Session& session,
                       absl::InlinedVector<uint64_t, 2>* command,
                       std::vector<std::shared_ptr<DeviceEvent>>* events) {
  if (ids.size() > kMaxEvents)
    return Error(absl::StatusCode::kInvalidArgument, "TOO_MANY_EVENTS",
                 absl::StrCat("a launch waits for and signals at most ", kMaxEvents,
                              " events each, not ", ids.size()));
  for (uint64_t id : ids) {
    ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> event, session.FindEvent(id));
    if (&event->device() != &device)
      return Error(absl::StatusCode::kInvalidArgument, "OTHER_DEVICE",
                   absl::StrCat("event ", id, " is of ", event->device().name(), " (",
                                event->device().description().uuid(), "), the launch runs on ",
                                device.name(), " (", device.description().uuid(), ")"));
    command->push_back(id);
    events->push_back(std::move(event));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlaceLaunch(const tessera::v1::LaunchRequest& request, const Device& device,
                         const Session& session, runtime::LaunchCommand* command,
                         std::vector<std::shared_ptr<DeviceEvent>>* events) {
  if (request.stream() >= kStreams)
    return Error(absl::StatusCode::kInvalidArgument, "BAD_STREAM",
                 absl::StrCat("a session's streams are numbered from 0 to ", kStreams - 1, ", not ",
                              request.stream()));
  command->session = session.id();
  command->stream = request.stream();
  command->priority = std::max(-kMaxPriority, std::min(kMaxPriority, request.priority()));
  if (request.wait_events().empty() && request.signal_events().empty()) return absl::OkStatus();
  if (!device.description().is_gpu())
    return Error(absl::StatusCode::kInvalidArgument, "NO_EVENTS",
                 absl::StrCat(device.name(), " has no CUDA events"));
  RETURN_IF_ERROR(AddEvents(request.wait_events(), device, session, &command->waits, events));
  return AddEvents(request.signal_events(), device, session, &command->signals, events);
}

}  // namespace tessera::server
