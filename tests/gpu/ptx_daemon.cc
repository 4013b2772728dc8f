#include "tests/gpu/ptx_daemon.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "cache/store/memory/memory_store.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/fake_driver.h"
#include "runtime/cuda/test_kernels.h"
#include "runtime/executor/executor_client.h"
#include "runtime/executor/executor_process.h"
#include "server/compile/compile_backend.h"
#include "server/config/config.h"
#include "server/main/daemon.h"
#include "server/main/gpu_devices.h"
#include "spdlog/spdlog.h"

extern char** environ;

namespace tessera {
namespace {

constexpr const char* kKernels[] = {"add_one", "wait_flag", "spin", "fault", "report"};

absl::StatusOr<const runtime::CudaDriver*> Driver() {
  if (OnRealGpu()) return runtime::LoadCudaDriver();
  return runtime::FakeCudaDriver();
}

// Answers with the test kernels' PTX, whatever the source.
class PtxBackend : public server::CompileBackend {
 public:
  void Run(worker::WorkerRequest request, Callback done) override {
    worker::WorkerResponse response;
    if (request.has_describe()) {
      Describe(response.mutable_description());
    } else if (absl::Status status = Compile(request.compile(), response.mutable_artifact());
               !status.ok()) {
      return done(std::move(status));
    }
    done(std::move(response));
  }
  std::vector<server::BackendWorker> Workers() const override { return {}; }

 private:
  static void Describe(storage::ModuleDescription* module) {
    for (const char* name : kKernels) {
      storage::KernelDescription* kernel = module->add_kernels();
      kernel->set_name(name);
      kernel->set_is_kernel(true);
      kernel->set_closure(name);
      const storage::Artifact artifact = runtime::GpuTestKernel(name);
      for (const auto& parameter : artifact.metadata().parameters())
        kernel->add_parameters()->set_name(parameter.name());
      storage::ParameterDescription* tag = kernel->add_parameters();
      tag->set_name("TAG");
      tag->set_is_constexpr(true);
    }
  }
  static absl::Status Compile(const storage::CompileJob& job, storage::Artifact* artifact) {
    const bool guarded = job.options().extra().count("guarded") != 0;
    if (guarded && job.kernel() != "add_one")
      return absl::UnimplementedError("only add_one is there with its accesses checked");
    *artifact = runtime::GpuTestKernel(absl::StrCat(guarded ? "guarded_" : "", job.kernel()));
    artifact->mutable_metadata()->set_target(job.target());
    return absl::OkStatus();
  }
};

class NoOps : public server::OpCatalog {
 public:
  v1::ListOpsResponse List() const override { return {}; }
  absl::StatusOr<storage::SourceFile> Source(const std::string&) const override {
    return absl::NotFoundError("no ops here");
  }
  absl::StatusOr<v1::LaunchRequest> Plan(const v1::LaunchOpRequest&) const override {
    return absl::NotFoundError("no ops here");
  }
};

std::unique_ptr<server::DeviceTable> Devices(absl::Duration kernel_limit) {
  auto devices = std::make_unique<server::DeviceTable>();
  const worker::DeviceProbe probe = *runtime::ListGpus(**Driver());
  for (server::DeviceDescription& description : server::DescribeGpus(probe)) {
    runtime::ExecutorOptions options;
    options.command = {"/proc/self/exe", absl::StrCat("--gpu=", description.uuid())};
    options.device = description.name;
    options.concurrent = true;
    options.kill_after = kernel_limit;
    options.start_limit = absl::Seconds(30);
    devices->Add(std::move(description),
                 [options] { return runtime::ExecutorClient::Start(options); });
  }
  return devices;
}

[[noreturn]] void ServeAsDaemon(const std::vector<std::string>& flags) {
  auto config = server::LoadConfig(flags, server::ProcessEnvironment());
  TESSERA_CHECK(config.ok(), "the test's flags are right");
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  spdlog::set_level(spdlog::level::err);
  server::DaemonParts parts;
  parts.version = "test";
  parts.compiler_build = "ptx";
  parts.open_store = [] {
    return absl::StatusOr<std::unique_ptr<cache::CacheStore>>(cache::NewMemoryStore());
  };
  parts.backend = std::make_unique<PtxBackend>();
  parts.devices = Devices(config->kernel_limit);
  parts.ops = std::make_unique<NoOps>();
  auto daemon = server::Daemon::Start(*config, std::move(parts));
  if (!daemon.ok()) {
    std::fprintf(stderr, "the test's daemon: %s\n", daemon.status().ToString().c_str());
    _exit(1);
  }
  int signal = 0;
  sigwait(&ends, &signal);
  (*daemon)->Drain();
  _exit(0);
}

bool Answers(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

}  // namespace

bool OnRealGpu() { return std::getenv("TESSERA_TEST_GPU") != nullptr; }

const runtime::CudaDriver& ClientDriver() {
  absl::StatusOr<const runtime::CudaDriver*> driver = Driver();
  TESSERA_CHECK(driver.ok(), "this machine has a GPU");
  return **driver;
}

void ServePtxDaemonRoles(int argc, char** argv) {
  std::vector<std::string> flags(argv + 1, argv + argc);
  std::string gpu;
  int fd = -1;
  for (absl::string_view flag : flags) {
    if (absl::ConsumePrefix(&flag, "--gpu=")) gpu = std::string(flag);
    if (absl::ConsumePrefix(&flag, "--executor-fd=") && !absl::SimpleAtoi(flag, &fd)) fd = -1;
  }
  if (fd >= 0) {
    if (!runtime::BindToDaemon(fd).ok()) _exit(1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    runtime::ServeAsCudaExecutor(fd, Driver(), gpu);
  }
  if (!flags.empty() && flags[0] == "--ptx-daemon") ServeAsDaemon({flags.begin() + 1, flags.end()});
}

absl::StatusOr<std::unique_ptr<PtxDaemon>> PtxDaemon::Start(std::vector<std::string> flags) {
  std::unique_ptr<PtxDaemon> daemon(new PtxDaemon);
  char folder[] = "/tmp/tessera_gpu_XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::ErrnoToStatus(errno, "making a folder");
  daemon->folder_ = folder;
  daemon->address_ = absl::StrCat("unix:", folder, "/t.sock");
  std::vector<std::string> command = {"/proc/self/exe", "--ptx-daemon",
                                      absl::StrCat("--listen=", daemon->address_),
                                      absl::StrCat("--state-dir=", folder), "--metrics=off"};
  command.insert(command.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(&argument[0]);
  argv.push_back(nullptr);
  const int error = posix_spawn(&daemon->pid_, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) return absl::ErrnoToStatus(error, "starting the test's daemon");
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  while (!Answers(daemon->folder_ + "/t.sock.fd")) {
    if (absl::Now() > limit || waitpid(daemon->pid_, nullptr, WNOHANG) != 0)
      return absl::UnavailableError("the test's daemon does not start");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return daemon;
}

PtxDaemon::~PtxDaemon() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace tessera
