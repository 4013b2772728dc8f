// The regions an executor has mapped, by the daemon's ids.
//
// Thread-safe. What Find returned stays mapped until it is let go, so removing a region never pulls
// memory away from a launch.
#ifndef TESSERA_RUNTIME_MEMORY_REGION_TABLE_H_
#define TESSERA_RUNTIME_MEMORY_REGION_TABLE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/memory/fault_guard.h"
#include "runtime/memory/guarded_mapping.h"

namespace tessera::runtime {

struct MappedRegion {
  uint64_t id = 0;
  bool read_only = false;
  GuardedMapping mapping;
  GuardedRegion guard;  // after `mapping`: it ends first

  // The address of `bytes` bytes from `offset` on. OUT_OF_RANGE: they are not all inside.
  absl::StatusOr<uint64_t> Resolve(uint64_t offset, uint64_t bytes) const;
  // FAILED_PRECONDITION when the client took memory away that a launch touched.
  absl::Status CheckIntact() const;
};

class RegionTable {
 public:
  // ALREADY_EXISTS: ids are never reused. Else the errors of GuardedMapping::Map.
  absl::Status Add(uint64_t id, int fd, uint64_t offset, uint64_t bytes, bool read_only);
  void Remove(uint64_t id);
  // NOT_FOUND.
  absl::StatusOr<std::shared_ptr<const MappedRegion>> Find(uint64_t id) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const MappedRegion>> regions_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_REGION_TABLE_H_
