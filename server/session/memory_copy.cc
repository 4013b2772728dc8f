#include "server/session/memory_copy.h"

#include <future>
#include <utility>
#include <vector>

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

absl::Status CheckCopy(const MemoryCopy& copy) {
  RETURN_IF_ERROR(CheckPlace(copy.from, copy.bytes, "reads"));
  RETURN_IF_ERROR(CheckPlace(copy.to, copy.bytes, "writes"));
  if (copy.to.region->description().read_only)
    return Error(absl::StatusCode::kInvalidArgument, "MEMORY_READ_ONLY",
                 absl::StrCat("region ", copy.to.region->id(), " was imported to be read only"));
  return absl::OkStatus();
}

std::future<absl::Status> Submit(const MemoryCopy& copy, runtime::ExecutorClient* executor) {
  runtime::CopyCommand command;
  command.from = copy.from.region->id();
  command.from_offset = copy.from.offset;
  command.to = copy.to.region->id();
  command.to_offset = copy.to.offset;
  command.bytes = copy.bytes;
  auto copied = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = copied->get_future();
  executor->Copy(command, [copied](runtime::LaunchResult result) {
    copied->set_value(std::move(result.status));
  });
  return status;
}

}  // namespace

absl::Status CopyMemory(const RegionPlace& from, const RegionPlace& to, uint64_t bytes,
                        Device* device) {
  const MemoryCopy copy = {from, to, bytes};
  return CopyMemory(absl::MakeConstSpan(&copy, 1), device);
}

absl::Status CopyMemory(absl::Span<const MemoryCopy> copies, Device* device) {
  bool empty = true;
  for (const MemoryCopy& copy : copies) {
    RETURN_IF_ERROR(CheckCopy(copy));
    if (copy.bytes == 0) continue;
    empty = false;
    RETURN_IF_ERROR(copy.from.region->EnsureMapped(device));
    RETURN_IF_ERROR(copy.to.region->EnsureMapped(device));
  }
  if (empty) return absl::OkStatus();
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, device->Start());
  std::vector<std::future<absl::Status>> copied;
  for (const MemoryCopy& copy : copies)
    if (copy.bytes > 0) copied.push_back(Submit(copy, executor));
  absl::Status status;
  for (std::future<absl::Status>& one : copied) status.Update(one.get());
  return status;
}

}  // namespace tessera::server
