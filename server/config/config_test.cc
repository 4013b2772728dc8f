#include "server/config/config.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "server/config/settings.h"

namespace tessera::server {
namespace {

Environment Variables(std::map<std::string, std::string> values) {
  return [values](const char* name) -> std::optional<std::string> {
    auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

std::string WriteFile(const std::string& text) {
  const char* folder = std::getenv("TEST_TMPDIR");
  std::string path =
      std::string(folder != nullptr ? folder : "/tmp") + "/tesserad_config_test.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(Config, LetsFlagsWinOverEnvironmentOverFile) {
  std::string file =
      WriteFile("listen: unix:/file/a.sock\nstate_dir: /file/state\nmax_sessions: 7\n");
  std::map<std::string, std::string> environment = {{"TESSERA_CONFIG", file},
                                                    {"TESSERA_STATE_DIR", "/env/state"}};
  absl::StatusOr<Config> config =
      LoadConfig({"--listen=unix:/flag/a.sock"}, Variables(environment));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket_path(), "/flag/a.sock");
  EXPECT_EQ(config->state_dir, "/env/state");
  EXPECT_EQ(config->max_sessions, 7u);
}

TEST(Config, ReadsUnits) {
  Config config;
  ASSERT_TRUE(ApplyYaml("worker_memory_bytes: 512MiB\ncompile_limit: 1500ms\ndrain_limit: "
                        "3\nsocket_mode: \"0600\"\n"
                        "posix_shm: off\n",
                        "f", &config)
                  .ok());
  EXPECT_EQ(config.worker_memory_bytes, uint64_t{512} << 20);
  EXPECT_EQ(config.compile_limit, absl::Milliseconds(1500));
  EXPECT_EQ(config.drain_limit, absl::Seconds(3));
  EXPECT_EQ(config.socket_mode, 0600u);
  EXPECT_FALSE(config.posix_shm);
}

TEST(Config, SaysWhereAMistakeIs) {
  struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"metrics: off\nworkerz: 3\n", "f.yaml:2:1: there is no setting 'workerz'"},
      {"workers: many\n", "f.yaml:1:10: workers: 'many' is not accepted"},
      {"workers: [1]\n", "f.yaml:1:10: workers wants one value"},
      {"compile_limit: soon\n", "a time is"},
      {"session_bytes: 3XB\n", "bytes are"},
      {"a: b: c\n", "f.yaml:1:"},
      {"- 1\n", "'setting: value' lines"},
  };
  for (const auto& c : cases) {
    Config config;
    absl::Status status = ApplyYaml(c.text, "f.yaml", &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << c.text << status;
  }
  EXPECT_FALSE(LoadConfig({"--workerz=3"}, Variables({})).ok());
  EXPECT_FALSE(LoadConfig({"--workers"}, Variables({})).ok());
  EXPECT_FALSE(LoadConfig({"extra"}, Variables({})).ok());
  EXPECT_FALSE(LoadConfig({"--listen=localhost:1"}, Variables({})).ok());
}

TEST(Config, SampleFileSaysEverythingAndChangesNothing) {
  Config config;
  ASSERT_TRUE(ApplyYaml(SampleConfig(), "sample", &config).ok());
  for (const Setting& setting : Settings())
    EXPECT_EQ(setting.print(config), setting.print(Config())) << setting.name;
  std::ifstream file("deploy/tesserad.yaml");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), SampleConfig())
      << "write it again: tesserad --print-config > deploy/tesserad.yaml";
}

}  // namespace
}  // namespace tessera::server
