// The daemon's end of an executor process: memory, kernels and launches of one device.
//
// The executor is a child process (posix_spawn of our own binary) that maps the clients' memory and
// runs kernels. Launches go through a shared-memory ring, everything else over a control socket.
// When the executor dies, every launch in flight fails with UNAVAILABLE and a reason, `on_death` is
// called once, and a restarted executor gets all regions again. Thread-safe.
#ifndef TESSERA_RUNTIME_EXECUTOR_EXECUTOR_CLIENT_H_
#define TESSERA_RUNTIME_EXECUTOR_EXECUTOR_CLIENT_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::runtime {

// One parameter slot of a launch: a scalar, or a place in a region.
struct LaunchParam {
  uint64_t region = 0;        // 0: `value` is the slot (scalars, null pointers)
  uint64_t value = 0;         // scalar bits, or the byte offset into the region
  uint64_t extent_bytes = 0;  // declared extent from `value` on, for checks
};

struct LaunchCommand {
  uint64_t kernel = 0;  // of LoadKernel
  uint32_t grid[3] = {1, 1, 1};
  uint64_t program_order_seed = 0;  // see Launch
  const LaunchParam* params = nullptr;
  uint32_t num_params = 0;
};

struct LaunchResult {
  absl::Status status;
  double queue_seconds = 0;   // from Submit to the start on the device
  double kernel_seconds = 0;  // on the device
  std::string printed;
};

struct ExecutorOptions {
  std::vector<std::string> command;  // argv of the child; "--executor-fd=N" is appended
  std::string device;                // "cpu:0"
  uint32_t ring_bytes = 1 << 20;
  // A launch that runs longer costs the executor its life.
  absl::Duration kill_after = absl::Seconds(30);
  // Told once for each death: what killed the executor, and in which kernel. On a thread of the
  // client; must not block.
  std::function<void(const absl::Status& reason)> on_death;
};

class ExecutorClient {
 public:
  using DoneCallback = std::function<void(LaunchResult)>;

  // Starts the child and waits until it answers.
  static absl::StatusOr<std::unique_ptr<ExecutorClient>> Start(ExecutorOptions options);
  virtual ~ExecutorClient() = default;  // stops the child

  // Maps `fd` (kept duplicated for re-mapping after a restart) as `region`. Ids are never reused.
  virtual absl::Status MapRegion(uint64_t region, int fd, uint64_t offset, uint64_t size,
                                 bool read_only) = 0;
  // Unmaps; launches already submitted finish first.
  virtual void UnmapRegion(uint64_t region) = 0;

  // Loads an artifact under an id; ids are never reused. Kept for reloading after a restart.
  virtual absl::Status LoadKernel(uint64_t kernel, const storage::Artifact& artifact) = 0;
  virtual void UnloadKernel(uint64_t kernel) = 0;

  // Queues a launch. `done` runs exactly once, on a thread of this object or on the caller's: if the
  // launch is refused at once, or if it ends within a short spin (`spin`; 40 us cover a small kernel
  // and the wake-up of a sleeping core; for callers that have nothing else to do). It must not
  // block; it may call Submit.
  virtual void Submit(const LaunchCommand& command, absl::Duration spin, DoneCallback done) = 0;

  virtual pid_t pid() const = 0;
  virtual uint32_t restarts() const = 0;
  virtual uint32_t in_flight() const = 0;
  // Kernels that killed an executor; launching them fails with FAILED_PRECONDITION.
  virtual std::vector<uint64_t> quarantined() const = 0;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_EXECUTOR_CLIENT_H_
