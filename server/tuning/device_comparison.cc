#include "server/tuning/device_comparison.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "runtime/memory/shared_memory.h"
#include "server/tuning/host_window.h"
#include "server/tuning/kernels.inc"  // kComparisonSource

namespace tessera::server {
namespace {

constexpr int64_t kFloatBlock = 1024, kWordBlock = 1024, kByteBlock = 4096;
// Enough to keep the memory of a large GPU busy.
constexpr uint64_t kPrograms = 1024;
constexpr uint64_t kSums = 3;  // that a program leaves
// Longer than the compiles take on a busy machine; after it the host compares.
constexpr absl::Duration kPatience = absl::Seconds(30);
// Registering costs a twentieth of a second, once.
constexpr absl::Duration kRegistration = absl::Seconds(2);

int64_t BlockOf(const ComparedRange& range) {
  return range.floats ? kFloatBlock : range.words ? kWordBlock : kByteBlock;
}

absl::string_view DtypeOf(const ComparedRange& range) {
  return range.floats ? ShortName(*range.floats) : range.words ? "i64" : "u8";
}

uint64_t ProgramsOf(const ComparedRange& range) {
  const uint64_t block = static_cast<uint64_t>(BlockOf(range));
  return std::clamp((range.end - range.begin + block - 1) / block, uint64_t{1}, kPrograms);
}

void AddTensor(const char* name, absl::string_view dtype, const RegionPlace& place,
               api::LaunchRequest* launch) {
  api::Argument* argument = launch->add_arguments();
  argument->set_name(name);
  argument->mutable_tensor()->set_region(place.region->id());
  argument->mutable_tensor()->set_byte_offset(place.offset);
  argument->mutable_tensor()->set_dtype(std::string(dtype));
}

void AddInteger(const char* name, uint64_t value, api::LaunchRequest* launch) {
  api::Argument* argument = launch->add_arguments();
  argument->set_name(name);
  argument->set_integer(static_cast<int64_t>(value));
  argument->set_type("i64");
}

void AddReal(const char* name, double value, api::LaunchRequest* launch) {
  api::Argument* argument = launch->add_arguments();
  argument->set_name(name);
  argument->set_real(value);
  argument->set_type("fp64");
}

api::LaunchRequest ToLaunch(const ComparedRange& range, const Session& session,
                            const RegionPlace& sums) {
  api::LaunchRequest launch;
  launch.set_session(session.token());
  launch.set_kernel(range.floats ? "compare_floats" : "compare_bits");
  launch.add_grid(ProgramsOf(range));
  const absl::string_view dtype = DtypeOf(range);
  AddTensor("want_ptr", dtype, range.want, &launch);
  AddTensor("got_ptr", dtype, range.got, &launch);
  AddTensor("sums_ptr", "fp64", sums, &launch);
  AddInteger("begin", range.begin, &launch);
  AddInteger("end", range.end, &launch);
  if (range.floats) {
    AddReal("tolerance", ToleranceOf(*range.floats).element, &launch);
    AddReal("root_mean_square", range.root_mean_square, &launch);
  }
  api::Argument* block = launch.add_arguments();
  block->set_name("BLOCK");
  block->mutable_constant()->set_integer(BlockOf(range));
  return launch;
}

}  // namespace

// Shared with the launches that make the kernels ready, which may end after everybody has lost
// interest.
struct DeviceComparison::Preparation {
  std::vector<api::LaunchRequest> launches;
  std::vector<api::LaunchResponse> responses;
  std::string module;        // once `ready`
  std::promise<void> begun;  // the compiles
  std::atomic<size_t> left{0};
  absl::Mutex mutex;
  absl::Status status;
  std::promise<absl::Status> ended;
  std::future<absl::Status> ready = ended.get_future();
  std::optional<absl::Status> told;  // what `ready` said

  void EndOne(const absl::Status& one) {
    absl::Status all;
    {
      absl::MutexLock lock(&mutex);
      status.Update(one);
      all = status;
    }
    if (left.fetch_sub(1) == 1) ended.set_value(all);
  }
};

bool DeviceComparison::Covers(DType dtype) {
  return dtype == DType::kFp16 || dtype == DType::kBf16 || dtype == DType::kFp32 ||
         dtype == DType::kFp64;
}

absl::StatusOr<std::unique_ptr<DeviceComparison>> DeviceComparison::Create(
    Parts parts, Session* session, Device* device, const std::vector<ComparedRange>& ranges) {
  std::unique_ptr<DeviceComparison> made(new DeviceComparison(parts, session, device));
  made->max_ranges_ = ranges.size();
  const uint64_t bytes = std::max<uint64_t>(ranges.size(), 1) * kPrograms * kSums * sizeof(double);
  ASSIGN_OR_RETURN(runtime::UniqueFd fd, runtime::CreateSealedMemory("tessera-tuner", bytes));
  RegionDescription description;
  description.size = bytes;
  description.kind = "allocated";
  made->sums_ = parts.sessions->MakeRegion(std::move(description), std::move(fd));
  RETURN_IF_ERROR(made->sums_->EnsureMapped(device));
  RETURN_IF_ERROR(session->AddRegion(made->sums_));

  auto preparation = std::make_shared<Preparation>();
  made->preparation_ = preparation;
  std::vector<absl::string_view> seen;
  for (const ComparedRange& range : ranges) {
    if (std::find(seen.begin(), seen.end(), DtypeOf(range)) != seen.end()) continue;
    seen.push_back(DtypeOf(range));
    preparation->launches.push_back(ToLaunch(range, *session, {made->sums_, 0}));
  }
  preparation->responses.resize(preparation->launches.size());
  preparation->left = preparation->launches.size();
  LaunchWait wait = made->Wait();
  wait.prepare_only = true;
  storage::SourceFile source;
  source.set_path("tessera/comparison.py");
  source.set_text(kComparisonSource);
  parts.modules->Register(
      {source}, kPatience,
      [preparation, wait,
       launcher = parts.launcher](absl::StatusOr<std::shared_ptr<const Module>> module) {
        if (!module.ok() || preparation->launches.empty()) {
          preparation->ended.set_value(module.status());
          preparation->begun.set_value();
          return;
        }
        preparation->module = (*module)->id;
        for (size_t i = 0; i < preparation->launches.size(); ++i) {
          preparation->launches[i].set_module((*module)->id);
          launcher->Launch(preparation->launches[i], wait, &preparation->responses[i],
                           [preparation](absl::Status status) { preparation->EndOne(status); });
        }
        preparation->begun.set_value();
      });
  // So that they stand before the candidates' in the queue: the first of those needs them.
  preparation->begun.get_future().wait_for(absl::ToChronoNanoseconds(kRegistration));
  return made;
}

LaunchWait DeviceComparison::Wait() const {
  LaunchWait wait;
  wait.timeout = kPatience;
  wait.may_compile = true;
  wait.is_traffic = false;
  wait.background = parts_.background;
  wait.tuning_device = device_;
  return wait;
}

absl::Status DeviceComparison::AwaitPreparation() {
  std::optional<absl::Status>& told = preparation_->told;
  if (!told) {
    const bool in_time = preparation_->ready.wait_for(absl::ToChronoNanoseconds(kPatience)) ==
                         std::future_status::ready;
    told = in_time
               ? preparation_->ready.get()
               : absl::DeadlineExceededError("compiling the kernels that compare took too long");
  }
  return *told;
}

absl::StatusOr<std::vector<DifferenceSums>> DeviceComparison::Run(
    const std::vector<ComparedRange>& ranges) {
  if (ranges.size() > max_ranges_) return absl::InternalError("more ranges than were prepared for");
  RETURN_IF_ERROR(AwaitPreparation());
  struct Pending {
    api::LaunchResponse response;
    std::promise<absl::Status> ended;
  };
  const LaunchWait wait = Wait();
  // All on their way before the first is waited for.
  constexpr uint64_t kRangeBytes = kPrograms * kSums * sizeof(double);
  std::vector<std::future<absl::Status>> running;
  for (size_t i = 0; i < ranges.size(); ++i) {
    api::LaunchRequest launch = ToLaunch(ranges[i], *session_, {sums_, i * kRangeBytes});
    launch.set_module(preparation_->module);
    auto pending = std::make_shared<Pending>();
    running.push_back(pending->ended.get_future());
    parts_.launcher->Launch(launch, wait, &pending->response, [pending](absl::Status status) {
      pending->ended.set_value(std::move(status));
    });
  }
  absl::Status status;
  for (std::future<absl::Status>& one : running) status.Update(one.get());
  RETURN_IF_ERROR(status);
  HostWindow window(parts_.sessions);
  std::vector<DifferenceSums> result;
  for (size_t i = 0; i < ranges.size(); ++i) {
    std::vector<double> sums(ProgramsOf(ranges[i]) * kSums);
    RETURN_IF_ERROR(window.Read({sums_, i * kRangeBytes}, sums.size() * sizeof(double),
                                reinterpret_cast<char*>(sums.data())));
    DifferenceSums all;
    for (size_t at = 0; at < sums.size(); at += kSums) {
      all.error += sums[at];
      all.norm += sums[at + 1];
      all.wrong += sums[at + 2];
    }
    result.push_back(all);
  }
  return result;
}

}  // namespace tessera::server
