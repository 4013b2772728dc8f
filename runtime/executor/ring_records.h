// What travels in the two rings between daemon and executor, and the page on which an executor
// leaves its last traces.
//
// Records hold ids and numbers, never pointers: the launch ring may be fed by a less trusted
// process later, and a kernel may have written over the executor's memory. Both ends are one build,
// so layouts may change freely.
#ifndef TESSERA_RUNTIME_EXECUTOR_RING_RECORDS_H_
#define TESSERA_RUNTIME_EXECUTOR_RING_RECORDS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/executor/executor_client.h"
#include "runtime/memory/fault_guard.h"

namespace tessera::runtime {

// kCopy is a launch without a kernel: its two parameters are the places to copy to and from, their
// extent the bytes.
enum class CommandKind : uint32_t {
  kLaunch = 1,
  kUnmapRegion = 2,
  kUnloadKernel = 3,
  kCopy = 4,
  kReleaseEvent = 5,
};

// Daemon to executor. Taken one after the other, in order.
struct RingCommand {
  CommandKind kind = CommandKind::kLaunch;
  uint64_t id = 0;      // of the launch; names it in its completion
  uint64_t object = 0;  // the kernel; for kUnmapRegion the region, for kReleaseEvent the event
  uint32_t grid[3] = {1, 1, 1};
  // Of devices that have streams.
  uint64_t session = 0;
  uint32_t stream = 0;
  int32_t priority = 0;
  bool tell_enqueued = false;
  uint64_t part = 0;  // see LaunchCommand
  uint64_t program_order_seed = 0;
  std::vector<LaunchParam> params;
  std::vector<uint64_t> waits, signals;  // events
};

std::string EncodeCommand(CommandKind kind, uint64_t id, const LaunchCommand& command);
std::string EncodeRemoval(CommandKind kind, uint64_t object);
// DATA_LOSS: no command. Reuses `command`'s memory.
absl::Status DecodeCommand(absl::string_view record, RingCommand* command);

// Executor to daemon.
struct RingCompletion {
  uint64_t id = 0;
  bool enqueued = false;  // it has not ended: the device has it, another record follows
  absl::Status status;
  uint64_t start_ns = 0;  // MonotonicNanos when the kernel began and ended; 0: it did not run
  uint64_t end_ns = 0;
  std::string printed;
  uint64_t printed_dropped =
      0;  // bytes of output that were not kept in `printed`; only for encoding
};

// Cuts message and output so that the record has at most `max_bytes` bytes, saying how much was
// left out.
std::string EncodeCompletion(const RingCompletion& completion, uint64_t max_bytes);
absl::Status DecodeCompletion(absl::string_view record, RingCompletion* completion);

// In shared memory, written by the executor, read by the daemon after the executor's death.
struct ExecutorStatus {
  std::atomic<uint64_t> running_launch;  // id; 0: none
  std::atomic<uint64_t> loading_kernel;  // id; 0: none
  FaultRecord fault;

  // Of an executor that runs several launches at once and has lost its device. `lost` is written
  // last.
  static constexpr int kMaxSuspects = 64;
  std::atomic<uint32_t> lost;       // nonzero: the rest is set
  std::atomic<uint32_t> by_kernel;  // a kernel of the suspects is at fault
  std::atomic<uint32_t> certain;    // nobody outside this process can have caused it
  std::atomic<uint32_t> num_suspects;
  std::atomic<uint64_t> suspects[kMaxSuspects];  // launches that ran
  char reason[512];
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_RING_RECORDS_H_
