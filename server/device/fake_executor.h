// An executor for tests: remembers what it was told, finishes launches at once or when the test
// says.
#ifndef TESSERA_SERVER_DEVICE_FAKE_EXECUTOR_H_
#define TESSERA_SERVER_DEVICE_FAKE_EXECUTOR_H_

#include <sys/mman.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor/executor_client.h"

namespace tessera::server {

struct FakeExecutorLog {
  struct SubmittedLaunch {
    uint64_t kernel = 0;
    uint32_t grid[3] = {0, 0, 0};
    std::vector<runtime::LaunchParam> params;
    uint64_t session = 0;
    uint32_t stream = 0;
    int32_t priority = 0;
    std::vector<uint64_t> waits, signals;
    std::function<void()> on_enqueued;
  };
  std::mutex mutex;
  std::map<uint64_t, uint64_t> regions;                     // id -> size
  std::map<uint64_t, runtime::DeviceMemorySource> sources;  // of those that are device memory
  absl::Status map_status;                                  // what MapDeviceMemory answers
  std::map<uint64_t, std::string> events;                   // id -> handle
  std::vector<runtime::CopyCommand> copies;
  std::map<uint64_t, std::string> kernels;  // id -> kernel name
  std::vector<SubmittedLaunch> launches;
  std::vector<runtime::ExecutorClient::DoneCallback> held;
  bool hold = false;                                      // keep launches in `held`
  absl::Status launch_status;                             // what launches end with
  std::function<double(uint64_t kernel)> kernel_seconds;  // default: 1e-6
};

class FakeExecutor : public runtime::ExecutorClient {
 public:
  explicit FakeExecutor(FakeExecutorLog* log) : log_(log) {}

  absl::Status MapRegion(uint64_t region, int, uint64_t, uint64_t size, bool) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->regions[region] = size;
    return absl::OkStatus();
  }
  absl::StatusOr<runtime::DeviceMemoryInfo> MapDeviceMemory(
      uint64_t region, const runtime::DeviceMemorySource& source) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    if (!log_->map_status.ok()) return log_->map_status;
    runtime::DeviceMemoryInfo info;
    info.size = source.allocate != 0 ? source.allocate : source.size != 0 ? source.size : 1 << 16;
    if (source.allocate != 0) {
      info.handle_bytes = (source.allocate + 4095) / 4096 * 4096;
      info.exported = runtime::UniqueFd(memfd_create("device", MFD_CLOEXEC));
    }
    log_->regions[region] = info.size;
    log_->sources[region] = source;
    return info;
  }
  absl::Status ImportEvent(uint64_t event, const std::string& handle, const std::string&) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->events[event] = handle;
    return absl::OkStatus();
  }
  void ReleaseEvent(uint64_t event) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->events.erase(event);
  }
  absl::StatusOr<worker::DeviceStats> Stats() override {
    return absl::UnimplementedError("a simulated device");
  }
  void Copy(const runtime::CopyCommand& command, DoneCallback done) override {
    {
      std::lock_guard<std::mutex> lock(log_->mutex);
      log_->copies.push_back(command);
    }
    done({});
  }
  void UnmapRegion(uint64_t region) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->regions.erase(region);
  }
  absl::Status LoadKernel(uint64_t kernel, const storage::Artifact& artifact) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->kernels[kernel] = artifact.metadata().kernel();
    return absl::OkStatus();
  }
  void UnloadKernel(uint64_t kernel) override {
    std::lock_guard<std::mutex> lock(log_->mutex);
    log_->kernels.erase(kernel);
  }
  void Submit(const runtime::LaunchCommand& command, absl::Duration, DoneCallback done) override {
    runtime::LaunchResult result;
    {
      std::lock_guard<std::mutex> lock(log_->mutex);
      FakeExecutorLog::SubmittedLaunch launch;
      launch.kernel = command.kernel;
      for (int i = 0; i < 3; ++i) launch.grid[i] = command.grid[i];
      launch.params.assign(command.params, command.params + command.num_params);
      launch.session = command.session;
      launch.stream = command.stream;
      launch.priority = command.priority;
      launch.waits.assign(command.waits.begin(), command.waits.end());
      launch.signals.assign(command.signals.begin(), command.signals.end());
      launch.on_enqueued = command.on_enqueued;
      log_->launches.push_back(std::move(launch));
      if (log_->hold) {
        log_->held.push_back(std::move(done));
        return;
      }
      result.status = log_->launch_status;
      result.kernel_seconds = log_->kernel_seconds ? log_->kernel_seconds(command.kernel) : 1e-6;
    }
    done(std::move(result));
  }
  pid_t pid() const override { return 1; }
  uint32_t restarts() const override { return 0; }
  uint32_t in_flight() const override { return 0; }
  std::vector<uint64_t> quarantined() const override { return {}; }

 private:
  FakeExecutorLog* log_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_DEVICE_FAKE_EXECUTOR_H_
