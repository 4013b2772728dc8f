#include "server/main/gpu_devices.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_role.h"
#include "runtime/cuda/driver_location.h"
#include "runtime/memory/unique_fd.h"
#include "spdlog/spdlog.h"

extern char** environ;

namespace tessera::server {
namespace {

// A driver that has to wake several GPUs from power-down takes some seconds.
constexpr std::chrono::seconds kProbeLimit(30);

worker::DeviceProbe Problem(const std::string& text) {
  worker::DeviceProbe probe;
  probe.set_problem(text);
  return probe;
}

// Reads until the end, or until the time is up.
bool ReadAll(int fd, std::string* text) {
  const auto limit = std::chrono::steady_clock::now() + kProbeLimit;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        limit - std::chrono::steady_clock::now());
    pollfd waited = {fd, POLLIN, 0};
    if (left.count() <= 0 || poll(&waited, 1, static_cast<int>(left.count())) == 0) return false;
    char buffer[4096];
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got == 0) return true;
    if (got > 0) text->append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return false;
  }
}

}  // namespace

worker::DeviceProbe ProbeGpusInChild(const std::string& binary) {
  if (!runtime::CudaIsBuiltIn()) return runtime::ProbeGpus();
  if (!runtime::LibcudaIsInstalled()) return Problem("no CUDA driver is installed");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Problem("no pipe for a probe of the GPUs");
  runtime::UniqueFd reader(ends[0]), writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  std::string path = binary, role = "--role=probe";
  char* argv[] = {&path[0], &role[0], nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  writer.reset();
  if (error != 0) return Problem("a probe of the GPUs does not start");
  std::string text;
  const bool whole = ReadAll(reader.get(), &text);
  if (!whole) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return Problem("the CUDA driver did not answer in time");
  worker::DeviceProbe probe;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !probe.ParseFromString(text))
    return Problem("the CUDA driver ended the process that asked for GPUs");
  return probe;
}

std::string GpuTarget(int major, int minor) {
  if (major < 8) return "";
  // From Hopper on, matrix instructions are of one architecture alone.
  return absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
}

std::vector<DeviceDescription> DescribeGpus(const worker::DeviceProbe& probe) {
  std::vector<DeviceDescription> devices;
  for (int i = 0; i < probe.gpus_size(); ++i) {
    const worker::DeviceProbe::Gpu& gpu = probe.gpus(i);
    DeviceDescription device;
    device.name = absl::StrCat("cuda:", i);
    device.target = GpuTarget(gpu.compute_major(), gpu.compute_minor());
    device.model = gpu.name();
    device.gpu = gpu;
    device.driver_version = probe.driver_version();
    device.one_of_several = probe.gpus_size() > 1;
    if (device.target.empty()) {
      spdlog::warn("{} ({}) has compute capability {}.{}; 8.0 and later are used", device.name,
                   gpu.name(), gpu.compute_major(), gpu.compute_minor());
      continue;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace tessera::server
