// Shared memory mapped with inaccessible address space on both sides, so that a kernel that runs
// past a region is stopped by the processor instead of hitting something else.
//
// The region's last page is whole: bytes between its end and the end of that page are the client's
// own memory.
#ifndef TESSERA_RUNTIME_MEMORY_GUARDED_MAPPING_H_
#define TESSERA_RUNTIME_MEMORY_GUARDED_MAPPING_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace tessera::runtime {

inline constexpr uint64_t kGuardBytes = 1 << 20;  // of address space, not of memory

class GuardedMapping {
 public:
  // Maps `bytes` bytes of `fd` from `offset` (any byte) on. The file must hold them all
  // (OUT_OF_RANGE). PERMISSION_DENIED: the descriptor or a seal forbids writing and `read_only` is
  // false.
  static absl::StatusOr<GuardedMapping> Map(int fd, uint64_t offset, uint64_t bytes,
                                            bool read_only);

  GuardedMapping() = default;
  GuardedMapping(GuardedMapping&& other) noexcept { *this = std::move(other); }
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  ~GuardedMapping();

  char* data() const { return data_; }  // of byte `offset`
  uint64_t bytes() const { return bytes_; }
  // The pages mapped, whole ones.
  char* pages_begin() const { return reserved_ + kGuardBytes; }
  char* pages_end() const { return reserved_ + reserved_bytes_ - kGuardBytes; }

 private:
  char* reserved_ = nullptr;
  uint64_t reserved_bytes_ = 0;
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_GUARDED_MAPPING_H_
