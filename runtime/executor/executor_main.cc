#include "runtime/executor/executor_main.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/give_way.h"
#include "base/status_macros.h"
#include "proto/worker/worker.pb.h"
#include "runtime/executor/executor_process.h"
#include "runtime/executor/ring_records.h"
#include "runtime/memory/fault_guard.h"
#include "runtime/memory/region_table.h"
#include "runtime/ring/futex.h"
#include "runtime/ring/ring.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kPollNs = 5000;  // before the command thread sleeps
// The same while launches come one upon the other. A core that sleeps takes 10 to 30 us to wake up
// in a virtual machine, more than all else that a launch needs; this covers the time between two
// calls of one client that waits for each.
constexpr uint64_t kBusyPollNs = 400000;

// A loaded kernel and what is checked of its arguments.
struct Kernel {
  struct Parameter {
    std::string name;
    bool pointer = false;
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::unique_ptr<LoadedKernel> code;
};

// Collects device_print's output up to a bound. Thread-safe.
class PrintBuffer {
 public:
  explicit PrintBuffer(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  void Append(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t kept = std::min<uint64_t>(text.size(), max_bytes_ - text_.size());
    text_.append(text, 0, kept);
    dropped_ += text.size() - kept;
  }

  void MoveTo(RingCompletion* completion) {
    std::lock_guard<std::mutex> lock(mutex_);
    completion->printed = std::move(text_);
    completion->printed_dropped = std::exchange(dropped_, 0);
    text_.clear();
  }

 private:
  const uint64_t max_bytes_;
  std::mutex mutex_;
  std::string text_;
  uint64_t dropped_ = 0;
};

class Executor {
 public:
  explicit Executor(const LoaderFactory& loaders) : loaders_(loaders) {}

  absl::Status Handle(const worker::ExecutorRequest& request, std::vector<UniqueFd> descriptors);

 private:
  absl::Status Attach(const worker::Attach& request, std::vector<UniqueFd> descriptors);
  absl::Status MapRegion(const worker::MapRegion& request,
                         const std::vector<UniqueFd>& descriptors);
  absl::Status LoadKernel(const worker::LoadKernel& request);
  absl::StatusOr<KernelLoader*> LoaderFor(const std::string& target);

  [[noreturn]] void RunCommands();
  void Execute(const RingCommand& command);
  void RunLaunch(const RingCommand& command, RingCompletion* completion);
  // Runs what comes before the timed run, which launch_ is set to (LaunchCommand::part).
  absl::Status RunPart(const RingCommand& command, LoadedKernel* code);
  void RunCopy(const RingCommand& command, RingCompletion* completion);
  absl::Status ResolveParams(const RingCommand& command, const Kernel& kernel);
  absl::Status ResolveParam(const LaunchParam& param, const Kernel::Parameter& parameter);

  const LoaderFactory& loaders_;
  std::map<std::string, std::unique_ptr<KernelLoader>> loaders_by_target_;  // control thread only

  RegionTable regions_;
  std::mutex kernels_mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Kernel>> kernels_;

  ExecutorStatus* status_ = nullptr;  // shared; stays mapped
  std::unique_ptr<RingConsumer> commands_;
  std::unique_ptr<RingProducer> completions_;
  uint64_t max_completion_bytes_ = 0;
  std::unique_ptr<PrintBuffer> printed_;
  const std::atomic<bool> never_stop_{false};

  // Of the launch that runs, kept for their memory. Command thread only.
  Launch launch_;
  std::vector<std::shared_ptr<const MappedRegion>> used_regions_;
};

absl::Status Executor::Handle(const worker::ExecutorRequest& request,
                              std::vector<UniqueFd> descriptors) {
  if (request.work_case() == worker::ExecutorRequest::kAttach)
    return Attach(request.attach(), std::move(descriptors));
  if (status_ == nullptr) return absl::FailedPreconditionError("the first request must be Attach");
  switch (request.work_case()) {
    case worker::ExecutorRequest::kMapRegion:
      return MapRegion(request.map_region(), descriptors);
    case worker::ExecutorRequest::kLoadKernel:
      return LoadKernel(request.load_kernel());
    default:
      return absl::UnimplementedError("the executor does not know this request");
  }
}

absl::Status Executor::Attach(const worker::Attach& request, std::vector<UniqueFd> descriptors) {
  if (status_ != nullptr) return absl::FailedPreconditionError("attached already");
  ASSIGN_OR_RETURN(ExecutorChannel channel, AttachChannel(std::move(descriptors)));
  status_ = channel.status;
  commands_ = std::move(channel.commands);
  completions_ = std::move(channel.completions);
  max_completion_bytes_ = channel.max_completion_bytes;
  UseSignalStack();
  InstallFaultGuard(&status_->fault);
  printed_ = std::make_unique<PrintBuffer>(max_completion_bytes_);
  launch_.print = [this](const std::string& text) { printed_->Append(text); };
  prctl(PR_SET_NAME, absl::StrCat("exec ", request.device()).c_str());
  std::thread([this] { RunCommands(); }).detach();
  return absl::OkStatus();
}

absl::Status Executor::MapRegion(const worker::MapRegion& request,
                                 const std::vector<UniqueFd>& descriptors) {
  if (descriptors.size() != 1)
    return absl::InvalidArgumentError("MapRegion comes with one descriptor");
  return regions_.Add(request.region(), descriptors[0].get(), request.offset(), request.size(),
                      request.read_only());
}

absl::StatusOr<KernelLoader*> Executor::LoaderFor(const std::string& target) {
  std::unique_ptr<KernelLoader>& loader = loaders_by_target_[target];
  if (loader == nullptr) {
    ASSIGN_OR_RETURN(loader, loaders_(target));
  }
  return loader.get();
}

absl::Status Executor::LoadKernel(const worker::LoadKernel& request) {
  const storage::KernelMetadata& metadata = request.artifact().metadata();
  ASSIGN_OR_RETURN(KernelLoader* const loader, LoaderFor(metadata.target()));
  auto kernel = std::make_shared<Kernel>();
  kernel->name = metadata.kernel();
  for (const storage::EntryParameter& parameter : metadata.parameters()) {
    kernel->parameters.push_back(
        {parameter.name(), !parameter.type().empty() && parameter.type()[0] == '*'});
  }
  status_->loading_kernel.store(request.kernel());
  absl::StatusOr<std::unique_ptr<LoadedKernel>> code = loader->Load(request.artifact());
  status_->loading_kernel.store(0);
  if (!code.ok()) return code.status();
  kernel->code = *std::move(code);
  std::lock_guard<std::mutex> lock(kernels_mutex_);
  if (!kernels_.emplace(request.kernel(), std::move(kernel)).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("kernel ", request.kernel(), " is loaded already"));
  }
  return absl::OkStatus();
}

void Executor::RunCommands() {
  UseSignalStack();
  std::string record;
  RingCommand command;
  uint64_t poll_ns = kPollNs;
  for (;;) {
    const absl::StatusOr<bool> read = commands_->TryRead(&record);
    if (!read.ok()) Die(read.status());
    if (!*read) {
      const uint64_t before = MonotonicNanos();
      commands_->Wait(poll_ns, never_stop_);
      poll_ns = MonotonicNanos() - before < kBusyPollNs ? kBusyPollNs : kPollNs;
      continue;
    }
    const absl::Status decoded = DecodeCommand(record, &command);
    if (!decoded.ok()) Die(decoded);
    Execute(command);
  }
}

void Executor::Execute(const RingCommand& command) {
  if (command.kind == CommandKind::kUnmapRegion) return regions_.Remove(command.object);
  if (command.kind == CommandKind::kUnloadKernel) {
    std::shared_ptr<Kernel> unloaded;  // let go outside the lock
    std::lock_guard<std::mutex> lock(kernels_mutex_);
    auto found = kernels_.find(command.object);
    if (found == kernels_.end()) return;
    unloaded = std::move(found->second);
    kernels_.erase(found);
    return;
  }
  RingCompletion completion;
  completion.id = command.id;
  if (!command.waits.empty() || !command.signals.empty()) {
    completion.status = absl::UnimplementedError("this device has no CUDA events");
  } else if (command.kind == CommandKind::kCopy || command.kind == CommandKind::kLaunch) {
    GiveWay give_way;
    if (command.kind == CommandKind::kCopy)
      RunCopy(command, &completion);
    else
      RunLaunch(command, &completion);
  } else {
    return;  // events, which this device has none of
  }
  const std::string record = EncodeCompletion(completion, max_completion_bytes_);
  const absl::Status posted = completions_->Write({record}, never_stop_);
  if (!posted.ok()) Die(posted);
}

void Executor::RunLaunch(const RingCommand& command, RingCompletion* completion) {
  std::shared_ptr<Kernel> kernel;
  {
    std::lock_guard<std::mutex> lock(kernels_mutex_);
    auto found = kernels_.find(command.object);
    if (found != kernels_.end()) kernel = found->second;
  }
  if (kernel == nullptr) {
    completion->status =
        absl::NotFoundError(absl::StrCat("kernel ", command.object, " is not loaded"));
    return;
  }
  completion->status = ResolveParams(command, *kernel);
  if (completion->status.ok()) {
    std::copy(command.grid, command.grid + 3, launch_.grid);
    launch_.program_order_seed = command.program_order_seed;
    status_->running_launch.store(command.id, std::memory_order_relaxed);
    uint64_t processor_ns = 0;
    if (command.part > 0) {
      completion->status = RunPart(command, kernel->code.get());
      launch_.processor_ns = &processor_ns;
    }
    completion->start_ns = MonotonicNanos();
    if (completion->status.ok()) completion->status = kernel->code->Run(launch_);
    completion->end_ns = processor_ns > 0 ? completion->start_ns + processor_ns : MonotonicNanos();
    launch_.processor_ns = nullptr;
    launch_.first = launch_.last = 0;
    status_->running_launch.store(0, std::memory_order_relaxed);
    printed_->MoveTo(completion);
    for (const auto& region : used_regions_) {
      const absl::Status intact = region->CheckIntact();
      if (!intact.ok()) completion->status = intact;
    }
  }
  used_regions_.clear();
}

absl::Status Executor::RunPart(const RingCommand& command, LoadedKernel* code) {
  const uint64_t all = uint64_t{command.grid[0]} * command.grid[1] * command.grid[2];
  const uint64_t part = std::min(command.part, all);
  launch_.last = part;
  absl::Status status = code->Run(launch_);
  if (part > all - part) code->SweepCaches();
  launch_.first = std::min(part, all - part);
  launch_.last = launch_.first + part;
  return status;
}

void Executor::RunCopy(const RingCommand& command, RingCompletion* completion) {
  launch_.params.clear();
  launch_.extents.clear();
  completion->status = command.params.size() == 2
                           ? absl::OkStatus()
                           : absl::InvalidArgumentError("a copy has two places");
  for (size_t i = 0; i < command.params.size() && completion->status.ok(); ++i)
    completion->status = ResolveParam(command.params[i], {i == 0 ? "to" : "from", true});
  if (completion->status.ok() && (launch_.extents.size() != 2 || launch_.extents[0].read_only))
    completion->status =
        absl::InvalidArgumentError("a copy goes from a region into a writable one");
  if (completion->status.ok()) {
    status_->running_launch.store(command.id, std::memory_order_relaxed);
    completion->start_ns = MonotonicNanos();
    std::memmove(reinterpret_cast<void*>(launch_.params[0]),
                 reinterpret_cast<const void*>(launch_.params[1]), launch_.extents[0].bytes);
    completion->end_ns = MonotonicNanos();
    status_->running_launch.store(0, std::memory_order_relaxed);
    for (const auto& region : used_regions_) {
      const absl::Status intact = region->CheckIntact();
      if (!intact.ok()) completion->status = intact;
    }
  }
  used_regions_.clear();
}

absl::Status Executor::ResolveParams(const RingCommand& command, const Kernel& kernel) {
  launch_.params.clear();
  launch_.extents.clear();
  if (command.params.size() != kernel.parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", kernel.name, " takes ", kernel.parameters.size(),
                     " parameters, the launch has ", command.params.size()));
  }
  for (size_t i = 0; i < command.params.size(); ++i) {
    const Kernel::Parameter& parameter = kernel.parameters[i];
    const absl::Status status = ResolveParam(command.params[i], parameter);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("parameter '", parameter.name, "' of kernel ",
                                                      kernel.name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::ResolveParam(const LaunchParam& param, const Kernel::Parameter& parameter) {
  if (param.region == 0) {
    if (parameter.pointer && param.value != 0) {
      return absl::InvalidArgumentError("an address was given where a region is wanted");
    }
    launch_.params.push_back(param.value);
    return absl::OkStatus();
  }
  if (!parameter.pointer) return absl::InvalidArgumentError("a region was given for a scalar");
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedRegion> region, regions_.Find(param.region));
  RETURN_IF_ERROR(region->CheckIntact());
  ASSIGN_OR_RETURN(const uint64_t address, region->Resolve(param.value, param.extent_bytes));
  launch_.params.push_back(address);
  launch_.extents.push_back({address, param.extent_bytes, region->read_only, parameter.name});
  used_regions_.push_back(std::move(region));
  return absl::OkStatus();
}

}  // namespace

int RunExecutor(int control_fd, const LoaderFactory& loaders) {
  const absl::Status bound = BindToDaemon(control_fd);
  if (!bound.ok()) Die(bound);
  Executor executor(loaders);
  ServeRequests(control_fd,
                [&](const worker::ExecutorRequest& request, std::vector<UniqueFd> descriptors,
                    worker::ExecutorResponse*, std::vector<UniqueFd>*) {
                  return executor.Handle(request, std::move(descriptors));
                });
}

}  // namespace tessera::runtime
