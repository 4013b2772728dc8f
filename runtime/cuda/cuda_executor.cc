#include "runtime/cuda/cuda_executor.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/cuda/device_events.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/launch_engine.h"
#include "runtime/executor/executor_process.h"
#include "runtime/executor/ring_records.h"
#include "runtime/memory/fault_guard.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

// How long the launch thread looks for work before it sleeps: with nothing on the GPU, and while
// launches come one upon the other (a core that sleeps takes 10 to 30 us to wake up).
constexpr uint64_t kPollNs = 5000;
constexpr uint64_t kBusyPollNs = 400000;
// A launch that runs longer than this is looked at now and then instead of all the time: after a
// sixteenth of its age, so that its end is seen at most that much late.
constexpr uint64_t kWatchNs = 200000;
constexpr uint64_t kMinSleepNs = 20000;
constexpr uint64_t kMaxSleepNs = 1000000;
// Launches that run alone before a suspect is trusted again.
constexpr uint32_t kProbationLaunches = 8;
// Below this share of the GPU's memory, idle modules go.
constexpr uint64_t kShortOfMemoryShare = 50;

class CudaExecutor {
 public:
  CudaExecutor(absl::StatusOr<const CudaDriver*> driver, std::string uuid, int poll_us)
      : driver_(std::move(driver)),
        uuid_(std::move(uuid)),
        busy_poll_ns_(poll_us > 0 ? 1000 * static_cast<uint64_t>(poll_us) : kBusyPollNs) {}

  absl::Status Handle(const worker::ExecutorRequest& request, std::vector<UniqueFd> descriptors,
                      worker::ExecutorResponse* response, std::vector<UniqueFd>* attach);

 private:
  absl::Status Attach(const worker::Attach& request, std::vector<UniqueFd> descriptors);
  absl::Status LoadKernel(const worker::LoadKernel& request);
  absl::Status FillStats(worker::DeviceStats* stats);

  // Launch thread.
  [[noreturn]] void RunCommands();
  bool TakeCommands();
  void Await();
  void Execute(const RingCommand& command);
  absl::Status Resolve(const RingCommand& command, DeviceLaunch* launch);
  absl::Status ResolveKernel(const RingCommand& command, DeviceLaunch* launch);
  absl::Status ResolveCopy(const RingCommand& command, DeviceLaunch* launch);
  absl::Status ResolveParam(const LaunchParam& param, const DeviceKernel::Parameter& parameter,
                            DeviceLaunch* launch);
  void Post(const RingCompletion& completion);
  [[noreturn]] void EndLost(const DeviceLoss& loss);

  const absl::StatusOr<const CudaDriver*> driver_;
  const std::string uuid_;
  ExecutorChannel channel_;
  std::unique_ptr<GpuContext> gpu_;
  std::unique_ptr<KernelTable> kernels_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<DeviceEvents> events_;
  std::unique_ptr<LaunchEngine> engine_;  // of the launch thread
  bool shared_by_mps_ = false;
  // What the control thread may know of the engine.
  std::atomic<uint32_t> streams_{0}, on_device_{0};

  const std::atomic<bool> never_stop_{false};
  std::string record_;   // for its memory
  RingCommand command_;  // likewise
  const uint64_t busy_poll_ns_;
  uint64_t idle_poll_ns_ = kPollNs;
  uint64_t last_command_ns_ = 0;
};

absl::Status CudaExecutor::Handle(const worker::ExecutorRequest& request,
                                  std::vector<UniqueFd> descriptors,
                                  worker::ExecutorResponse* response,
                                  std::vector<UniqueFd>* attach) {
  if (request.work_case() == worker::ExecutorRequest::kAttach)
    return Attach(request.attach(), std::move(descriptors));
  if (gpu_ == nullptr) return absl::FailedPreconditionError("the first request must be Attach");
  switch (request.work_case()) {
    case worker::ExecutorRequest::kMapRegion: {
      const worker::MapRegion& map = request.map_region();
      if (descriptors.size() != 1)
        return absl::InvalidArgumentError("MapRegion comes with one descriptor");
      return memory_->MapHost(map.region(), descriptors[0].get(), map.offset(), map.size(),
                              map.read_only());
    }
    case worker::ExecutorRequest::kMapDeviceMemory: {
      ASSIGN_OR_RETURN(MappedDeviceMemory mapped,
                       memory_->Map(request.map_device_memory(), descriptors));
      response->set_size(mapped.bytes);
      response->set_handle_bytes(mapped.handle_bytes);
      if (mapped.exported.open()) attach->push_back(std::move(mapped.exported));
      return absl::OkStatus();
    }
    case worker::ExecutorRequest::kImportEvent:
      return events_->Import(request.import_event());
    case worker::ExecutorRequest::kLoadKernel:
      return LoadKernel(request.load_kernel());
    case worker::ExecutorRequest::kGetDeviceStats:
      return FillStats(response->mutable_stats());
    default:
      return absl::UnimplementedError("the executor does not know this request");
  }
}

absl::Status CudaExecutor::Attach(const worker::Attach& request,
                                  std::vector<UniqueFd> descriptors) {
  if (gpu_ != nullptr) return absl::FailedPreconditionError("attached already");
  RETURN_IF_ERROR(driver_.status());
  ASSIGN_OR_RETURN(channel_, AttachChannel(std::move(descriptors)));
  UseSignalStack();
  InstallFaultGuard(&channel_.status->fault);
  ASSIGN_OR_RETURN(gpu_, GpuContext::Create(*driver_, uuid_));
  shared_by_mps_ = gpu_->Attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED) != 0;
  kernels_ = std::make_unique<KernelTable>(gpu_.get());
  memory_ =
      std::make_unique<DeviceMemory>(gpu_.get(), [this] { return kernels_->UnloadIdle() > 0; });
  events_ = std::make_unique<DeviceEvents>(gpu_.get());
  LaunchEngineOptions options;
  if (request.kill_after_ns() > 0) options.kill_after_ns = request.kill_after_ns();
  ASSIGN_OR_RETURN(engine_, LaunchEngine::Create(
                                gpu_.get(), kernels_.get(), options,
                                [this](uint64_t id) {
                                  RingCompletion told;
                                  told.id = id;
                                  told.enqueued = true;
                                  Post(told);
                                },
                                [this](FinishedLaunch finished) {
                                  RingCompletion completion;
                                  completion.id = finished.id;
                                  completion.status = std::move(finished.status);
                                  completion.start_ns = finished.start_ns;
                                  completion.end_ns = finished.end_ns;
                                  completion.printed = std::move(finished.printed);
                                  Post(completion);
                                }));
  prctl(PR_SET_NAME, absl::StrCat("exec ", request.device()).c_str());
  std::thread([this] { RunCommands(); }).detach();
  return absl::OkStatus();
}

absl::Status CudaExecutor::LoadKernel(const worker::LoadKernel& request) {
  channel_.status->loading_kernel.store(request.kernel());
  absl::StatusOr<std::shared_ptr<DeviceKernel>> kernel =
      kernels_->Load(request.kernel(), request.artifact());
  channel_.status->loading_kernel.store(0);
  if (kernel.ok() && request.on_probation()) (*kernel)->on_probation = kProbationLaunches;
  return kernel.status();
}

absl::Status CudaExecutor::FillStats(worker::DeviceStats* stats) {
  size_t free = 0, total = 0;
  if (gpu_->driver().cuMemGetInfo(&free, &total) == CUDA_SUCCESS) {
    stats->set_memory_bytes(total);
    stats->set_memory_free_bytes(free);
    if (free < total / kShortOfMemoryShare) kernels_->UnloadIdle();
  }
  stats->set_streams(streams_.load(std::memory_order_relaxed));
  stats->set_launches_on_device(on_device_.load(std::memory_order_relaxed));
  stats->set_modules_loaded(kernels_->loaded());
  stats->set_modules_unloaded(kernels_->unloaded());
  stats->set_handles_open(memory_->handles_open());
  stats->set_events_open(events_->open());
  return absl::OkStatus();
}

// ---- The launch thread.

void CudaExecutor::RunCommands() {
  pthread_setname_np(pthread_self(), "exec-launch");
  UseSignalStack();
  gpu_->MakeCurrent();
  for (;;) {
    const bool taken = TakeCommands();
    engine_->Poll();
    if (engine_->lost()) EndLost(*engine_->lost());
    on_device_.store(engine_->on_device(), std::memory_order_relaxed);
    streams_.store(engine_->streams(), std::memory_order_relaxed);
    if (!taken) Await();
  }
}

// A few at a time, so that ends are seen between them.
bool CudaExecutor::TakeCommands() {
  constexpr int kBatch = 8;
  for (int i = 0; i < kBatch; ++i) {
    const absl::StatusOr<bool> read = channel_.commands->TryRead(&record_);
    if (!read.ok()) Die(read.status());
    if (!*read) return i > 0;
    const absl::Status decoded = DecodeCommand(record_, &command_);
    if (!decoded.ok()) Die(decoded);
    Execute(command_);
    last_command_ns_ = MonotonicNanos();
  }
  return true;
}

void CudaExecutor::Await() {
  RingConsumer& ring = *channel_.commands;
  if (engine_->idle()) {
    const uint64_t before = MonotonicNanos();
    ring.Wait(idle_poll_ns_, never_stop_);
    idle_poll_ns_ = MonotonicNanos() - before < busy_poll_ns_ ? busy_poll_ns_ : kPollNs;
    return;
  }
  const uint64_t now = MonotonicNanos();
  const uint64_t age = engine_->ShortestAgeNs(now);
  if (age < kWatchNs || now - last_command_ns_ < kBusyPollNs) {
    // Short, for Poll must ask the driver now and then whether the context still lives.
    PollFor(kMinSleepNs, [&] { return ring.Readable() || engine_->SomethingEnded(); });
    return;
  }
  ring.Wait(0, never_stop_, std::min(std::max(age / 16, kMinSleepNs), kMaxSleepNs));
}

void CudaExecutor::Execute(const RingCommand& command) {
  switch (command.kind) {
    case CommandKind::kUnmapRegion:
      return memory_->Remove(command.object);
    case CommandKind::kUnloadKernel:
      return kernels_->Remove(command.object);
    case CommandKind::kReleaseEvent:
      return events_->Remove(command.object);
    case CommandKind::kLaunch:
    case CommandKind::kCopy:
      break;
  }
  DeviceLaunch launch;
  launch.id = command.id;
  launch.stream = {command.session, command.stream, command.priority};
  absl::Status status = Resolve(command, &launch);
  if (!status.ok()) {
    RingCompletion completion;
    completion.id = command.id;
    completion.status = std::move(status);
    return Post(completion);
  }
  launch.tell_enqueued = command.tell_enqueued;
  engine_->Submit(std::move(launch));
}

absl::Status CudaExecutor::Resolve(const RingCommand& command, DeviceLaunch* launch) {
  for (uint64_t id : command.waits) {
    ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> event, events_->Find(id));
    launch->waits.push_back(std::move(event));
  }
  for (uint64_t id : command.signals) {
    ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> event, events_->Find(id));
    launch->signals.push_back(std::move(event));
  }
  if (command.kind == CommandKind::kLaunch) return ResolveKernel(command, launch);
  if (command.kind == CommandKind::kCopy) return ResolveCopy(command, launch);
  return absl::OkStatus();
}

absl::Status CudaExecutor::ResolveKernel(const RingCommand& command, DeviceLaunch* launch) {
  launch->kernel = kernels_->Find(command.object);
  if (launch->kernel == nullptr)
    return absl::NotFoundError(absl::StrCat("kernel ", command.object, " is not loaded"));
  const DeviceKernel& kernel = *launch->kernel;
  if (command.params.size() != kernel.parameters.size())
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", kernel.name, " takes ", kernel.parameters.size(),
                     " parameters, the launch has ", command.params.size()));
  std::copy(command.grid, command.grid + 3, launch->grid);
  launch->params.reserve(command.params.size());
  for (size_t i = 0; i < command.params.size(); ++i) {
    const absl::Status status = ResolveParam(command.params[i], kernel.parameters[i], launch);
    if (!status.ok())
      return absl::Status(status.code(),
                          absl::StrCat("parameter '", kernel.parameters[i].name, "' of kernel ",
                                       kernel.name, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::ResolveParam(const LaunchParam& param,
                                        const DeviceKernel::Parameter& parameter,
                                        DeviceLaunch* launch) {
  if (param.region == 0) {
    if (parameter.pointer && param.value != 0)
      return absl::InvalidArgumentError("an address was given where a region is wanted");
    launch->params.push_back(param.value);
    if (parameter.pointer && launch->kernel->guarded) launch->bounds.insert(launch->bounds.end(), 2, 0);
    return absl::OkStatus();
  }
  if (!parameter.pointer) return absl::InvalidArgumentError("a region was given for a scalar");
  ASSIGN_OR_RETURN(std::shared_ptr<const DeviceRegion> region, memory_->Find(param.region));
  ASSIGN_OR_RETURN(const uint64_t address, region->Resolve(param.value, param.extent_bytes));
  launch->params.push_back(address);
  if (launch->kernel->guarded) {
    launch->bounds.push_back(address);
    launch->bounds.push_back(address + param.extent_bytes);
  }
  launch->regions.push_back(std::move(region));
  return absl::OkStatus();
}

absl::Status CudaExecutor::ResolveCopy(const RingCommand& command, DeviceLaunch* launch) {
  if (command.params.size() != 2) return absl::InvalidArgumentError("a copy has two places");
  DeviceCopy copy;
  for (size_t i = 0; i < 2; ++i) {
    const LaunchParam& place = command.params[i];
    ASSIGN_OR_RETURN(std::shared_ptr<const DeviceRegion> region, memory_->Find(place.region));
    ASSIGN_OR_RETURN(const uint64_t address, region->Resolve(place.value, place.extent_bytes));
    if (i == 0 && region->read_only)
      return absl::InvalidArgumentError("a copy goes into a writable region");
    (i == 0 ? copy.to : copy.from) = address;
    copy.bytes = place.extent_bytes;
    launch->regions.push_back(std::move(region));
  }
  launch->copy = copy;
  return absl::OkStatus();
}

void CudaExecutor::Post(const RingCompletion& completion) {
  const std::string record = EncodeCompletion(completion, channel_.max_completion_bytes);
  const absl::Status posted = channel_.completions->Write({record}, never_stop_);
  if (!posted.ok()) Die(posted);
}

void CudaExecutor::EndLost(const DeviceLoss& loss) {
  ExecutorStatus* status = channel_.status;
  const size_t kept =
      std::min(loss.suspects.size(), static_cast<size_t>(ExecutorStatus::kMaxSuspects));
  for (size_t i = 0; i < kept; ++i) status->suspects[i].store(loss.suspects[i]);
  status->num_suspects.store(static_cast<uint32_t>(kept));
  status->by_kernel.store(loss.by_kernel ? 1 : 0);
  // Under MPS another process's fault looks just like one of our own.
  status->certain.store(loss.by_kernel && !shared_by_mps_ ? 1 : 0);
  const size_t bytes = std::min(loss.reason.size(), sizeof(status->reason) - 1);
  std::memcpy(status->reason, loss.reason.data(), bytes);
  status->reason[bytes] = '\0';
  status->lost.store(1);
  Die(absl::UnavailableError(loss.reason));
}

}  // namespace

void ServeAsCudaExecutor(int control_fd, absl::StatusOr<const CudaDriver*> driver,
                         const std::string& gpu_uuid, int poll_us) {
  // Never destroyed: its launch thread runs until the process ends.
  auto* executor = new CudaExecutor(std::move(driver), gpu_uuid, poll_us);
  ServeRequests(
      control_fd,
      [executor](const worker::ExecutorRequest& request, std::vector<UniqueFd> descriptors,
                 worker::ExecutorResponse* response, std::vector<UniqueFd>* attach) {
        return executor->Handle(request, std::move(descriptors), response, attach);
      });
}

}  // namespace tessera::runtime
