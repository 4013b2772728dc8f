#include "server/config/settings.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tessera::server {
namespace {

absl::Status Bad(absl::string_view text, absl::string_view accepted) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not accepted; ", accepted));
}

Setting Text(const char* name, std::string Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            config->*field = std::string(text);
            return absl::OkStatus();
          },
          [field](const Config& config) { return absl::StrCat("\"", config.*field, "\""); }};
}

// One of `words`.
Setting OneOf(const char* name, std::string Config::*field, std::vector<std::string> words,
              const char* manual) {
  Setting setting = Text(name, field, manual);
  setting.read = [field, words](absl::string_view text, Config* config) {
    for (const std::string& word : words)
      if (text == word) {
        config->*field = word;
        return absl::OkStatus();
      }
    return Bad(text, absl::StrCat("one of ", absl::StrJoin(words, ", "), " is"));
  };
  return setting;
}

Setting Flag(const char* name, bool Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            std::string lower = absl::AsciiStrToLower(text);
            if (lower == "true" || lower == "on" || lower == "yes" || lower == "1") {
              config->*field = true;
            } else if (lower == "false" || lower == "off" || lower == "no" || lower == "0") {
              config->*field = false;
            } else {
              return Bad(text, "true or false is");
            }
            return absl::OkStatus();
          },
          [field](const Config& config) { return std::string(config.*field ? "true" : "false"); }};
}

Setting Count(const char* name, uint64_t Config::*field, uint64_t most, const char* manual) {
  return {name, manual,
          [field, most](absl::string_view text, Config* config) {
            uint64_t value = 0;
            if (!absl::SimpleAtoi(text, &value) || value > most)
              return Bad(text, absl::StrCat("a number from 0 to ", most, " is"));
            config->*field = value;
            return absl::OkStatus();
          },
          [field](const Config& config) { return absl::StrCat(config.*field); }};
}

// From 0 to 1.
Setting Share(const char* name, double Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            double value = 0;
            if (!absl::SimpleAtod(text, &value) || !(value >= 0 && value <= 1))
              return Bad(text, "a share from 0 to 1 is");
            config->*field = value;
            return absl::OkStatus();
          },
          [field](const Config& config) { return absl::StrCat(config.*field); }};
}

Setting Mode(const char* name, uint64_t Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            std::string digits(text);
            char* end = nullptr;
            unsigned long value = std::strtoul(digits.c_str(), &end, 8);
            if (digits.empty() || *end != '\0' || value > 0777)
              return Bad(text, "octal digits as in 0660 are");
            config->*field = value;
            return absl::OkStatus();
          },
          [field](const Config& config) { return absl::StrFormat("\"%04o\"", config.*field); }};
}

Setting Bytes(const char* name, uint64_t Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            absl::string_view number = text;
            uint64_t unit = 1;
            const std::pair<const char*, int> units[] = {
                {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
            for (const auto& [suffix, shift] : units)
              if (absl::EndsWith(number, suffix)) {
                unit = uint64_t{1} << shift;
                number.remove_suffix(3);
                break;
              }
            uint64_t value = 0;
            if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(number), &value) ||
                value > (uint64_t{1} << 62) / unit)
              return Bad(text, "bytes are, as in 4096, 512MiB or 8GiB");
            config->*field = value * unit;
            return absl::OkStatus();
          },
          [field](const Config& config) {
            uint64_t value = config.*field;
            if (value != 0 && value % (1 << 30) == 0) return absl::StrCat(value >> 30, "GiB");
            if (value != 0 && value % (1 << 20) == 0) return absl::StrCat(value >> 20, "MiB");
            return absl::StrCat(value);
          }};
}

Setting Time(const char* name, absl::Duration Config::*field, const char* manual) {
  return {name, manual,
          [field](absl::string_view text, Config* config) {
            double seconds = 0;
            absl::Duration value;
            if (absl::SimpleAtod(text, &seconds))
              value = absl::Seconds(seconds);
            else if (!absl::ParseDuration(text, &value))
              return Bad(text, "a time is, as in 30s, 5m or 20us (a bare number means seconds)");
            if (value < absl::ZeroDuration()) return Bad(text, "a time of 0 or more is");
            config->*field = value;
            return absl::OkStatus();
          },
          [field](const Config& config) { return absl::FormatDuration(config.*field); }};
}

std::vector<Setting> MakeSettings() {
  std::vector<Setting> settings = {
      Text("listen", &Config::listen,
           "The Unix socket for gRPC, as unix:/absolute/path. The descriptor socket lies beside it "
           "(.fd is appended).\n"
           "Empty: /run/tessera/tesserad.sock if /run/tessera can be used, else "
           "$XDG_RUNTIME_DIR/tessera/tesserad.sock.\n"
           "Environment: TESSERA_LISTEN."),
      Text("tcp_listen", &Config::tcp_listen,
           "A TCP address for gRPC too, as host:port, or off. It is not encrypted and anybody who "
           "reaches it may launch."),
      Text("state_dir", &Config::state_dir,
           "Where the cache and tunings are kept. One daemon at a time uses it.\n"
           "Empty: /var/lib/tessera if it can be used, else $XDG_CACHE_HOME/tessera. Environment: "
           "TESSERA_STATE_DIR."),
      Text("socket_group", &Config::socket_group,
           "The group (name or number) whose members may connect, by the mode below. Empty: the "
           "daemon's own."),
      Mode("socket_mode", &Config::socket_mode, "Mode of both socket files, octal."),
      Text("metrics", &Config::metrics,
           "Where Prometheus finds the metrics (path /metrics), as host:port, or off. A port that "
           "is taken is a warning."),
      Text("log_level", &Config::log_level,
           "What is logged on stderr: trace, debug, info, warn, error, off."),
      Bytes("max_message_bytes", &Config::max_message_bytes,
            "The largest gRPC message accepted, bytes."),
      Text("default_device", &Config::default_device,
           "The device of requests that name none: cuda:0, cpu:0, interpreter. Empty: the first "
           "GPU that can be used, else cpu:0."),
      Time("kernel_limit", &Config::kernel_limit,
           "A launch that runs longer costs its executor process the life; it and all in flight "
           "fail. Seconds."),
      Time("launch_spin", &Config::launch_spin,
           "How long a unary launch keeps its thread to see a short kernel end without a wake-up. "
           "0s: never."),
      Time("socket_poll", &Config::socket_poll,
           "How long the thread that watches the sockets looks for the next request after a launch "
           "before it sleeps, where the daemon may use 8 cores or more. 0s: never."),
      Count("cpu_threads", &Config::cpu_threads, 4096, "Threads of the CPU device. 0: one a core."),
      Count("max_variants", &Config::max_variants, 1000000,
            "Compiled kernels loaded on devices at once; beyond it those unused longest are "
            "unloaded."),
      Count("workers", &Config::workers, 256,
            "Compiler processes. 0: half the cores, at least 1, at most 8."),
      Bytes("worker_memory_bytes", &Config::worker_memory_bytes,
            "Address space of a compiler process, bytes; a compile that needs more fails. 0: no "
            "limit."),
      Time("compile_limit", &Config::compile_limit,
           "A compile that takes longer is ended with DEADLINE_EXCEEDED, and its worker replaced. "
           "Seconds."),
      Time("remember_failures", &Config::remember_failures,
           "How long a kernel that does not compile is refused without trying again. Seconds."),
      Bytes("max_source_bytes", &Config::max_source_bytes,
            "The largest module accepted, bytes of source text."),
      Bytes("memory_cache_bytes", &Config::memory_cache_bytes,
            "Cache entries kept in memory before the disk, bytes."),
      Bytes("cache_bytes", &Config::cache_bytes,
            "What artifacts and modules may take on disk, bytes before compression. Beyond it the "
            "least useful go:\n"
            "quick to compile, seldom or long ago launched, large; never what is loaded or named by "
            "the manifest. 0: no limit."),
      Count("cache_entries_per_kernel", &Config::cache_entries_per_kernel, 1000000000,
            "Artifacts kept of one kernel. 0: no limit."),
      Flag("cache_import", &Config::cache_import,
           "Take bundles from clients of the Unix socket. A bundle holds machine code that nobody "
           "can check against its source."),
      Count("max_sessions", &Config::max_sessions, 1000000, "Client sessions at once."),
      Count("session_regions", &Config::session_regions, 1000000, "Memory regions of a session."),
      Bytes("session_bytes", &Config::session_bytes,
            "Bytes of all regions of a session. 0: no limit."),
      Count("session_launches", &Config::session_launches, 1000000,
            "Launches of a session in flight; more are refused with RESOURCE_EXHAUSTED."),
      Time("session_lease", &Config::session_lease,
           "A session without a descriptor socket ends when it is not used or renewed for so long. "
           "Seconds."),
      Flag("posix_shm", &Config::posix_shm,
           "Accept POSIX shm by name. It cannot be sealed: a client that truncates it fails its "
           "launches in flight."),
      Flag("memory_over_tcp", &Config::memory_over_tcp,
           "Let clients that come over TCP import and allocate memory."),
      Text("warmup_manifest", &Config::warmup_manifest,
           "A manifest (YAML) of kernels to compile at start. Health says SERVING when the "
           "required ones are done. Read again on SIGHUP. Empty: none."),
      OneOf("warmup_on_failure", &Config::warmup_on_failure, {"hold", "serve"},
            "When the manifest does not read or a required item of it fails: hold keeps health at "
            "NOT_SERVING until a\n"
            "reload succeeds (a rolling upgrade stops here; launches are still taken), serve says "
            "SERVING all the same."),
      OneOf("jit_monitor", &Config::jit_monitor, {"off", "warn", "error"},
            "What happens when a launch has to compile after the daemon is ready: off (it is "
            "counted), warn (and logged,\n"
            "with the manifest entry that would have covered it), error (it is refused with "
            "FAILED_PRECONDITION; what the\n"
            "cache has is still loaded)."),
      Text("tuning", &Config::tuning,
           "When autotuned kernels are tuned while they serve; launches never wait for it.\n"
           "fixed (never: the first configuration that fits), bucketed (all configurations, once "
           "for every bucket of\n"
           "shapes), candidates(N) (N configurations, once for every shape), exhaustive (all, once "
           "for every shape),\n"
           "amortised (what repays, when it repays). By kernel: tessera tunings policy."),
      Flag("tuning_frozen", &Config::tuning_frozen,
           "Use stored choices and measure nothing, so that every start runs the same code."),
      Share("tuning_device_share", &Config::tuning_device_share,
            "The share of a device's time that measurements may take while it serves, 0 to 1. An "
            "explicit tuning takes what it needs."),
      Time("tuning_latency_gpu", &Config::tuning_latency_gpu,
           "How long a measurement may hold up a launch on a GPU. Candidates that run longer are "
           "measured on a part of\n"
           "their grid, or when the GPU has been idle for a while."),
      Time("tuning_latency_cpu", &Config::tuning_latency_cpu,
           "Likewise on the CPU, where candidates also run at a lower priority than launches; they and "
           "compiles of\n"
           "candidates yield to what wakes up after a quarter of it. Parts of their grid are timed, so short "
           "that two fit into\n"
           "it, or an eighth of a launch, whichever is longer."),
      Count("tuning_latency_launches", &Config::tuning_latency_launches, 1000,
            "Where half of the latest launches on a device took longer than its bound above, so many of "
            "them are the bound:\n"
            "they wait for each other as long anyhow, and leave no idle time. 0: the bound holds for any "
            "launches."),
      Time("tuning_horizon", &Config::tuning_horizon,
           "amortised: how far ahead the rate of launches seen so far is trusted. Seconds."),
      Count("tuning_candidates", &Config::tuning_candidates, 100000,
            "Configurations measured for one bucket at most."),
      Count("tuning_workers", &Config::tuning_workers, 256,
            "Compiler processes for candidates, besides those for launches. 0: those for launches "
            "compile candidates, too."),
      Count("tuning_nice", &Config::tuning_nice, 19,
            "How far below the daemon's own the priority of those processes, and of candidates on a CPU, is, "
            "as nice(1)\n"
            "counts; 19: they run only when nothing else does (SCHED_IDLE)."),
      Time("tuning_kernel_limit", &Config::tuning_kernel_limit,
           "A candidate that runs longer is ended and rejected. Seconds."),
      Bytes(
          "tuning_scratch_bytes", &Config::tuning_scratch_bytes,
          "Memory for copies of a launch's buffers while its configurations are measured, bytes; half as "
          "much again for tunings that wait for their turn."),
      Time("drain_limit", &Config::drain_limit,
           "After SIGTERM, how long launches in flight may still run before the daemon ends. "
           "Seconds."),
  };
  return settings;
}

}  // namespace

const std::vector<Setting>& Settings() {
  static const auto* settings = new std::vector<Setting>(MakeSettings());
  return *settings;
}

const Setting* FindSetting(absl::string_view name) {
  for (const Setting& setting : Settings())
    if (name == setting.name) return &setting;
  return nullptr;
}

std::string SampleConfig() {
  std::string text =
      "# Settings of tesserad, all at their defaults. Point TESSERA_CONFIG or --config at a file "
      "like this one.\n"
      "# Flags (--state-dir=...) win over the environment, the environment over this file.\n";
  Config defaults;
  for (const Setting& setting : Settings()) {
    absl::StrAppend(&text, "\n");
    for (absl::string_view line : absl::StrSplit(setting.manual, '\n'))
      absl::StrAppend(&text, "# ", line, "\n");
    absl::StrAppend(&text, setting.name, ": ", setting.print(defaults), "\n");
  }
  return text;
}

std::string HelpText() {
  std::string text =
      "tesserad: compiles and serves fused kernels.\n\n"
      "  --config=FILE     settings from a YAML file (environment: TESSERA_CONFIG)\n"
      "  --print-config    print a file with all settings at their defaults\n\nSettings:\n";
  Config defaults;
  for (const Setting& setting : Settings()) {
    absl::StrAppend(&text, "  --", absl::StrReplaceAll(setting.name, {{"_", "-"}}), "=",
                    setting.print(defaults), "\n");
    for (absl::string_view line : absl::StrSplit(setting.manual, '\n'))
      absl::StrAppend(&text, "      ", line, "\n");
  }
  return text;
}

}  // namespace tessera::server
