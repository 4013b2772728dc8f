// A daemon of one's own: started for one command or test, stopped with the object.
#ifndef TESSERA_CLIENT_CPP_PRIVATE_DAEMON_H_
#define TESSERA_CLIENT_CPP_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tessera {

struct PrivateDaemonOptions {
  std::string binary;     // tesserad; empty: beside this executable, else on the PATH
  std::string state_dir;  // empty: $TESSERA_STATE_DIR, else a temporary folder that goes with the daemon
  std::vector<std::string> flags;
  absl::Duration start_timeout = absl::Seconds(30);
  bool quiet = true;  // log into a file in the temporary folder instead of stderr
};

class PrivateDaemon {
 public:
  // Starts the daemon on a socket in a temporary folder and waits until it accepts connections.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(PrivateDaemonOptions options);
  ~PrivateDaemon();  // SIGTERM, then SIGKILL after 10 s

  const std::string& address() const { return address_; }  // "unix:..."
  const std::string& log_path() const { return log_path_; }
  pid_t pid() const { return pid_; }
  // Kills without warning, as a crash would.
  void Kill();

 private:
  PrivateDaemon() = default;
  pid_t pid_ = -1;
  std::string folder_, address_, log_path_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_PRIVATE_DAEMON_H_
