// Copies between regions, by the executor of a device.
#ifndef TESSERA_SERVER_SESSION_MEMORY_COPY_H_
#define TESSERA_SERVER_SESSION_MEMORY_COPY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/device/device_table.h"
#include "server/session/region.h"

namespace tessera::server {

struct RegionPlace {
  std::shared_ptr<Region> region;
  uint64_t offset = 0;  // bytes
};

// Copies `bytes` bytes and returns when they are there: blocks. Both regions are mapped on `device`
// if they are not. INVALID_ARGUMENT: a place outside its region, or a read-only target.
// FAILED_PRECONDITION: memory of another GPU.
absl::Status CopyMemory(const RegionPlace& from, const RegionPlace& to, uint64_t bytes,
                        Device* device);

// Several at once, in this order; the first error.
struct MemoryCopy {
  RegionPlace from, to;
  uint64_t bytes = 0;
};
absl::Status CopyMemory(absl::Span<const MemoryCopy> copies, Device* device);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_MEMORY_COPY_H_
