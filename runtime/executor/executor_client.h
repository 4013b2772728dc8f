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

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/worker/worker.pb.h"
#include "runtime/memory/unique_fd.h"

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
  // Not 0: only the time of a launch is wanted, on a CPU, from so many of its program instances at most. They run, and then,
  // timed, as many of those that follow: with the caches as the first ones leave them, as in the middle of the launch. If so many do
  // not follow, some run again, with the caches of the cores swept in between (LoadedKernel::SweepCaches). The time is the processor
  // time of the threads (Launch::processor_ns): one that wakes up late would weigh as often as the part goes into the whole.
  uint64_t part = 0;
  const LaunchParam* params = nullptr;
  uint32_t num_params = 0;

  // What follows is for devices with streams and events; others run everything in order.
  uint64_t session = 0;  // launches with equal session, stream and priority run in order
  uint32_t stream = 0;
  int32_t priority = 0;
  absl::InlinedVector<uint64_t, 2> waits, signals;  // of ImportEvent
  // Told at most once, before `done`, when the device has the launch.
  std::function<void()> on_enqueued;
};

// Places in two regions, and how many bytes go from one to the other.
struct CopyCommand {
  uint64_t from = 0, from_offset = 0;
  uint64_t to = 0, to_offset = 0;
  uint64_t bytes = 0;
  uint64_t session = 0;
};

// Memory of a GPU: one of the three kinds of handle.
struct DeviceMemorySource {
  std::string cuda_ipc;               // a cudaIpcMemHandle_t
  std::vector<int> vmm;               // VMM exports that lie one behind the other
  std::vector<uint64_t> chunk_bytes;  // of each
  uint64_t allocate = 0;              // bytes of new memory, zeroed
  uint64_t offset = 0;                // where the region begins inside
  uint64_t size = 0;                  // of the region; 0: to the end
  bool read_only = false;
  std::string device_uuid;  // that the client named; may be empty
};

struct DeviceMemoryInfo {
  uint64_t size = 0;          // of the region
  uint64_t handle_bytes = 0;  // new memory: bytes behind `exported`
  UniqueFd exported;          // new memory: its VMM export
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
  // From the executor's start to its first answer, and from one answer to the next while it gets
  // back what it had.
  absl::Duration start_limit = absl::Seconds(10);
  // The executor runs several launches at once, and looks itself for one that runs too long.
  bool concurrent = false;
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
  // Maps memory of the device itself as `region`, or makes it. INVALID_ARGUMENT: the handle is
  // none, or of another GPU. UNIMPLEMENTED: the device has no memory of its own.
  virtual absl::StatusOr<DeviceMemoryInfo> MapDeviceMemory(uint64_t region,
                                                           const DeviceMemorySource& source) = 0;
  // Unmaps; launches already submitted finish first.
  virtual void UnmapRegion(uint64_t region) = 0;

  // Opens a CUDA event of a client under an id; ids are never reused. UNIMPLEMENTED: the device has
  // none.
  virtual absl::Status ImportEvent(uint64_t event, const std::string& cuda_ipc,
                                   const std::string& device_uuid) = 0;
  virtual void ReleaseEvent(uint64_t event) = 0;

  // What the device and its executor hold at the moment. UNIMPLEMENTED: the device does not say.
  virtual absl::StatusOr<worker::DeviceStats> Stats() = 0;

  // Loads an artifact under an id; ids are never reused. Kept for reloading after a restart.
  virtual absl::Status LoadKernel(uint64_t kernel, const storage::Artifact& artifact) = 0;
  virtual void UnloadKernel(uint64_t kernel) = 0;

  // Queues a launch. `done` runs exactly once, on a thread of this object or on the caller's: if
  // the launch is refused at once, or if it ends within a short spin (`spin`; 40 us cover a small
  // kernel and the wake-up of a sleeping core; for callers that have nothing else to do). It must
  // not block; it may call Submit.
  virtual void Submit(const LaunchCommand& command, absl::Duration spin, DoneCallback done) = 0;
  // Queues a copy between two mapped regions; `done` as for Submit.
  virtual void Copy(const CopyCommand& command, DoneCallback done) = 0;

  virtual pid_t pid() const = 0;
  virtual uint32_t restarts() const = 0;
  virtual uint32_t in_flight() const = 0;
  // Kernels that killed an executor; launching them fails with FAILED_PRECONDITION.
  virtual std::vector<uint64_t> quarantined() const = 0;
  // Their names.
  virtual std::vector<std::string> quarantined_names() const { return {}; }
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_EXECUTOR_CLIENT_H_
