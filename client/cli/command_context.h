// What the commands share: the options every command takes, and the connection.
#ifndef TESSERA_CLIENT_CLI_COMMAND_CONTEXT_H_
#define TESSERA_CLIENT_CLI_COMMAND_CONTEXT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"
#include "client/cpp/private_daemon.h"

namespace tessera::cli {

struct CommandContext {
  std::string address;
  bool json = false;
  bool use_private = false;  // --private: a daemon for this command alone

  // Connects once; starts the private daemon if asked.
  absl::StatusOr<Client*> Connect();

 private:
  // The client goes before the daemon it talks to.
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Client> client_;
};

absl::StatusOr<std::string> ReadFile(const std::string& path);

// "FILE.py:KERNEL" in its two parts.
absl::StatusOr<std::pair<std::string, std::string>> SplitKernel(absl::string_view text);

std::string JsonOf(const google::protobuf::Message& message);
// Prints a message as JSON, for --json.
void PrintJson(const google::protobuf::Message& message);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_COMMAND_CONTEXT_H_
