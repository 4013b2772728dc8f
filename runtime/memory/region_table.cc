#include "runtime/memory/region_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tessera::runtime {

absl::StatusOr<uint64_t> MappedRegion::Resolve(uint64_t offset, uint64_t bytes) const {
  if (offset > mapping.bytes() || bytes > mapping.bytes() - offset) {
    return absl::OutOfRangeError(absl::StrCat("bytes ", offset, " to ", offset, "+", bytes,
                                              " are not inside region ", id, ", which has ",
                                              mapping.bytes(), " bytes"));
  }
  return reinterpret_cast<uint64_t>(mapping.data()) + offset;
}

absl::Status MappedRegion::CheckIntact() const {
  if (!guard.lost()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("memory of region ", id,
                   " vanished while a launch used it (its owner truncated it, or the machine ran "
                   "out of shared memory); release the region and import it again"));
}

absl::Status RegionTable::Add(uint64_t id, int fd, uint64_t offset, uint64_t bytes,
                              bool read_only) {
  auto region = std::make_shared<MappedRegion>();
  region->id = id;
  region->read_only = read_only;
  ASSIGN_OR_RETURN(region->mapping, GuardedMapping::Map(fd, offset, bytes, read_only));
  ASSIGN_OR_RETURN(region->guard, GuardedRegion::Register(id, region->mapping));
  std::lock_guard<std::mutex> lock(mutex_);
  if (!regions_.emplace(id, std::move(region)).second) {
    return absl::AlreadyExistsError(absl::StrCat("region ", id, " is mapped already"));
  }
  return absl::OkStatus();
}

void RegionTable::Remove(uint64_t id) {
  std::shared_ptr<const MappedRegion> removed;  // unmapped outside the lock
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = regions_.find(id);
  if (found == regions_.end()) return;
  removed = std::move(found->second);
  regions_.erase(found);
}

absl::StatusOr<std::shared_ptr<const MappedRegion>> RegionTable::Find(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = regions_.find(id);
  if (found == regions_.end())
    return absl::NotFoundError(absl::StrCat("region ", id, " is not mapped"));
  return found->second;
}

}  // namespace tessera::runtime
