#include "runtime/executor/executor_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/status_macros.h"
#include "runtime/memory/descriptor_socket.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/memory/system_status.h"

namespace tessera::runtime {
namespace {

constexpr uint32_t kMaxRequestBytes =
    1u << 30;  // artifacts with the text of all stages stay far below
constexpr uint64_t kMaxCompletionBytes = 256 << 10;  // message and printed output of one launch
constexpr size_t kMaxMessageBytes = 16 << 10;
constexpr size_t kSignalStackBytes = 64 << 10;

// Where the parent died before this, the control socket is at its end.
absl::Status DieWithParent(int control_fd) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return SystemStatus(errno, "asking to die with the daemon");
  ASSIGN_OR_RETURN(const PeerCredentials daemon, GetPeerCredentials(control_fd));
  if (getppid() != daemon.pid) return absl::UnavailableError("the daemon is gone already");
  return absl::OkStatus();
}

// Core files of a process that maps clients' memory are large, and writing one would delay the
// restart. A limit of 1, not 0, also stops cores that go to a pipe.
void ForbidCoreFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_CORE, &limit) != 0 || std::getenv("TESSERA_EXECUTOR_CORE") != nullptr)
    return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  setrlimit(RLIMIT_CORE, &limit);
}

absl::Status ServeOne(int control_fd, const RequestHandler& handle) {
  ASSIGN_OR_RETURN(SocketMessage message, ReceiveFrame(control_fd, kMaxRequestBytes));
  worker::ExecutorRequest request;
  worker::ExecutorResponse response;
  std::vector<UniqueFd> attach;
  absl::Status status = absl::InvalidArgumentError("the request does not parse");
  if (request.ParseFromString(message.bytes))
    status = handle(request, std::move(message.descriptors), &response, &attach);
  if (!status.ok()) attach.clear();
  response.set_id(request.id());
  response.set_code(static_cast<int>(status.code()));
  response.set_message(status.message().data(),
                       std::min<size_t>(status.message().size(), kMaxMessageBytes));
  response.set_descriptors(static_cast<uint32_t>(attach.size()));
  std::vector<int> numbers;
  for (const UniqueFd& fd : attach) numbers.push_back(fd.get());
  return SendFrame(control_fd, response.SerializeAsString(), numbers);
}

}  // namespace

void Die(const absl::Status& status) {
  std::fprintf(stderr, "tessera executor: %s\n", status.ToString().c_str());
  _exit(EXIT_FAILURE);
}

absl::Status BindToDaemon(int control_fd) {
  RETURN_IF_ERROR(DieWithParent(control_fd));
  // Ctrl-C and service managers signal whole groups; the executor ends when the daemon closes the
  // control socket.
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  ForbidCoreFiles();
  return absl::OkStatus();
}

void UseSignalStack() {
  stack_t stack = {};
  stack.ss_sp = std::malloc(kSignalStackBytes);  // lives as long as the process
  stack.ss_size = kSignalStackBytes;
  sigaltstack(&stack, nullptr);
}

absl::StatusOr<ExecutorChannel> AttachChannel(std::vector<UniqueFd> descriptors) {
  if (descriptors.size() != 3)
    return absl::InvalidArgumentError("Attach comes with three descriptors");
  ASSIGN_OR_RETURN(std::shared_ptr<RingMemory> commands,
                   RingMemory::Attach(std::move(descriptors[0])));
  ASSIGN_OR_RETURN(std::shared_ptr<RingMemory> completions,
                   RingMemory::Attach(std::move(descriptors[1])));
  ASSIGN_OR_RETURN(const uint64_t status_bytes, AdmitMemfd(descriptors[2].get()));
  if (status_bytes < sizeof(ExecutorStatus))
    return absl::InvalidArgumentError("the status page is too small");
  void* page = mmap(nullptr, sizeof(ExecutorStatus), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, descriptors[2].get(), 0);
  if (page == MAP_FAILED) return SystemStatus(errno, "mapping the status page");
  ExecutorChannel channel;
  channel.status = static_cast<ExecutorStatus*>(page);
  channel.commands = std::make_unique<RingConsumer>(std::move(commands));
  channel.completions = std::make_unique<RingProducer>(std::move(completions));
  channel.max_completion_bytes =
      std::min<uint64_t>(kMaxCompletionBytes, channel.completions->max_record_bytes());
  return channel;
}

void ServeRequests(int control_fd, const RequestHandler& handle) {
  absl::Status status;
  do {
    status = ServeOne(control_fd, handle);
  } while (status.ok());
  if (status.code() != absl::StatusCode::kOutOfRange) Die(status);
  // A launch may still run in threads of its own: end at once, without destructors under them.
  _exit(EXIT_SUCCESS);
}

}  // namespace tessera::runtime
