// A daemon and a client for tests that go over the wire.
#ifndef TESSERA_TESTS_SUPPORT_DAEMON_FIXTURE_H_
#define TESSERA_TESTS_SUPPORT_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/private_daemon.h"

namespace tessera {

// SIGKILL, of a process and not of a group: a status names process 0 where none runs. False: nothing was killed.
inline bool KillProcess(int64_t pid) { return pid > 1 && kill(static_cast<pid_t>(pid), SIGKILL) == 0; }

// A file of the repository (tests declare it as data), or the daemon's binary.
inline std::string Runfile(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  if (root != nullptr && std::ifstream(std::string(root) + "/tessera/" + path)) return std::string(root) + "/tessera/" + path;
  return std::ifstream("bazel-bin/" + path) ? "bazel-bin/" + path : path;
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class DaemonFixture : public ::testing::Test {
 protected:
  // Starts (again) on `state_dir`; empty: a fresh one. Where TESSERA_TEST_ADDRESS names a running daemon (of another
  // user, say), that one is used.
  void StartDaemon(const std::string& state_dir = "", std::vector<std::string> flags = {}) {
    client_.reset();
    daemon_.reset();
    if (const char* address = std::getenv("TESSERA_TEST_ADDRESS")) {
      address_ = address;
      return Connect();
    }
    PrivateDaemonOptions options;
    options.binary = Runfile("server/tesserad");
    options.state_dir = state_dir;
    options.flags = std::move(flags);
    auto daemon = PrivateDaemon::Start(options);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    address_ = daemon_->address();
    Connect();
  }
  void Connect() {
    auto client = Client::Connect(address_, "test");
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  // Registers a file of the repository and returns the module's id.
  std::string Register(const std::string& path) {
    std::string text = ReadText(Runfile(path));
    EXPECT_FALSE(text.empty()) << path;
    return RegisterText(text, path);
  }
  std::string RegisterText(const std::string& text, const std::string& path = "kernel.py") {
    auto module = client_->RegisterModule({{path, text}});
    EXPECT_TRUE(module.ok()) << module.status();
    return module.ok() ? module->module() : "";
  }

  std::unique_ptr<SharedBuffer> Allocate(uint64_t bytes) {
    auto buffer = client_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }

  v1::GetStatusResponse Status() {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    EXPECT_TRUE(client_->admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok());
    return status;
  }

  std::string address_;
  std::unique_ptr<PrivateDaemon> daemon_;  // null where TESSERA_TEST_ADDRESS is set
  std::unique_ptr<Client> client_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_SUPPORT_DAEMON_FIXTURE_H_
