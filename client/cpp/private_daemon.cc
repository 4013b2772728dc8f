#include "client/cpp/private_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace tessera {
namespace {

std::string FindBinary() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* place : {"tesserad", "../../server/tesserad"}) {
    std::filesystem::path candidate = self.parent_path() / place;
    if (std::filesystem::exists(candidate, error)) return candidate.lexically_normal().string();
  }
  return "tesserad";
}

bool Accepts(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  bool accepted = fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  return accepted;
}

std::string Tail(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  return all.size() > 2000 ? all.substr(all.size() - 2000) : all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(PrivateDaemonOptions options) {
  // A socket's path is short: where the temporary folder's is too long for one, /tmp holds it.
  std::string pattern = (std::filesystem::temp_directory_path() / "tessera.XXXXXX").string();
  if (pattern.size() + sizeof("/tesserad.sock.fd") > sizeof(sockaddr_un::sun_path))
    pattern = "/tmp/tessera.XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("creating ", pattern));
  std::unique_ptr<PrivateDaemon> daemon(new PrivateDaemon);
  daemon->folder_ = pattern;
  std::string socket_path = daemon->folder_ + "/tesserad.sock";
  daemon->address_ = "unix:" + socket_path;
  daemon->log_path_ = daemon->folder_ + "/tesserad.log";
  std::string state_dir = options.state_dir;
  if (state_dir.empty())
    if (const char* from_environment = std::getenv("TESSERA_STATE_DIR")) state_dir = from_environment;
  if (state_dir.empty()) state_dir = daemon->folder_ + "/state";

  std::vector<std::string> command = {options.binary.empty() ? FindBinary() : options.binary,
                                      "--listen=" + daemon->address_, "--state-dir=" + state_dir, "--metrics=off"};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (options.quiet) {
    posix_spawn_file_actions_addopen(&actions, 1, daemon->log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
  }
  int error = posix_spawnp(&daemon->pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    daemon->pid_ = -1;
    return absl::ErrnoToStatus(error, absl::StrCat("starting ", command[0]));
  }
  absl::Time deadline = absl::Now() + options.start_timeout;
  while (!Accepts(socket_path + ".fd")) {
    int status = 0;
    if (waitpid(daemon->pid_, &status, WNOHANG) == daemon->pid_) {
      daemon->pid_ = -1;
      return absl::UnavailableError(absl::StrCat(command[0], " ended while starting:\n", Tail(daemon->log_path_)));
    }
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError(absl::StrCat(command[0], " did not start in ", absl::FormatDuration(options.start_timeout), ":\n", Tail(daemon->log_path_)));
    absl::SleepFor(absl::Milliseconds(1));
  }
  return daemon;
}

void PrivateDaemon::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

PrivateDaemon::~PrivateDaemon() {
  if (pid_ >= 0) {
    kill(pid_, SIGTERM);
    absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (waitpid(pid_, nullptr, WNOHANG) == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(2));
    if (absl::Now() >= deadline) Kill();
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace tessera
