#include "server/session/region.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"

namespace tessera::server {

Region::Region(RegionDescription description, runtime::UniqueFd fd, TaskPool* pool,
               std::function<void()> on_end)
    : description_(std::move(description)),
      fd_(std::move(fd)),
      pool_(pool),
      on_end_(std::move(on_end)) {}

Region::~Region() {
  if (!executors_.empty())
    pool_->Run([id = id(), executors = executors_] {
      for (runtime::ExecutorClient* executor : executors) executor->UnmapRegion(id);
    });
  if (on_end_) on_end_();
}

void Region::SetMappedAtHome(runtime::ExecutorClient* executor) {
  executors_.push_back(executor);
  mapped_.fetch_or(1u << description_.home->index(), std::memory_order_release);
}

absl::Status Region::EnsureMapped(Device* device) {
  if (MappedOn(*device)) return absl::OkStatus();
  if (description_.home != nullptr) {
    const Device& home = *description_.home;
    return Error(absl::StatusCode::kFailedPrecondition, "OTHER_DEVICE",
                 absl::StrCat("region ", id(), " is memory of ", home.name(), " (",
                              home.description().uuid(), "), not of ", device->name(),
                              device->description().is_gpu()
                                  ? absl::StrCat(" (", device->description().uuid(), ")")
                                  : ""),
                 {{"device", home.name()}});
  }
  std::lock_guard<std::mutex> lock(mapping_);
  if (MappedOn(*device)) return absl::OkStatus();
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, device->Start());
  RETURN_IF_ERROR(executor->MapRegion(id(), fd_.get(), description_.offset, description_.size,
                                      description_.read_only));
  executors_.push_back(executor);
  mapped_.fetch_or(1u << device->index(), std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace tessera::server
