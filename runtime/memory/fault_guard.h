// Keeps a process alive when mapped memory vanishes under it, and says what a fatal fault hit.
//
// A client can truncate POSIX shm while a kernel reads it; the access then raises SIGBUS. The guard
// puts pages of zeros where the memory was and marks the region as lost: the kernel runs on, in
// whichever thread it is, and the launch is failed when it ends. Every other SIGSEGV, SIGBUS,
// SIGFPE, SIGILL and SIGABRT is recorded and kills the process as usual.
#ifndef TESSERA_RUNTIME_MEMORY_FAULT_GUARD_H_
#define TESSERA_RUNTIME_MEMORY_FAULT_GUARD_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/memory/guarded_mapping.h"

namespace tessera::runtime {

// Where a fatal fault leaves its traces; may lie in shared memory. Fields are valid once `signal`
// is set.
struct FaultRecord {
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> region;  // 0: not in or near any
  std::atomic<int64_t>
      region_offset;  // of the address, from the region's first byte; negative: before it
  std::atomic<uint64_t> region_bytes;
  std::atomic<uint32_t> signal;
};

// Installs the handlers for the whole process; `record` must stay. Once per process.
void InstallFaultGuard(FaultRecord* record);

// A region the guard knows about. Register it before anything touches the memory, and let it go
// before it is unmapped.
class GuardedRegion {
 public:
  // RESOURCE_EXHAUSTED: more regions than the guard has room for (kMaxGuardedRegions).
  static absl::StatusOr<GuardedRegion> Register(uint64_t region, const GuardedMapping& mapping);

  GuardedRegion() = default;
  GuardedRegion(GuardedRegion&& other) noexcept : slot_(other.slot_) { other.slot_ = -1; }
  GuardedRegion& operator=(GuardedRegion&& other) noexcept;
  ~GuardedRegion();

  // Part of the memory vanished; what is mapped there now is not the client's.
  bool lost() const;

 private:
  explicit GuardedRegion(int slot) : slot_(slot) {}
  int slot_ = -1;
};

inline constexpr int kMaxGuardedRegions = 1 << 16;

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_FAULT_GUARD_H_
