#include "runtime/executor/executor_incarnation.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/internal/endian.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/descriptor_socket.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/memory/system_status.h"

extern char** environ;

namespace tessera::runtime {
namespace {

constexpr int kChildControlFd = 3;
constexpr uint32_t kMaxResponseBytes = 1 << 20;
constexpr int kEndGraceMs = 1000;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

bool IsFault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGABRT;
}

// Starts `command` with descriptor 3 = `control` and nothing else above standard error, with
// default signal handling and in a process group of its own.
absl::StatusOr<pid_t> SpawnProcess(std::vector<std::string> command, int control) {
  command.push_back(absl::StrCat("--executor-fd=", kChildControlFd));
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(&argument[0]);
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, kChildControlFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kChildControlFd + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return SystemStatus(error, absl::StrCat("starting ", command[0]));
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorIncarnation>> ExecutorIncarnation::Spawn(
    const ExecutorOptions& options) {
  if (options.command.empty())
    return absl::InvalidArgumentError("no command to start an executor with");
  std::unique_ptr<ExecutorIncarnation> life(new ExecutorIncarnation);
  life->device_ = options.device;
  ASSIGN_OR_RETURN(life->command_memory_, RingMemory::Create(options.ring_bytes));
  ASSIGN_OR_RETURN(life->completion_memory_, RingMemory::Create(options.ring_bytes));
  life->commands_ = std::make_unique<RingProducer>(life->command_memory_);
  life->completions_ = std::make_unique<RingConsumer>(life->completion_memory_);
  ASSIGN_OR_RETURN(life->status_fd_, CreateSealedMemory("tessera-status", sizeof(ExecutorStatus)));
  void* page =
      mmap(nullptr, sizeof(ExecutorStatus), PROT_READ, MAP_SHARED, life->status_fd_.get(), 0);
  if (page == MAP_FAILED) return SystemStatus(errno, "mapping the status page");
  life->status_ = static_cast<ExecutorStatus*>(page);

  ASSIGN_OR_RETURN(auto ends, MakeSocketPair(SOCK_STREAM));
  life->control_ = std::move(ends.first);
  ASSIGN_OR_RETURN(life->pid_, SpawnProcess(options.command, ends.second.get()));
  life->pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, life->pid_, 0)));
  if (!life->pid_fd_.open())
    return SystemStatus(errno, "opening a descriptor for the executor process");
  return life;
}

ExecutorIncarnation::~ExecutorIncarnation() {
  if (pid_ > 0 && !reaped_) Reap();
  if (status_ != nullptr) munmap(status_, sizeof(ExecutorStatus));
}

absl::Status ExecutorIncarnation::SendAttach(uint64_t id) {
  worker::ExecutorRequest request;
  request.set_id(id);
  request.mutable_attach()->set_device(device_);
  const int descriptors[] = {command_memory_->fd(), completion_memory_->fd(), status_fd_.get()};
  return Send(request, descriptors);
}

absl::Status ExecutorIncarnation::Send(const worker::ExecutorRequest& request,
                                       absl::Span<const int> descriptors) {
  const std::string bytes = request.SerializeAsString();
  std::lock_guard<std::mutex> lock(send_mutex_);
  return SendFrame(control_.get(), bytes, descriptors);
}

bool ExecutorIncarnation::Poll(int timeout_ms, int wake_fd,
                               std::vector<worker::ExecutorResponse>* responses) {
  pollfd fds[3] = {{control_.get(), POLLIN, 0}, {pid_fd_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
  if (poll(fds, 3, timeout_ms) <= 0) return true;  // time is up, or a signal: the caller comes back
  bool open = true;
  if (fds[0].revents != 0) ReadResponses(responses, &open);
  if (open) return fds[1].revents == 0;
  // A dying process closes its sockets first; give the real cause time to show.
  pollfd ended = {pid_fd_.get(), POLLIN, 0};
  if (poll(&ended, 1, kEndGraceMs) == 0) Kill("it closed its control socket");
  return false;
}

void ExecutorIncarnation::ReadResponses(std::vector<worker::ExecutorResponse>* responses,
                                        bool* open) {
  char buffer[16384];
  const ssize_t received = recv(control_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  *open = received > 0;
  if (!*open) return;
  received_.append(buffer, static_cast<size_t>(received));
  size_t taken = 0;
  while (received_.size() - taken >= 4) {
    const uint32_t bytes = absl::little_endian::Load32(received_.data() + taken);
    if (bytes > kMaxResponseBytes) {
      *open = false;
      return;
    }
    if (received_.size() - taken - 4 < bytes) break;
    worker::ExecutorResponse response;
    *open = response.ParseFromArray(received_.data() + taken + 4, static_cast<int>(bytes)) && *open;
    responses->push_back(std::move(response));
    taken += 4 + bytes;
  }
  received_.erase(0, taken);
}

void ExecutorIncarnation::Kill(const std::string& reason) {
  std::lock_guard<std::mutex> lock(kill_mutex_);
  if (reaped_) return;
  if (kill_reason_.empty()) kill_reason_ = reason;
  kill(pid_, SIGKILL);  // not reaped: the id is still its own
}

void ExecutorIncarnation::AskToEnd() {
  shutdown(control_.get(), SHUT_RDWR);
  pollfd ended = {pid_fd_.get(), POLLIN, 0};
  while (poll(&ended, 1, kEndGraceMs) < 0 && errno == EINTR) {
  }
}

ExecutorDeath ExecutorIncarnation::Reap() {
  pollfd ended = {pid_fd_.get(), POLLIN, 0};
  if (pid_fd_.open() && poll(&ended, 1, 0) <= 0) Kill("");
  ExecutorDeath death;
  siginfo_t info = {};
  int waited;
  do {
    // Looks first and reaps under the lock, so that Kill never meets a foreign process under a
    // reused id.
    waited = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  } while (waited != 0 && errno == EINTR);
  std::lock_guard<std::mutex> lock(kill_mutex_);
  if (waited == 0) waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  reaped_ = true;

  if (waited == 0 && info.si_code == CLD_EXITED) {
    death.exit_status = info.si_status;
  } else if (waited == 0) {
    death.signal = info.si_status;
  } else {
    death.signal = static_cast<int>(status_->fault.signal.load());  // somebody else reaped it
  }
  death.by_fault = IsFault(death.signal);
  death.running_launch = status_->running_launch.load();
  death.loading_kernel = status_->loading_kernel.load();
  death.text = absl::StrCat("executor ", device_, " (pid ", pid_, ") ");
  if (death.signal == SIGKILL && !kill_reason_.empty()) {
    absl::StrAppend(&death.text, "was killed: ", kill_reason_);
  } else if (death.signal != 0) {
    absl::StrAppend(&death.text, "died of ", SignalName(death.signal), DescribeFault());
  } else {
    absl::StrAppend(&death.text, "exited with status ", death.exit_status);
  }
  return death;
}

std::string ExecutorIncarnation::DescribeFault() const {
  const FaultRecord& fault = status_->fault;
  const uint32_t signal = fault.signal.load();
  if (signal != SIGSEGV && signal != SIGBUS) return "";
  std::string text = absl::StrCat(" at address 0x", absl::Hex(fault.address.load()));
  const uint64_t region = fault.region.load();
  if (region == 0) return text;
  const int64_t offset = fault.region_offset.load();
  const uint64_t bytes = fault.region_bytes.load();
  if (offset < 0) {
    absl::StrAppend(&text, ", ", -offset, " bytes before region ", region);
  } else if (static_cast<uint64_t>(offset) >= bytes) {
    absl::StrAppend(&text, ", ", offset - static_cast<int64_t>(bytes),
                    " bytes past the end of region ", region);
  } else {
    absl::StrAppend(&text, ", at byte ", offset, " of region ", region);
  }
  return text;
}

}  // namespace tessera::runtime
