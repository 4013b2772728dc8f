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
  life->kill_after_ns_ =
      static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(options.kill_after), 1));
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
  request.mutable_attach()->set_kill_after_ns(kill_after_ns_);
  const int descriptors[] = {command_memory_->fd(), completion_memory_->fd(), status_fd_.get()};
  return Send(request, descriptors);
}

absl::Status ExecutorIncarnation::Send(const worker::ExecutorRequest& request,
                                       absl::Span<const int> descriptors) {
  const std::string bytes = request.SerializeAsString();
  std::lock_guard<std::mutex> lock(send_mutex_);
  return SendFrame(control_.get(), bytes, descriptors);
}

bool ExecutorIncarnation::Poll(int timeout_ms, int wake_fd, std::vector<ExecutorAnswer>* answers) {
  pollfd fds[3] = {{control_.get(), POLLIN, 0}, {pid_fd_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
  if (poll(fds, 3, timeout_ms) <= 0) return true;  // time is up, or a signal: the caller comes back
  bool open = true;
  if (fds[0].revents != 0) ReadAnswers(answers, &open);
  if (open) return fds[1].revents == 0;
  // A dying process closes its sockets first; give the real cause time to show.
  pollfd ended = {pid_fd_.get(), POLLIN, 0};
  if (poll(&ended, 1, kEndGraceMs) == 0) Kill("it closed its control socket");
  return false;
}

void ExecutorIncarnation::ReadAnswers(std::vector<ExecutorAnswer>* answers, bool* open) {
  char buffer[16384];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  iovec part = {buffer, sizeof(buffer)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t received = recvmsg(control_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  *open = received > 0;
  if (!*open) return;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received_fds_.emplace_back(fd);
    }
  }
  received_.append(buffer, static_cast<size_t>(received));
  size_t taken = 0;
  while (received_.size() - taken >= 4) {
    const uint32_t bytes = absl::little_endian::Load32(received_.data() + taken);
    if (bytes > kMaxResponseBytes) {
      *open = false;
      return;
    }
    if (received_.size() - taken - 4 < bytes) break;
    ExecutorAnswer answer;
    *open = answer.response.ParseFromArray(received_.data() + taken + 4, static_cast<int>(bytes)) &&
            TakeDescriptors(answer.response.descriptors(), &answer) && *open;
    answers->push_back(std::move(answer));
    taken += 4 + bytes;
  }
  received_.erase(0, taken);
}

// They come with the first byte of their response, so they are here when it is whole.
bool ExecutorIncarnation::TakeDescriptors(uint32_t count, ExecutorAnswer* answer) {
  for (; count > 0; --count) {
    if (received_fds_.empty()) return false;
    answer->descriptors.push_back(std::move(received_fds_.front()));
    received_fds_.pop_front();
  }
  return true;
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
  if (death.signal == 0 && status_->lost.load() != 0) {
    NoteLoss(&death);
  } else if (death.signal == SIGKILL && !kill_reason_.empty()) {
    absl::StrAppend(&death.text, "was killed: ", kill_reason_);
  } else if (death.signal != 0) {
    absl::StrAppend(&death.text, "died of ", SignalName(death.signal), DescribeFault());
  } else {
    absl::StrAppend(&death.text, "exited with status ", death.exit_status);
  }
  return death;
}

void ExecutorIncarnation::NoteLoss(ExecutorDeath* death) const {
  death->by_fault = status_->by_kernel.load() != 0;
  death->certain = status_->certain.load() != 0;
  const uint32_t count =
      std::min<uint32_t>(status_->num_suspects.load(), ExecutorStatus::kMaxSuspects);
  for (uint32_t i = 0; i < count; ++i) death->suspects.push_back(status_->suspects[i].load());
  absl::StrAppend(&death->text, "ended: ",
                  std::string(status_->reason, strnlen(status_->reason, sizeof(status_->reason))));
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
