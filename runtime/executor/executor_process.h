// What every executor process does, whatever its device: bind its life to the daemon's, answer
// requests on the control socket, attach to the rings.
#ifndef TESSERA_RUNTIME_EXECUTOR_EXECUTOR_PROCESS_H_
#define TESSERA_RUNTIME_EXECUTOR_EXECUTOR_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/worker/worker.pb.h"
#include "runtime/executor/ring_records.h"
#include "runtime/memory/unique_fd.h"
#include "runtime/ring/ring.h"

namespace tessera::runtime {

// Says why on stderr and ends the process, without destructors: threads may still run.
[[noreturn]] void Die(const absl::Status& status);

// Dies with the daemon, ignores the signals that are meant for it, writes no core files. To be
// called first; an error means that the daemon is gone already.
absl::Status BindToDaemon(int control_fd);

// Lets the fault handlers run in this thread even when its stack is used up.
void UseSignalStack();

// What Attach hands over.
struct ExecutorChannel {
  std::unique_ptr<RingConsumer> commands;
  std::unique_ptr<RingProducer> completions;
  ExecutorStatus* status = nullptr;  // shared; stays mapped
  uint64_t max_completion_bytes = 0;
};
absl::StatusOr<ExecutorChannel> AttachChannel(std::vector<UniqueFd> descriptors);

// Answers one request; descriptors in `*attach` travel with the answer.
using RequestHandler = std::function<absl::Status(
    const worker::ExecutorRequest& request, std::vector<UniqueFd> descriptors,
    worker::ExecutorResponse* response, std::vector<UniqueFd>* attach)>;
// Answers requests until the daemon closes the socket, then ends the process.
[[noreturn]] void ServeRequests(int control_fd, const RequestHandler& handle);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_EXECUTOR_PROCESS_H_
