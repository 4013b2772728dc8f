#include "server/session/memory_copy.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

absl::Status CheckPlace(const RegionPlace& place, uint64_t bytes, absl::string_view what) {
  const uint64_t size = place.region->size();
  if (place.offset <= size && bytes <= size - place.offset) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument, "COPY_OUTSIDE_REGION",
               absl::StrCat("the copy ", what, " ", bytes, " bytes at ", place.offset,
                            " of region ", place.region->id(), ", which has ", size));
}

}  // namespace

absl::Status CopyMemory(const RegionPlace& from, const RegionPlace& to, uint64_t bytes,
                        Device* device) {
  RETURN_IF_ERROR(CheckPlace(from, bytes, "reads"));
  RETURN_IF_ERROR(CheckPlace(to, bytes, "writes"));
  if (to.region->description().read_only)
    return Error(absl::StatusCode::kInvalidArgument, "MEMORY_READ_ONLY",
                 absl::StrCat("region ", to.region->id(), " was imported to be read only"));
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(from.region->EnsureMapped(device));
  RETURN_IF_ERROR(to.region->EnsureMapped(device));
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, device->Start());
  runtime::CopyCommand command;
  command.from = from.region->id();
  command.from_offset = from.offset;
  command.to = to.region->id();
  command.to_offset = to.offset;
  command.bytes = bytes;
  auto copied = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = copied->get_future();
  executor->Copy(command, [copied](runtime::LaunchResult result) {
    copied->set_value(std::move(result.status));
  });
  return status.get();
}

}  // namespace tessera::server
