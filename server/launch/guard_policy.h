// Which launches on a GPU run the guarded variant of their kernel, where every access is checked
// against the extents of the bound buffers instead of faulting.
//
// Pure, but for the counters of GuardRecord, which is thread-safe.
#ifndef TESSERA_SERVER_LAUNCH_GUARD_POLICY_H_
#define TESSERA_SERVER_LAUNCH_GUARD_POLICY_H_

#include <atomic>
#include <cstdint>

#include "proto/storage/modules.pb.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// The option of the compiler that makes a variant a guarded one.
inline constexpr char kGuardedOption[] = "guarded";
bool IsGuarded(const storage::LaunchOptions& options);

// What is in force where a session asked for nothing: under MPS a fault reaches every process on
// the GPU, so the first launch of a new variant is guarded. Without it a fault is the executor's own,
// and whoever could have caused it anyway (a process of the daemon's own user) goes without.
GuardPolicy GuardInForce(GuardPolicy asked, bool shared_by_mps, bool same_user);

// Of a variant: how far it is known to stay inside its buffers.
class GuardRecord {
 public:
  // Whether the next launch is to run guarded. Once a launch.
  bool Due(const GuardPolicy& policy);
  // A guarded launch went through, or the variant cannot be guarded and need not be.
  void SetProven() { proven_.store(true, std::memory_order_relaxed); }
  bool proven() const { return proven_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> proven_{false};
  std::atomic<uint64_t> launches_{0};
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_GUARD_POLICY_H_
