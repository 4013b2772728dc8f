// Launches on the way through a GPU: enqueued on their sessions' streams, and seen to end, without
// waiting for any of them.
//
// Every launch has a slot with two words of host memory: the GPU writes one when the launch begins
// (unless that is when the one before it ends) and one when it has ended. So looking for ends costs
// no driver call, and when a kernel has poisoned the context these words tell which launches were
// running.
//
// For one thread, which has the context current.
#ifndef TESSERA_RUNTIME_CUDA_LAUNCH_ENGINE_H_
#define TESSERA_RUNTIME_CUDA_LAUNCH_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/device_events.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/launch_reports.h"

namespace tessera::runtime {

// Launches with equal keys run in order.
struct StreamKey {
  uint64_t session = 0;
  uint32_t number = 0;
  int32_t priority = 0;  // 0 normal, more is sooner

  bool operator<(const StreamKey& other) const {
    return std::tie(session, number, priority) <
           std::tie(other.session, other.number, other.priority);
  }
};

struct DeviceCopy {
  CUdeviceptr to = 0, from = 0;
  uint64_t bytes = 0;
};

struct DeviceLaunch {
  uint64_t id = 0;
  StreamKey stream;
  std::vector<std::shared_ptr<DeviceEvent>> waits, signals;
  std::vector<std::shared_ptr<const DeviceRegion>> regions;  // to be kept mapped
  // One of: a kernel with its parameter slots (base/kernel_abi.h), a copy; else only the events.
  std::shared_ptr<DeviceKernel> kernel;
  uint32_t grid[3] = {1, 1, 1};
  std::vector<uint64_t> params;
  // Of a guarded kernel: the first address and the one behind the last of each pointer's buffer.
  std::vector<uint64_t> bounds;
  std::optional<DeviceCopy> copy;
  bool tell_enqueued = false;
};

struct FinishedLaunch {
  uint64_t id = 0;
  absl::Status status;
  uint64_t start_ns = 0, end_ns = 0;  // MonotonicNanos; their difference is the GPU's measurement
  std::string printed;
};

// Why nothing more can run in this process.
struct DeviceLoss {
  std::string reason;
  bool by_kernel = false;          // one of the suspects' kernels is at fault
  std::vector<uint64_t> suspects;  // launches that were running
};

struct LaunchEngineOptions {
  uint32_t launches = 256;           // on the GPU at once; more wait here
  uint32_t launches_of_stream = 64;  // so that one stream cannot fill the GPU's queues
  uint32_t streams = 64;             // kept; beyond it idle ones go
  uint32_t reports = 64;             // launches at once of kernels that report
  uint64_t kill_after_ns = 30ull * 1000 * 1000 * 1000;
};

class LaunchEngine {
 public:
  using OnEnqueued = std::function<void(uint64_t id)>;
  using OnFinished = std::function<void(FinishedLaunch)>;

  // `gpu` and `kernels` must outlive this object. The callbacks run inside Submit and Poll.
  static absl::StatusOr<std::unique_ptr<LaunchEngine>> Create(const GpuContext* gpu,
                                                              KernelTable* kernels,
                                                              LaunchEngineOptions options,
                                                              OnEnqueued on_enqueued,
                                                              OnFinished on_finished);
  ~LaunchEngine();  // abandons what runs

  // Enqueues it on its stream, now or when there is room.
  void Submit(DeviceLaunch launch);
  // Reports what has ended, and enqueues what waited for room.
  void Poll();
  // Whether Poll would find an end. Cheap: no driver call.
  bool SomethingEnded() const;
  // Set once the context is lost; the launches not reported yet never will be.
  const std::optional<DeviceLoss>& lost() const { return lost_; }

  bool idle() const { return on_device_ == 0 && held_.empty(); }
  uint32_t on_device() const { return on_device_; }
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  // For how long the launches that run have been running, the shortest of them.
  uint64_t ShortestAgeNs(uint64_t now_ns) const;

 private:
  // What the GPU writes to. One cache line a slot.
  struct alignas(64) Marks {
    std::atomic<uint32_t> begun;
    std::atomic<uint32_t> ended;
  };
  struct Slot {
    CUevent begin = nullptr, end = nullptr;  // for the time between them
  };
  struct Running {
    DeviceLaunch launch;
    uint32_t slot = 0;
    LaunchReports::Report report;  // of kernels that write one
    // Right behind another launch of its stream: it begins when that one ends, so it needs no event
    // and no mark of its own for that. The slot is kept until both have ended.
    std::optional<uint32_t> begins_with_end_of;
    bool slot_is_kept = false;  // by the launch behind it
  };
  struct Stream {
    CUstream stream = nullptr;
    std::deque<Running> running;       // in order
    std::deque<DeviceLaunch> waiting;  // for room on this stream
    uint64_t head_since_ns = 0;        // when running.front() became the first
    uint64_t last_use = 0;
  };

  LaunchEngine(const GpuContext* gpu, KernelTable* kernels, LaunchEngineOptions options,
               OnEnqueued on_enqueued, OnFinished on_finished)
      : gpu_(gpu),
        kernels_(kernels),
        options_(options),
        reports_(gpu, options.reports),
        on_enqueued_(std::move(on_enqueued)),
        on_finished_(std::move(on_finished)) {}
  absl::Status Prepare();

  // Each returns false when the launch must wait.
  bool TryStart(DeviceLaunch* launch);
  bool RoomFor(const DeviceLaunch& launch) const;
  absl::StatusOr<Stream*> StreamOf(const StreamKey& key);
  void DropIdleStream();
  void Start(Stream* stream, DeviceLaunch launch);
  CUresult Enqueue(Stream* stream, const Running& running, CUfunction function,
                   const char** attempt);
  CUresult EnqueueKernel(const Running& running, CUfunction function, CUstream stream);
  absl::Status AcquireKernel(Running* running, CUfunction* function);
  void ReadReport(const Running& running, FinishedLaunch* finished);
  void Finish(Stream* stream, uint64_t now_ns);
  void StartWaiting();
  bool Ended(const Running& running) const;
  void CheckDevice(uint64_t now_ns);
  void CheckAges(uint64_t now_ns);
  void Lose(CUresult result, const std::string& attempt);
  void ReleaseKernel(const Running& running);

  const GpuContext* const gpu_;
  KernelTable* const kernels_;
  const LaunchEngineOptions options_;
  LaunchReports reports_;
  const OnEnqueued on_enqueued_;
  const OnFinished on_finished_;

  Marks* marks_ = nullptr;  // host memory, options_.launches of them
  CUdeviceptr device_marks_ = 0;
  int least_priority_ = 0, greatest_priority_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::map<StreamKey, Stream> streams_;
  std::vector<Stream*> active_;    // with launches that run
  std::deque<DeviceLaunch> held_;  // for room on the GPU, in order
  uint32_t on_device_ = 0;
  uint32_t waiting_ = 0;  // in all streams
  bool alone_ = false;    // what runs is on probation
  uint64_t uses_ = 0;
  uint64_t checked_ns_ = 0;
  std::optional<DeviceLoss> lost_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_LAUNCH_ENGINE_H_
