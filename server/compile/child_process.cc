#include "server/compile/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace tessera::server {
namespace {

// The child's end of its socket; 0 to 2 are the standard streams.
constexpr int kChildFd = 3;

std::string DescribeStatus(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status));
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

}  // namespace

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

ChildProcess::~ChildProcess() { Kill(); }

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command,
                                                 absl::string_view fd_flag,
                                                 uint64_t address_space_bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "creating a socket for a child process");
  // dup2 onto itself would leave the descriptor close-on-exec.
  if (ends[1] == kChildFd) {
    int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, kChildFd + 1);
    close(ends[1]);
    ends[1] = moved;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kChildFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kChildFd + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int signal : {SIGTERM, SIGINT, SIGPIPE, SIGHUP}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  // A process group of its own: Ctrl-C on a terminal reaches the daemon only, which drains before
  // it ends us.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> words = command;
  words.push_back(absl::StrCat(fd_flag, kChildFd));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ChildProcess child;
  int error = posix_spawn(&child.pid_, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  child.fd_ = ends[0];
  if (error != 0) {
    child.pid_ = -1;
    return absl::ErrnoToStatus(error, absl::StrCat("starting ", words[0]));
  }
  if (address_space_bytes != 0) {
    rlimit limit{address_space_bytes, address_space_bytes};
    prlimit(child.pid_, RLIMIT_AS, &limit, nullptr);
  }
  return child;
}

bool ChildProcess::Ended(std::string* how) {
  if (pid_ <= 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  pid_ = -1;
  *how = DescribeStatus(status);
  return true;
}

void ChildProcess::Kill() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void WatchParent(int fd) {
  std::thread([fd] {
    // No events asked for: poll returns on hang-up alone, and leaves the data to the process's own
    // reader.
    pollfd watched{fd, 0, 0};
    while (true) {
      int ready = poll(&watched, 1, -1);
      if (ready > 0 && (watched.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) break;
      if (ready < 0 && errno != EINTR) return;
    }
    kill(getpid(), SIGKILL);
  }).detach();
}

}  // namespace tessera::server
