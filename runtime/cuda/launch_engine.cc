#include "runtime/cuda/launch_engine.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

// A lost context shows in no mark; the driver is asked this often while something runs.
constexpr uint64_t kDeviceCheckNs = 50000;

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchEngine>> LaunchEngine::Create(const GpuContext* gpu,
                                                                   KernelTable* kernels,
                                                                   LaunchEngineOptions options,
                                                                   OnEnqueued on_enqueued,
                                                                   OnFinished on_finished) {
  std::unique_ptr<LaunchEngine> engine(
      new LaunchEngine(gpu, kernels, options, std::move(on_enqueued), std::move(on_finished)));
  RETURN_IF_ERROR(engine->Prepare());
  return engine;
}

absl::Status LaunchEngine::Prepare() {
  const CudaDriver& driver = gpu_->driver();
  const size_t bytes = sizeof(Marks) * options_.launches;
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(driver, driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP),
                       "allocating host memory for launches");
  marks_ = static_cast<Marks*>(memory);
  for (uint32_t i = 0; i < options_.launches; ++i) new (&marks_[i]) Marks();
  RETURN_IF_CUDA_ERROR(driver, driver.cuMemHostGetDevicePointer(&device_marks_, memory, 0),
                       "mapping host memory for launches");
  RETURN_IF_CUDA_ERROR(driver,
                       driver.cuCtxGetStreamPriorityRange(&least_priority_, &greatest_priority_),
                       "asking for the priorities of streams");
  slots_.resize(options_.launches);
  for (uint32_t i = 0; i < options_.launches; ++i) {
    RETURN_IF_CUDA_ERROR(driver, driver.cuEventCreate(&slots_[i].begin, CU_EVENT_DEFAULT),
                         "creating an event");
    RETURN_IF_CUDA_ERROR(driver, driver.cuEventCreate(&slots_[i].end, CU_EVENT_DEFAULT),
                         "creating an event");
    free_slots_.push_back(options_.launches - 1 - i);
  }
  return absl::OkStatus();
}

LaunchEngine::~LaunchEngine() {
  const CudaDriver& driver = gpu_->driver();
  for (auto& entry : streams_) {
    driver.cuStreamSynchronize(entry.second.stream);
    for (Running& running : entry.second.running) ReleaseKernel(running);
    driver.cuStreamDestroy(entry.second.stream);
  }
  for (Slot& slot : slots_) {
    if (slot.begin != nullptr) driver.cuEventDestroy(slot.begin);
    if (slot.end != nullptr) driver.cuEventDestroy(slot.end);
  }
  if (marks_ != nullptr) driver.cuMemFreeHost(marks_);
}

// ---- Starting.

void LaunchEngine::Submit(DeviceLaunch launch) {
  if (lost_) return;
  if (held_.empty() && TryStart(&launch)) return;
  held_.push_back(std::move(launch));
}

bool LaunchEngine::RoomFor(const DeviceLaunch& launch) const {
  if (alone_ || free_slots_.empty()) return false;
  if (launch.kernel != nullptr && !launch.kernel->report_messages.empty() && !reports_.available())
    return false;
  return launch.kernel == nullptr || launch.kernel->on_probation.load() == 0 ||
         (on_device_ == 0 && waiting_ == 0);
}

bool LaunchEngine::TryStart(DeviceLaunch* launch) {
  if (!RoomFor(*launch)) return false;
  absl::StatusOr<Stream*> stream = StreamOf(launch->stream);
  if (!stream.ok()) {
    FinishedLaunch finished;
    finished.id = launch->id;
    finished.status = stream.status();
    on_finished_(std::move(finished));
    return true;
  }
  if (!(*stream)->waiting.empty() || (*stream)->running.size() >= options_.launches_of_stream) {
    (*stream)->waiting.push_back(std::move(*launch));
    ++waiting_;
    return true;
  }
  Start(*stream, std::move(*launch));
  return true;
}

absl::StatusOr<LaunchEngine::Stream*> LaunchEngine::StreamOf(const StreamKey& key) {
  Stream& stream = streams_[key];
  stream.last_use = ++uses_;
  if (stream.stream != nullptr) return &stream;
  if (streams_.size() > options_.streams) DropIdleStream();
  // Higher priorities are smaller numbers.
  const int priority = std::max(greatest_priority_, std::min(least_priority_, -key.priority));
  const CUresult made =
      gpu_->driver().cuStreamCreateWithPriority(&stream.stream, CU_STREAM_NON_BLOCKING, priority);
  if (made == CUDA_SUCCESS) return &stream;
  streams_.erase(key);
  if (PoisonsContext(made)) Lose(made, "creating a stream");
  return CudaStatus(gpu_->driver(), made, "creating a stream");
}

void LaunchEngine::DropIdleStream() {
  auto oldest = streams_.end();
  for (auto it = streams_.begin(); it != streams_.end(); ++it) {
    const Stream& stream = it->second;
    if (stream.stream == nullptr || !stream.running.empty() || !stream.waiting.empty()) continue;
    if (oldest == streams_.end() || stream.last_use < oldest->second.last_use) oldest = it;
  }
  if (oldest == streams_.end()) return;
  gpu_->driver().cuStreamDestroy(oldest->second.stream);
  streams_.erase(oldest);
}

void LaunchEngine::Start(Stream* stream, DeviceLaunch launch) {
  CUfunction function = nullptr;
  FinishedLaunch failed;
  failed.id = launch.id;
  Running running;
  running.launch = std::move(launch);
  running.slot = free_slots_.back();
  failed.status = AcquireKernel(&running, &function);
  if (!failed.status.ok()) return on_finished_(std::move(failed));
  if (!stream->running.empty() && running.launch.waits.empty())
    running.begins_with_end_of = stream->running.back().slot;
  marks_[running.slot].begun.store(running.begins_with_end_of ? 1 : 0, std::memory_order_relaxed);
  marks_[running.slot].ended.store(0, std::memory_order_release);
  const char* attempt = "";
  const CUresult result = Enqueue(stream, running, function, &attempt);
  const bool poisoned = PoisonsContext(result);
  if (result != CUDA_SUCCESS && !poisoned) {
    failed.status = CudaStatus(gpu_->driver(), result, attempt);
    ReleaseKernel(running);
    return on_finished_(std::move(failed));
  }
  free_slots_.pop_back();
  if (running.begins_with_end_of) stream->running.back().slot_is_kept = true;
  const DeviceKernel* kernel = running.launch.kernel.get();
  alone_ = kernel != nullptr && kernel->on_probation.load() > 0;
  if (stream->running.empty()) {
    stream->head_since_ns = MonotonicNanos();
    active_.push_back(stream);
  }
  stream->running.push_back(std::move(running));
  ++on_device_;
  if (poisoned) Lose(result, attempt);
}

absl::Status LaunchEngine::AcquireKernel(Running* running, CUfunction* function) {
  DeviceKernel* kernel = running->launch.kernel.get();
  if (kernel == nullptr) return absl::OkStatus();
  if (!kernel->report_messages.empty()) {
    ASSIGN_OR_RETURN(running->report, reports_.Acquire());
  }
  absl::StatusOr<CUfunction> acquired = kernels_->Acquire(kernel);
  if (acquired.ok()) {
    *function = *acquired;
  } else if (running->report.host != nullptr) {
    reports_.Release(running->report);
  }
  return acquired.status();
}

CUresult LaunchEngine::Enqueue(Stream* stream, const Running& running, CUfunction function,
                               const char** attempt) {
  const CudaDriver& driver = gpu_->driver();
  const DeviceLaunch& launch = running.launch;
  const uint32_t slot = running.slot;
  const CUdeviceptr marks = device_marks_ + slot * sizeof(Marks);
  CUresult result = CUDA_SUCCESS;
  auto step = [&](CUresult done, const char* what) {
    result = done;
    *attempt = what;
    return done == CUDA_SUCCESS;
  };
  for (const auto& event : launch.waits)
    if (!step(driver.cuStreamWaitEvent(stream->stream, event->event(), 0), "waiting for an event"))
      return result;
  if (!running.begins_with_end_of &&
      (!step(driver.cuStreamWriteValue32(stream->stream, marks, 1, CU_STREAM_WRITE_VALUE_DEFAULT),
             "marking the launch's begin") ||
       !step(driver.cuEventRecord(slots_[slot].begin, stream->stream), "recording an event")))
    return result;
  if (launch.kernel != nullptr &&
      !step(EnqueueKernel(running, function, stream->stream), "launching the kernel"))
    return result;
  if (launch.copy && !step(driver.cuMemcpyAsync(launch.copy->to, launch.copy->from,
                                                launch.copy->bytes, stream->stream),
                           "copying memory"))
    return result;
  for (const auto& event : launch.signals)
    if (!step(driver.cuEventRecord(event->event(), stream->stream), "signalling an event"))
      return result;
  // The client may go on: what follows is for us, and the stream keeps its order.
  if (launch.tell_enqueued) on_enqueued_(launch.id);
  if (step(driver.cuEventRecord(slots_[slot].end, stream->stream), "recording an event"))
    step(driver.cuStreamWriteValue32(stream->stream, marks + offsetof(Marks, ended), 1,
                                     CU_STREAM_WRITE_VALUE_DEFAULT),
         "marking the launch's end");
  return result;
}

CUresult LaunchEngine::EnqueueKernel(const Running& running, CUfunction function, CUstream stream) {
  const DeviceLaunch& launch = running.launch;
  const DeviceKernel& kernel = *launch.kernel;
  uint64_t report = running.report.device;
  std::vector<void*> params;
  params.reserve(launch.params.size() + launch.bounds.size() + 1);
  // The driver reads as many bytes of each slot as the parameter has.
  for (const uint64_t& slot : launch.params) params.push_back(const_cast<uint64_t*>(&slot));
  for (const uint64_t& bound : launch.bounds) params.push_back(const_cast<uint64_t*>(&bound));
  params.push_back(&report);
  if (kernel.cluster_blocks == 1)
    return gpu_->driver().cuLaunchKernel(function, launch.grid[0], launch.grid[1], launch.grid[2],
                                         kernel.threads, 1, 1, kernel.shared_bytes, stream,
                                         params.data(), nullptr);
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {kernel.cluster_blocks, 1, 1};
  CUlaunchConfig config = {};
  config.gridDimX = launch.grid[0] * kernel.cluster_blocks;
  config.gridDimY = launch.grid[1];
  config.gridDimZ = launch.grid[2];
  config.blockDimX = kernel.threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = kernel.shared_bytes;
  config.hStream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return gpu_->driver().cuLaunchKernelEx(&config, function, params.data(), nullptr);
}

// ---- Ends.

bool LaunchEngine::Ended(const Running& running) const {
  return marks_[running.slot].ended.load(std::memory_order_acquire) != 0;
}

bool LaunchEngine::SomethingEnded() const {
  for (const Stream* stream : active_)
    if (Ended(stream->running.front())) return true;
  return false;
}

uint64_t LaunchEngine::ShortestAgeNs(uint64_t now_ns) const {
  uint64_t shortest = ~uint64_t{0};
  for (const Stream* stream : active_)
    shortest = std::min(shortest, now_ns - std::min(now_ns, stream->head_since_ns));
  return active_.empty() ? 0 : shortest;
}

void LaunchEngine::Poll() {
  if (lost_) return;
  const uint64_t now = MonotonicNanos();
  bool ended = false;
  for (Stream* stream : active_)
    while (!stream->running.empty() && Ended(stream->running.front())) {
      Finish(stream, now);
      ended = true;
      if (lost_) return;
    }
  if (ended) {
    active_.erase(std::remove_if(active_.begin(), active_.end(),
                                 [](const Stream* stream) { return stream->running.empty(); }),
                  active_.end());
    StartWaiting();
  } else if (on_device_ > 0 && now - checked_ns_ >= kDeviceCheckNs) {
    checked_ns_ = now;
    CheckDevice(now);
  }
}

void LaunchEngine::Finish(Stream* stream, uint64_t now_ns) {
  Running running = std::move(stream->running.front());
  stream->running.pop_front();
  stream->head_since_ns = now_ns;
  --on_device_;
  alone_ = false;
  FinishedLaunch finished;
  finished.id = running.launch.id;
  float milliseconds = 0;
  const CUevent begin = running.begins_with_end_of ? slots_[*running.begins_with_end_of].end
                                                   : slots_[running.slot].begin;
  const CUresult timed =
      gpu_->driver().cuEventElapsedTime(&milliseconds, begin, slots_[running.slot].end);
  if (PoisonsContext(timed)) {
    // This launch is over; another one was it. It is put back to fail with the rest: nobody can say
    // any more that its results are whole.
    stream->running.push_front(std::move(running));
    ++on_device_;
    return Lose(timed, "measuring a launch");
  }
  finished.end_ns = now_ns;
  finished.start_ns =
      now_ns - (timed == CUDA_SUCCESS ? static_cast<uint64_t>(milliseconds * 1e6) : 0);
  if (!running.slot_is_kept) free_slots_.push_back(running.slot);
  if (running.begins_with_end_of) free_slots_.push_back(*running.begins_with_end_of);
  if (running.launch.kernel != nullptr && running.launch.kernel->on_probation.load() > 0)
    --running.launch.kernel->on_probation;
  ReadReport(running, &finished);
  ReleaseKernel(running);
  on_finished_(std::move(finished));
}

// Streams first, for their launches came before those that are held.
void LaunchEngine::StartWaiting() {
  for (auto& entry : streams_) {
    Stream& stream = entry.second;
    while (!lost_ && !stream.waiting.empty() && !free_slots_.empty() && !alone_ &&
           stream.running.size() < options_.launches_of_stream) {
      // One on probation starts when it is alone.
      const DeviceKernel* next = stream.waiting.front().kernel.get();
      if (next != nullptr && next->on_probation.load() > 0 && on_device_ > 0) break;
      if (next != nullptr && !next->report_messages.empty() && !reports_.available()) break;
      DeviceLaunch launch = std::move(stream.waiting.front());
      stream.waiting.pop_front();
      --waiting_;
      Start(&stream, std::move(launch));
    }
  }
  while (!lost_ && !held_.empty() && RoomFor(held_.front())) {
    DeviceLaunch launch = std::move(held_.front());
    held_.pop_front();
    TryStart(&launch);
  }
}

void LaunchEngine::ReadReport(const Running& running, FinishedLaunch* finished) {
  if (running.report.host == nullptr) return;
  const DeviceKernel& kernel = *running.launch.kernel;
  const GpuLaunchReport& report = *running.report.host;
  finished->status = StatusOfReport(report, kernel.report_messages, kernel.name);
  if (report.prints > 0) finished->printed = PrintedText(report, kernel.report_messages);
}

void LaunchEngine::ReleaseKernel(const Running& running) {
  if (running.launch.kernel == nullptr) return;
  kernels_->Release(running.launch.kernel.get());
  if (running.report.host != nullptr) reports_.Release(running.report);
}

// ---- Loss.

void LaunchEngine::CheckDevice(uint64_t now_ns) {
  const CUresult result = gpu_->driver().cuStreamQuery(active_.front()->stream);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return Lose(result, "");
  CheckAges(now_ns);
}

void LaunchEngine::CheckAges(uint64_t now_ns) {
  for (const Stream* stream : active_) {
    if (now_ns - std::min(now_ns, stream->head_since_ns) <= options_.kill_after_ns) continue;
    const Running& head = stream->running.front();
    const bool begun = marks_[head.slot].begun.load(std::memory_order_acquire) != 0;
    DeviceLoss loss;
    loss.reason = absl::StrCat(
        begun ? "a launch ran longer than " : "a launch waited for its events longer than ",
        options_.kill_after_ns / 1000000, " ms");
    loss.suspects.push_back(head.launch.id);
    lost_ = std::move(loss);
    return;
  }
}

void LaunchEngine::Lose(CUresult result, const std::string& attempt) {
  if (lost_) return;
  DeviceLoss loss;
  loss.reason =
      absl::StrCat(attempt, attempt.empty() ? "" : ": ", CudaErrorText(gpu_->driver(), result));
  loss.by_kernel = IsKernelFault(result);
  for (const Stream* stream : active_) {
    for (const Running& running : stream->running) {
      if (Ended(running)) continue;
      if (marks_[running.slot].begun.load(std::memory_order_acquire) != 0)
        loss.suspects.push_back(running.launch.id);
      break;  // the others of this stream had to wait for it
    }
  }
  lost_ = std::move(loss);
}

}  // namespace tessera::runtime
