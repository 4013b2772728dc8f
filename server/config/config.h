// The daemon's settings: defaults, then the configuration file, then the environment, then flags;
// the last word wins.
//
// What each one means is said once, in settings.cc.
#ifndef TESSERA_SERVER_CONFIG_CONFIG_H_
#define TESSERA_SERVER_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tessera::server {

struct Config {
  std::string listen;
  std::string tcp_listen = "off";
  std::string state_dir;
  std::string socket_group;
  uint64_t socket_mode = 0660;
  std::string metrics = "127.0.0.1:9464";
  std::string log_level = "info";
  uint64_t max_message_bytes = uint64_t{64} << 20;

  std::string default_device;  // empty: the first GPU, else cpu:0
  absl::Duration kernel_limit = absl::Seconds(30);
  absl::Duration launch_spin = absl::Microseconds(60);
  absl::Duration socket_poll = absl::Microseconds(400);
  uint64_t cpu_threads = 0;
  uint64_t max_variants = 4096;

  uint64_t workers = 0;
  uint64_t worker_memory_bytes = uint64_t{8} << 30;
  absl::Duration compile_limit = absl::Seconds(120);
  absl::Duration remember_failures = absl::Minutes(10);
  uint64_t max_source_bytes = uint64_t{16} << 20;
  uint64_t memory_cache_bytes = uint64_t{128} << 20;
  uint64_t cache_bytes = uint64_t{8} << 30;
  uint64_t cache_entries_per_kernel = 1024;
  bool cache_import = true;

  uint64_t max_sessions = 1024;
  uint64_t session_regions = 4096;
  uint64_t session_bytes = 0;
  uint64_t session_launches = 1024;
  absl::Duration session_lease = absl::Seconds(60);
  bool posix_shm = true;
  bool memory_over_tcp = false;

  std::string warmup_manifest;
  std::string warmup_on_failure = "hold";
  std::string jit_monitor = "warn";
  std::string tuning = "amortised";
  bool tuning_frozen = false;
  double tuning_device_share = 0.1;
  absl::Duration tuning_latency_gpu = absl::Microseconds(200);
  uint64_t tuning_latency_launches = 4;
  absl::Duration tuning_latency_cpu = absl::Milliseconds(1);
  absl::Duration tuning_horizon = absl::Hours(1);
  uint64_t tuning_candidates = 256;
  uint64_t tuning_workers = 1;
  uint64_t tuning_nice = 15;
  absl::Duration tuning_kernel_limit = absl::Seconds(5);
  uint64_t tuning_scratch_bytes = uint64_t{4} << 30;
  absl::Duration drain_limit = absl::Seconds(20);

  // What the command line asks for besides settings.
  bool print_help = false;
  bool print_config = false;

  // The path in `listen` ("unix:/path").
  std::string socket_path() const;
};

// Reads a variable of the environment; nullptr in the result means unset. A parameter, so that
// tests have their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment ProcessEnvironment();

// INVALID_ARGUMENT names the flag, variable, or file with line and column, and what is accepted.
absl::StatusOr<Config> LoadConfig(const std::vector<std::string>& arguments,
                                  const Environment& environment);

// Settings of a YAML text over `config`. `path` is for messages.
absl::Status ApplyYaml(absl::string_view text, absl::string_view path, Config* config);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONFIG_CONFIG_H_
