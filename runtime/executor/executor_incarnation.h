// One life of an executor process: spawned, attached to its rings, and reaped. ExecutorClient goes
// through many.
#ifndef TESSERA_RUNTIME_EXECUTOR_EXECUTOR_INCARNATION_H_
#define TESSERA_RUNTIME_EXECUTOR_EXECUTOR_INCARNATION_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/worker/worker.pb.h"
#include "runtime/executor/ring_records.h"
#include "runtime/memory/unique_fd.h"
#include "runtime/ring/ring.h"

namespace tessera::runtime {

// What an executor answers to a request, with the descriptors that came with it.
struct ExecutorAnswer {
  worker::ExecutorResponse response;
  std::vector<UniqueFd> descriptors;
};

// How an executor ended.
struct ExecutorDeath {
  int signal = 0;               // that killed it; 0: it exited
  int exit_status = 0;          // if it exited
  bool by_fault = false;        // SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT
  uint64_t running_launch = 0;  // as the executor noted it; to be checked before it is believed
  uint64_t loading_kernel = 0;
  std::vector<uint64_t> suspects;  // launches that ran when it lost its device; to be checked too
  bool certain = true;             // of suspects: nobody outside the executor can have caused it
  std::string text;  // "executor cpu:0 (pid 71) was killed by SIGSEGV at address 0x..., 8 bytes
                     // past the end of region 3"
};

class ExecutorIncarnation {
 public:
  // Spawns the child with its end of the control socket as descriptor 3. Call it on a thread that
  // outlives the child: the child dies with the thread that made it.
  static absl::StatusOr<std::unique_ptr<ExecutorIncarnation>> Spawn(const ExecutorOptions& options);
  // Kills the child if it is not reaped yet.
  ~ExecutorIncarnation();

  pid_t pid() const { return pid_; }
  RingProducer& commands() { return *commands_; }        // callers lock
  RingConsumer& completions() { return *completions_; }  // callers lock

  // The request that must come first; hands over the rings. Not answered yet when this returns.
  absl::Status SendAttach(uint64_t id);
  // Thread-safe.
  absl::Status Send(const worker::ExecutorRequest& request, absl::Span<const int> descriptors);

  // Waits up to `timeout_ms` (-1: for ever) for responses, for death, or for `wake_fd` to become
  // readable. One thread. Whole responses are appended. Returns false when the child has died or
  // closed its socket.
  bool Poll(int timeout_ms, int wake_fd, std::vector<ExecutorAnswer>* answers);

  // Kills the child; the first `reason` given is told in ExecutorDeath. Thread-safe, and harmless
  // after Reap.
  void Kill(const std::string& reason);
  // Closes the control socket, which ends the child, and gives it a second for that.
  void AskToEnd();
  // Waits for the child's end, killing it if it still runs. Once.
  ExecutorDeath Reap();

 private:
  ExecutorIncarnation() = default;
  void ReadAnswers(std::vector<ExecutorAnswer>* answers, bool* open);
  bool TakeDescriptors(uint32_t count, ExecutorAnswer* answer);
  void NoteLoss(ExecutorDeath* death) const;
  std::string DescribeFault() const;

  std::string device_;
  pid_t pid_ = 0;
  UniqueFd pid_fd_;
  UniqueFd control_;
  std::mutex send_mutex_;
  std::string received_;               // beginning of a response that is not whole yet
  std::deque<UniqueFd> received_fds_;  // of responses from there on
  uint64_t kill_after_ns_ = 0;

  std::shared_ptr<RingMemory> command_memory_;
  std::shared_ptr<RingMemory> completion_memory_;
  UniqueFd status_fd_;
  ExecutorStatus* status_ = nullptr;
  std::unique_ptr<RingProducer> commands_;
  std::unique_ptr<RingConsumer> completions_;

  std::mutex kill_mutex_;
  bool reaped_ = false;
  std::string kill_reason_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_EXECUTOR_INCARNATION_H_
