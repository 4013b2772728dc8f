#include "server/session/region.h"

#include <utility>

#include "base/status_macros.h"

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

absl::Status Region::EnsureMapped(Device* device) {
  if (MappedOn(*device)) return absl::OkStatus();
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
