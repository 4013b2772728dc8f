// A child process that talks to us over one socket.
//
// Started with posix_spawn, which is safe with gRPC's threads around: the child gets descriptors 0
// to 2 and its socket, nothing else, an empty signal mask, and ends by itself when the socket
// closes (see WatchParent).
#ifndef TESSERA_SERVER_COMPILE_CHILD_PROCESS_H_
#define TESSERA_SERVER_COMPILE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::server {

class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();  // Kill()

  // Appends `<fd_flag>N` to `command`, N being the child's end of a stream socket.
  // `address_space_bytes` 0: no limit.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command,
                                            absl::string_view fd_flag,
                                            uint64_t address_space_bytes);

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }
  bool running() const { return pid_ > 0; }

  // Whether it has ended by itself; says how ("signal 11", "exit status 1").
  bool Ended(std::string* how);
  // Ends it at once and reaps it.
  void Kill();

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

// For the child's main: ends this process, whatever it is doing, as soon as the other end of `fd`
// closes. A parent-death signal would follow the thread that started us, not the process.
void WatchParent(int fd);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_CHILD_PROCESS_H_
