// The devices of this daemon and their executors.
#ifndef TESSERA_SERVER_DEVICE_DEVICE_TABLE_H_
#define TESSERA_SERVER_DEVICE_DEVICE_TABLE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/worker/worker.pb.h"
#include "runtime/executor/executor_client.h"
#include "server/device/measurement_gate.h"

namespace tessera::server {

struct DeviceDescription {
  std::string name;          // "cpu:0", "interpreter"
  std::string target;        // of the compiler: "cpu", "interpreter"
  std::string cpu_features;  // of CompileJob, for target "cpu"
  std::string model;         // tunings belong to a model: the CPU's name
  uint32_t threads = 0;
  // Of a GPU alone.
  worker::DeviceProbe::Gpu gpu;
  int driver_version = 0;       // as CUDA counts: 13000
  bool one_of_several = false;  // GPUs of this daemon

  bool is_gpu() const { return !gpu.uuid().empty(); }
  const std::string& uuid() const { return gpu.uuid(); }
};

// Thread-safe.
class Device {
 public:
  using Starter = std::function<absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>>()>;

  Device(DeviceDescription description, int index, Starter starter)
      : description_(std::move(description)), index_(index), starter_(std::move(starter)) {}

  const std::string& name() const { return description_.name; }
  const DeviceDescription& description() const { return description_; }
  int index() const { return index_; }  // from 0, below 32

  // The executor if it has been started, else null. Does not block.
  runtime::ExecutorClient* started() const { return executor_.load(std::memory_order_acquire); }
  // Starts the executor if it is not; blocks until it answers. A failed start is tried again by the
  // next caller.
  absl::StatusOr<runtime::ExecutorClient*> Start();

  // Launches of clients and measurements of the tuner take turns.
  MeasurementGate* gate() const { return &gate_; }
  // The same device with an executor of its own, which maps no memory of clients: where candidates
  // of the tuner run. Null: there is none.
  Device* tuning() const { return tuning_; }

  // What its executor last said about a GPU. Does not block.
  worker::DeviceStats stats() const {
    std::lock_guard<std::mutex> lock(stats_mutex_);
    return stats_;
  }
  // Asks the executor, if it is started. Blocks.
  void RefreshStats();

 private:
  friend class DeviceTable;
  const DeviceDescription description_;
  const int index_;
  mutable MeasurementGate gate_;
  Device* tuning_ = nullptr;
  const Starter starter_;
  std::mutex starting_;
  std::unique_ptr<runtime::ExecutorClient> owned_;
  std::atomic<runtime::ExecutorClient*> executor_{nullptr};
  mutable std::mutex stats_mutex_;
  worker::DeviceStats stats_;
};

class DeviceTable {
 public:
  // The first device added is the default one.
  Device* Add(DeviceDescription description, Device::Starter starter);
  // Gives a device its `tuning()`. It is not found by name and not in all(). After the last Add.
  void AddTuning(Device* device, Device::Starter starter);

  // "" is the default device; "cpu" is "cpu:0"; a GPU is also found by its UUID ("cuda:GPU-..." or
  // "GPU-..."). INVALID_ARGUMENT lists what there is.
  absl::StatusOr<Device*> Find(absl::string_view name) const;
  const std::vector<std::unique_ptr<Device>>& all() const { return devices_; }

 private:
  std::vector<std::unique_ptr<Device>> devices_, tuning_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_DEVICE_DEVICE_TABLE_H_
