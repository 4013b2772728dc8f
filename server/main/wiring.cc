#include "server/main/wiring.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/layer/best_effort_store.h"
#include "cache/layer/hot_entries_store.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "compiler/driver/driver.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/executor/executor_client.h"
#include "server/compile/worker_pool.h"
#include "server/config/config.h"
#include "server/config/settings.h"
#include "server/main/daemon.h"
#include "server/main/gpu_devices.h"
#include "server/main/library_catalog.h"
#include "server/telemetry/logging.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

constexpr char kVersion[] = "0.1.0";
// Of a GPU's tuning executor: longer than the pause between two measurements. One processor is busy while a tuning lasts.
constexpr char kTuningPoll[] = "--poll-us=20000";
// More often, and there would be time for little else.
constexpr absl::Duration kShortestGiveWay = absl::Microseconds(50);
// Compiles that run when nothing else does may last that much longer.
constexpr int kBackgroundPatience = 5;
// Opening the driver and making a context, on a machine that is busy.
constexpr absl::Duration kGpuStartLimit = absl::Seconds(30);

// This binary, for its children. By name, so that people see it in ps; unless it was replaced on
// disk meanwhile.
std::string OwnBinary() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  struct stat named, running;
  if (length > 0) {
    path[length] = '\0';
    if (stat(path, &named) == 0 && stat("/proc/self/exe", &running) == 0 &&
        named.st_ino == running.st_ino && named.st_dev == running.st_dev)
      return path;
  }
  return "/proc/self/exe";
}

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line))
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "cpu";
}

int WorkerCount(const Config& config) {
  if (config.workers > 0) return static_cast<int>(config.workers);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8);
}

absl::StatusOr<std::unique_ptr<cache::CacheStore>> OpenStore(const Config& config) {
  cache::RocksdbStoreOptions options;
  options.compiler_build = compiler::CompilerBuild();
  options.note = [](absl::string_view note) { spdlog::warn("cache: {}", std::string(note)); };
  absl::StatusOr<std::unique_ptr<cache::CacheStore>> disk =
      cache::OpenRocksdbStore(config.state_dir, options);
  if (!disk.ok()) return disk.status();
  return cache::NewHotEntriesStore(
      cache::NewBestEffortStore(*std::move(disk),
                                [](absl::string_view attempt, const absl::Status& failure) {
                                  spdlog::warn("cache: {}: {}", std::string(attempt),
                                               failure.ToString());
                                }),
      config.memory_cache_bytes);
}

std::function<void(const absl::Status& reason)> LogDeath(const std::string& device, bool tuning) {
  return [device, tuning](const absl::Status& reason) {
    // Candidates are expected to fail; the tuner names them.
    spdlog::log(tuning ? spdlog::level::info : spdlog::level::err, "the {}executor of {} is replaced: {}",
                tuning ? "tuning " : "", device, std::string(reason.message()));
  };
}

// A part of the bound: a launch may meet several threads that compute in the background.
std::string GiveWayFlag(const Config& config) {
  return absl::StrCat("--give-way-us=", absl::ToInt64Microseconds(std::max(
                                            config.tuning_latency_cpu / 4, kShortestGiveWay)));
}

std::unique_ptr<DeviceTable> MakeDevices(const Config& config, const std::string& binary) {
  uint32_t threads = static_cast<uint32_t>(config.cpu_threads);
  if (threads == 0) threads = static_cast<uint32_t>(runtime::DefaultCpuThreads());
  auto starter = [&](const std::string& device, bool tuning) {
    runtime::ExecutorOptions options;
    options.command = {binary, "--role=executor", absl::StrCat("--threads=", threads)};
    if (tuning) {
      options.command.push_back(absl::StrCat("--nice=", config.tuning_nice));
      options.command.push_back(GiveWayFlag(config));
      options.command.push_back("--one-to-a-core=1");
    }
    options.device = device;
    options.kill_after = tuning ? config.tuning_kernel_limit : config.kernel_limit;
    options.on_death = LogDeath(device, tuning);
    return [options] { return runtime::ExecutorClient::Start(options); };
  };
  auto gpu_starter = [&](const DeviceDescription& gpu, bool tuning) {
    runtime::ExecutorOptions options;
    options.command = {binary, "--role=cuda-executor", absl::StrCat("--gpu=", gpu.uuid())};
    // Launches of clients are held up meanwhile: no sleep between measurements.
    if (tuning) options.command.push_back(kTuningPoll);
    options.device = gpu.name;
    options.kill_after = tuning ? config.tuning_kernel_limit : config.kernel_limit;
    options.concurrent = true;
    options.start_limit = kGpuStartLimit;
    options.on_death = LogDeath(gpu.name, tuning);
    return [options] { return runtime::ExecutorClient::Start(options); };
  };
  std::string model = CpuModel();
  worker::DeviceProbe probe = ProbeGpusInChild(binary);
  std::vector<DeviceDescription> descriptions = DescribeGpus(probe);
  if (descriptions.empty())
    spdlog::info("no GPU: {}", probe.problem());
  for (const DeviceDescription& gpu : descriptions)
    spdlog::info("{}: {} {}, {}, shared by {}", gpu.name, gpu.model, gpu.uuid(), gpu.target,
                 gpu.gpu.sharing());
  descriptions.push_back({"cpu:0", "cpu", compiler::HostCpuFeatures(), model, threads});
  descriptions.push_back(
      {"interpreter", "interpreter", "", absl::StrCat("interpreter on ", model), 1});
  // The default device comes first: the first GPU, else the CPU, unless another one is wanted.
  std::stable_sort(descriptions.begin(), descriptions.end(), [&](const auto& a, const auto& b) {
    return (a.name == config.default_device) > (b.name == config.default_device);
  });
  auto devices = std::make_unique<DeviceTable>();
  for (DeviceDescription& description : descriptions) {
    Device::Starter start = description.is_gpu()
                                ? Device::Starter(gpu_starter(description, false))
                                : Device::Starter(starter(description.name, false));
    devices->Add(std::move(description), std::move(start));
  }
  for (const std::unique_ptr<Device>& device : devices->all()) {
    const DeviceDescription& description = device->description();
    if (description.is_gpu())
      devices->AddTuning(device.get(), gpu_starter(description, true));
    else if (description.target != "interpreter")  // whose times say nothing
      devices->AddTuning(device.get(), starter(description.name, true));
  }
  return devices;
}

DaemonParts Wire(const Config& config) {
  std::string binary = OwnBinary();
  DaemonParts parts;
  parts.version = kVersion;
  parts.compiler_build = compiler::CompilerBuild();
  parts.open_store = [config] { return OpenStore(config); };
  WorkerPoolOptions workers;
  workers.command = {binary, "--role=worker"};
  workers.background_command = {binary, "--role=worker",
                                absl::StrCat("--nice=", config.tuning_nice), GiveWayFlag(config)};
  workers.background_workers = static_cast<int>(config.tuning_workers);
  workers.workers = WorkerCount(config);
  workers.memory_bytes = config.worker_memory_bytes;
  workers.job_limit = config.compile_limit;
  workers.background_job_limit = kBackgroundPatience * config.compile_limit;
  parts.backend = std::make_unique<WorkerPool>(workers);
  parts.devices = MakeDevices(config, binary);
  parts.ops = std::make_unique<LibraryCatalog>();
  return parts;
}

void RaiseDescriptorLimit() {
  // Every region costs descriptors, here and in the executors.
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Complain(const absl::Status& status, int exit_status) {
  std::fprintf(stderr, "tesserad: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

}  // namespace

int RunDaemon(const std::vector<std::string>& arguments) {
  absl::StatusOr<Config> config = LoadConfig(arguments, ProcessEnvironment());
  if (!config.ok()) return Complain(config.status(), 2);
  if (config->print_help || config->print_config) {
    std::fputs((config->print_help ? HelpText() : SampleConfig()).c_str(), stdout);
    return 0;
  }
  if (absl::Status logging = SetUpLogging(config->log_level); !logging.ok())
    return Complain(logging, 2);
  // Blocked before any thread starts, so that every thread inherits it and sigwait below gets them
  // all.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP);  // reads the manifest again
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(*config, Wire(*config));
  if (!daemon.ok()) {
    spdlog::error("could not start: {}", std::string(daemon.status().message()));
    // 2: the settings are at fault, and another try will not help.
    return absl::IsInvalidArgument(daemon.status()) || absl::IsPermissionDenied(daemon.status()) ? 2
                                                                                                 : 1;
  }
  int signal_number = 0;
  while (sigwait(&ends, &signal_number) == 0 && signal_number == SIGHUP) {
    spdlog::info("signal {}: reading the manifest again", signal_number);
    (*daemon)->Reload();
  }
  spdlog::info("signal {}", signal_number);
  // A second signal ends at once.
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  (*daemon)->Drain();
  return 0;
}

}  // namespace tessera::server
