// The executor of a GPU, as a process, seen from the daemon's side: on simulated GPUs, or with
// TESSERA_TEST_GPU=1 on a real one.
#include "runtime/cuda/cuda_executor.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/fake_driver.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/test_kernels.h"
#include "runtime/executor/executor_client.h"
#include "runtime/executor/executor_process.h"
#include "runtime/memory/shared_memory.h"

namespace tessera::runtime {
namespace {

bool OnRealGpu() { return std::getenv("TESSERA_TEST_GPU") != nullptr; }

absl::StatusOr<const CudaDriver*> TestDriver() {
  if (OnRealGpu()) return LoadCudaDriver();
  return FakeCudaDriver();
}

std::string FirstUuid(const CudaDriver& driver) { return ListGpus(driver)->gpus(0).uuid(); }

#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)

// Results of launches, to wait for.
class Results {
 public:
  ExecutorClient::DoneCallback Expect() {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t index = results_.size();
    results_.emplace_back();
    return [this, index](LaunchResult result) {
      std::lock_guard<std::mutex> lock(mutex_);
      results_[index].push_back(std::move(result));
      changed_.notify_all();
    };
  }
  LaunchResult Await(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60),
                           [&] { return !results_[index].empty(); }))
      return {absl::DeadlineExceededError("no result"), 0, 0, ""};
    return results_[index][0];
  }
  bool Has(size_t index) {
    std::lock_guard<std::mutex> lock(mutex_);
    return !results_[index].empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<LaunchResult>> results_;
};

class CudaExecutorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    driver_ = *TestDriver();
    gpu_ = GpuContext::Create(driver_, FirstUuid(*driver_))->release();
  }
  void SetUp() override { Start(absl::Seconds(20)); }

  void Start(absl::Duration kill_after, std::vector<std::string> flags = {}) {
    ExecutorOptions options;
    options.command = {"/proc/self/exe"};
    for (std::string& flag : flags) options.command.push_back(flag);
    options.device = "cuda:0";
    options.concurrent = true;
    options.kill_after = kill_after;
    executor_.reset();
    auto executor = ExecutorClient::Start(options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }
  uint64_t Load(const std::string& kernel) {
    const uint64_t id = ++last_id_;
    const absl::Status loaded = executor_->LoadKernel(id, GpuTestKernel(kernel));
    EXPECT_TRUE(loaded.ok()) << loaded;
    return id;
  }
  // Memory of this process: 32-bit numbers on the GPU.
  CUdeviceptr Allocate(uint64_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(driver_->cuMemAlloc(&address, bytes));
    Fill(address, bytes / 4, 0);
    return address;
  }
  void Fill(CUdeviceptr address, size_t count, int32_t value) {
    std::vector<int32_t> values(count, value);
    EXPECT_CUDA(driver_->cuMemcpyHtoD(address, values.data(), count * 4));
  }
  int32_t Read(CUdeviceptr address) {
    int32_t value = -1;
    EXPECT_CUDA(driver_->cuMemcpyDtoH(&value, address, 4));
    return value;
  }
  std::string HandleOf(CUdeviceptr address) {
    CUipcMemHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetMemHandle(&handle, address));
    return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
  }
  uint64_t Map(const DeviceMemorySource& source) {
    const uint64_t id = ++last_id_;
    auto mapped = executor_->MapDeviceMemory(id, source);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    return id;
  }
  uint64_t MapIpc(CUdeviceptr address, uint64_t offset = 0) {
    DeviceMemorySource source;
    source.cuda_ipc = HandleOf(address);
    source.offset = offset;
    return Map(source);
  }
  uint64_t Import(CUevent event) {
    CUipcEventHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetEventHandle(&handle, event));
    const uint64_t id = ++last_id_;
    const absl::Status imported = executor_->ImportEvent(
        id, std::string(reinterpret_cast<const char*>(&handle), sizeof(handle)), gpu_->uuid());
    EXPECT_TRUE(imported.ok()) << imported;
    return id;
  }
  CUevent MakeEvent() {
    CUevent event = nullptr;
    EXPECT_CUDA(driver_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    return event;
  }

  LaunchCommand AddOne(uint64_t kernel, uint64_t region, int32_t n, uint64_t offset = 0) {
    params_ = {{region, offset, static_cast<uint64_t>(n) * 4}, {0, static_cast<uint64_t>(n), 0}};
    return Command(kernel, (n + 127) / 128);
  }
  LaunchCommand WaitFlag(uint64_t kernel, uint64_t region) {
    params_ = {{region, 0, 4}};
    return Command(kernel, 1);
  }
  LaunchCommand Fault(uint64_t kernel) {
    params_.clear();
    return Command(kernel, 1);
  }
  LaunchCommand Command(uint64_t kernel, uint32_t grid) {
    LaunchCommand command;
    command.kernel = kernel;
    command.grid[0] = grid;
    command.params = params_.data();
    command.num_params = static_cast<uint32_t>(params_.size());
    return command;
  }
  absl::Status Run(const LaunchCommand& command) {
    Results results;
    executor_->Submit(command, absl::ZeroDuration(), results.Expect());
    return results.Await(0).status;
  }

  // A flag that the host sets and a kernel waits for.
  struct HostFlag {
    UniqueFd fd;
    std::atomic<int32_t>* word = nullptr;
    uint64_t region = 0;
  };
  HostFlag MakeFlag() {
    HostFlag flag;
    flag.fd = *CreateSealedMemory("flag", 4096);
    flag.word = static_cast<std::atomic<int32_t>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, flag.fd.get(), 0));
    flag.region = ++last_id_;
    const absl::Status mapped = executor_->MapRegion(flag.region, flag.fd.get(), 0, 4096, false);
    EXPECT_TRUE(mapped.ok()) << mapped;
    return flag;
  }

  static const CudaDriver* driver_;
  static const GpuContext* gpu_;
  std::unique_ptr<ExecutorClient> executor_;
  std::vector<LaunchParam> params_;
  uint64_t last_id_ = 0;
};
const CudaDriver* CudaExecutorTest::driver_ = nullptr;
const GpuContext* CudaExecutorTest::gpu_ = nullptr;

TEST_F(CudaExecutorTest, RunsAKernelOnMemoryOfAnotherProcess) {
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x), kernel = Load("add_one");
  const LaunchCommand launch = AddOne(kernel, region, 1000);
  Results results;
  executor_->Submit(launch, absl::ZeroDuration(), results.Expect());
  const LaunchResult result = results.Await(0);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(result.kernel_seconds, 0);
  EXPECT_LT(result.kernel_seconds, 0.5);
  EXPECT_EQ(Read(x), 1);
  EXPECT_EQ(Read(x + 999 * 4), 1);
  EXPECT_EQ(Read(x + 1000 * 4), 0);
}

TEST_F(CudaExecutorTest, OpensAHandleOnceForManyRegionsAndClosesItOnce) {
  CUdeviceptr x = Allocate(1 << 20);
  const uint64_t kernel = Load("add_one");
  const uint64_t whole = MapIpc(x), part = MapIpc(x, 4096);
  EXPECT_EQ(executor_->Stats()->handles_open(), 1u);
  ASSERT_TRUE(Run(AddOne(kernel, whole, 2048)).ok());
  ASSERT_TRUE(Run(AddOne(kernel, part, 10, 512)).ok());
  EXPECT_EQ(Read(x + 4096), 1);
  EXPECT_EQ(Read(x + 4096 + 512), 2);
  EXPECT_EQ(Read(x), 1);
  executor_->UnmapRegion(whole);
  ASSERT_TRUE(Run(AddOne(kernel, part, 10)).ok());
  EXPECT_EQ(executor_->Stats()->handles_open(), 1u);
  executor_->UnmapRegion(part);
  while (executor_->Stats()->handles_open() != 0) std::this_thread::yield();
  const uint64_t again = MapIpc(x);
  EXPECT_TRUE(Run(AddOne(kernel, again, 10)).ok());
}

TEST_F(CudaExecutorTest, RefusesExtentsOutsideTheAllocationAndHandlesThatAreNone) {
  CUdeviceptr x = Allocate(1 << 20);
  DeviceMemorySource source;
  source.cuda_ipc = HandleOf(x);
  source.offset = 100;
  EXPECT_EQ(executor_->MapDeviceMemory(1000, source).status().code(),
            absl::StatusCode::kInvalidArgument);
  source.offset = uint64_t{1} << 40;
  EXPECT_EQ(executor_->MapDeviceMemory(1001, source).status().code(),
            absl::StatusCode::kInvalidArgument);
  source.offset = 0;
  source.size = uint64_t{1} << 40;
  EXPECT_EQ(executor_->MapDeviceMemory(1002, source).status().code(),
            absl::StatusCode::kInvalidArgument);
  source.size = 0;
  source.cuda_ipc = "short";
  EXPECT_EQ(executor_->MapDeviceMemory(1003, source).status().code(),
            absl::StatusCode::kInvalidArgument);
  const uint64_t kernel = Load("add_one"), region = MapIpc(x);
  EXPECT_EQ(Run(AddOne(kernel, region, 10, uint64_t{1} << 40)).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(Run(AddOne(kernel, region, 10)).ok());
}

TEST_F(CudaExecutorTest, RefusesAHandleOfAnotherGpuWithBothUuids) {
  DeviceMemorySource source;
  source.cuda_ipc = HandleOf(Allocate(4096));
  source.device_uuid = kFakeGpu1;
  absl::Status claimed = executor_->MapDeviceMemory(1000, source).status();
  EXPECT_EQ(claimed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(claimed.message(), kFakeGpu1)) << claimed;
  EXPECT_TRUE(absl::StrContains(claimed.message(), gpu_->uuid())) << claimed;
  if (OnRealGpu()) return;  // a second GPU is simulated only
  auto other = GpuContext::Create(driver_, kFakeGpu1);
  ASSERT_TRUE(other.ok());
  source.cuda_ipc = HandleOf(Allocate(4096));
  source.device_uuid.clear();
  gpu_->MakeCurrent();
  absl::Status found = executor_->MapDeviceMemory(1001, source).status();
  EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(found.message(), kFakeGpu1)) << found;
  EXPECT_TRUE(absl::StrContains(found.message(), kFakeGpu0)) << found;
  EXPECT_EQ(executor_->Stats()->handles_open(), 0u);
}

TEST_F(CudaExecutorTest, MakesMemoryThatOthersMapAndThatOutlivesTheExecutor) {
  DeviceMemorySource source;
  source.allocate = 3 << 20;
  auto made = executor_->MapDeviceMemory(1000, source);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size, 3u << 20);
  EXPECT_GE(made->handle_bytes, 3u << 20);
  ASSERT_TRUE(made->exported.open());
  // As a client does.
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr mine = 0;
  ASSERT_CUDA(driver_->cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(made->exported.get())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ASSERT_CUDA(driver_->cuMemAddressReserve(&mine, made->handle_bytes, 0, 0, 0));
  ASSERT_CUDA(driver_->cuMemMap(mine, made->handle_bytes, 0, handle, 0));
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu_->device();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_CUDA(driver_->cuMemSetAccess(mine, made->handle_bytes, &access, 1));
  const uint64_t kernel = Load("add_one");
  ASSERT_TRUE(Run(AddOne(kernel, 1000, 1000)).ok());
  EXPECT_EQ(Read(mine), 1);
  ASSERT_EQ(kill(executor_->pid(), SIGKILL), 0);
  while (executor_->restarts() == 0) std::this_thread::yield();
  absl::Status after;
  do after = Run(AddOne(kernel, 1000, 1000));
  while (absl::IsUnavailable(after));
  ASSERT_TRUE(after.ok()) << after;
  EXPECT_EQ(Read(mine), 2);
  ASSERT_CUDA(driver_->cuMemUnmap(mine, made->handle_bytes));
}

TEST_F(CudaExecutorTest, MapsSeveralVmmExportsAsOneRegion) {
  size_t granule = 0;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu_->device();
  ASSERT_CUDA(driver_->cuMemGetAllocationGranularity(&granule, &properties,
                                                     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr mine = 0;
  ASSERT_CUDA(driver_->cuMemAddressReserve(&mine, 2 * granule, 0, 0, 0));
  DeviceMemorySource source;
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 2; ++i) {
    CUmemGenericAllocationHandle chunk = 0;
    ASSERT_CUDA(driver_->cuMemCreate(&chunk, granule, &properties, 0));
    ASSERT_CUDA(driver_->cuMemMap(mine + i * granule, granule, 0, chunk, 0));
    int fd = -1;
    ASSERT_CUDA(driver_->cuMemExportToShareableHandle(&fd, chunk,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    fds.emplace_back(fd);
    source.vmm.push_back(fd);
    source.chunk_bytes.push_back(granule);
  }
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_CUDA(driver_->cuMemSetAccess(mine, 2 * granule, &access, 1));
  Fill(mine, 2 * granule / 4, 5);
  const uint64_t region = Map(source), kernel = Load("add_one");
  ASSERT_TRUE(Run(AddOne(kernel, region, 1000, granule - 2000)).ok());
  EXPECT_EQ(Read(mine + granule - 2000), 6);
  EXPECT_EQ(Read(mine + granule), 6);
  EXPECT_EQ(Read(mine + granule + 2000), 5);
}

TEST_F(CudaExecutorTest, WaitsForAndSignalsEventsWithoutTheHost) {
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x), kernel = Load("add_one");
  CUevent ready = MakeEvent(), done = MakeEvent();
  const uint64_t wait = Import(ready), signal = Import(done);
  CUstream stream = nullptr;
  ASSERT_CUDA(driver_->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  for (int round = 1; round <= 50; ++round) {
    // Our half of the work: x becomes 10 * round, on our stream.
    std::vector<int32_t> values(1024, 10 * round);
    ASSERT_CUDA(driver_->cuMemsetD8Async(x, static_cast<unsigned char>(round), 4096, stream));
    ASSERT_CUDA(driver_->cuEventRecord(ready, stream));
    LaunchCommand launch = AddOne(kernel, region, 1000);
    launch.waits = {wait};
    launch.signals = {signal};
    std::atomic<bool> enqueued{false};
    launch.on_enqueued = [&] { enqueued = true; };
    Results results;
    executor_->Submit(launch, absl::ZeroDuration(), results.Expect());
    while (!enqueued && !results.Has(0)) std::this_thread::yield();
    ASSERT_CUDA(driver_->cuStreamWaitEvent(stream, done, 0));
    ASSERT_CUDA(driver_->cuStreamSynchronize(stream));
    ASSERT_EQ(Read(x), 0x01010101 * round + 1);
    ASSERT_TRUE(results.Await(0).status.ok());
    EXPECT_TRUE(enqueued);
  }
  EXPECT_EQ(executor_->Stats()->events_open(), 2u);
  executor_->ReleaseEvent(wait);
  LaunchCommand launch = AddOne(kernel, region, 1000);
  launch.waits = {wait};
  EXPECT_EQ(Run(launch).code(), absl::StatusCode::kNotFound);
}

TEST_F(CudaExecutorTest, ALaunchThatWaitsHoldsUpItsOwnStreamOnly) {
  CUdeviceptr x = Allocate(4096);
  HostFlag flag = MakeFlag();
  const uint64_t region = MapIpc(x), add = Load("add_one"), wait = Load("wait_flag");
  Results results;
  LaunchCommand first = WaitFlag(wait, flag.region);
  first.session = 1;
  executor_->Submit(first, absl::ZeroDuration(), results.Expect());
  LaunchCommand behind = AddOne(add, region, 10);
  behind.session = 1;
  executor_->Submit(behind, absl::ZeroDuration(), results.Expect());
  for (uint32_t other = 1; other <= 3; ++other) {
    LaunchCommand beside = AddOne(add, region, 10);
    beside.session = other == 3 ? 2 : 1;
    beside.stream = other == 3 ? 0 : other;
    beside.priority = static_cast<int32_t>(other);
    EXPECT_TRUE(Run(beside).ok());
  }
  EXPECT_FALSE(results.Has(0));
  EXPECT_FALSE(results.Has(1));
  EXPECT_EQ(Read(x), 3);
  flag.word->store(1);
  EXPECT_TRUE(results.Await(0).status.ok());
  EXPECT_TRUE(results.Await(1).status.ok());
  EXPECT_EQ(Read(x), 4);
}

TEST_F(CudaExecutorTest, RunsThousandsOfLaunchesInOrder) {
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x), kernel = Load("add_one");
  constexpr int kLaunches = 3000;
  std::atomic<int> ended{0}, failed{0};
  for (int i = 0; i < kLaunches; ++i) {
    LaunchCommand launch = AddOne(kernel, region, 1000);
    launch.session = 1;
    executor_->Submit(launch, absl::ZeroDuration(), [&](LaunchResult result) {
      failed += !result.status.ok();
      ++ended;
    });
  }
  while (ended != kLaunches) std::this_thread::yield();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(Read(x), kLaunches);
}

TEST_F(CudaExecutorTest, CopiesBetweenHostAndDeviceMemory) {
  CUdeviceptr x = Allocate(4096);
  HostFlag host = MakeFlag();
  const uint64_t region = MapIpc(x), kernel = Load("add_one");
  host.word[3].store(41);
  CopyCommand copy;
  copy.from = host.region;
  copy.from_offset = 12;
  copy.to = region;
  copy.to_offset = 400;
  copy.bytes = 4;
  Results results;
  executor_->Copy(copy, results.Expect());
  ASSERT_TRUE(results.Await(0).status.ok()) << results.Await(0).status;
  ASSERT_TRUE(Run(AddOne(kernel, region, 1, 400)).ok());
  std::swap(copy.from, copy.to);
  std::swap(copy.from_offset, copy.to_offset);
  executor_->Copy(copy, results.Expect());
  ASSERT_TRUE(results.Await(1).status.ok());
  EXPECT_EQ(host.word[3].load(), 42);
  copy.bytes = 8192;
  executor_->Copy(copy, results.Expect());
  EXPECT_EQ(results.Await(2).status.code(), absl::StatusCode::kOutOfRange);
}

TEST_F(CudaExecutorTest, TellsWhatAKernelReports) {
  const uint64_t report = Load("report");
  auto launch = [&](uint64_t code) {
    params_ = {{0, code, 0}};
    Results results;
    executor_->Submit(Command(report, 1), absl::ZeroDuration(), results.Expect());
    return results.Await(0);
  };
  const LaunchResult printed = launch(0);
  EXPECT_TRUE(printed.status.ok()) << printed.status;
  EXPECT_EQ(printed.printed, "pid (0, 0, 0) idx () seven: 7\n");
  const absl::Status asserted = launch(1).status;
  EXPECT_EQ(asserted.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(asserted.message(), "x > 0 in kernel report at kernel.py:12"))
      << asserted;
  EXPECT_EQ(launch(2).status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(launch(0).status.ok());
  EXPECT_EQ(executor_->restarts(), 0u);
}

TEST_F(CudaExecutorTest, AGuardedKernelReportsWhatLiesOutsideItsBuffersAndLeavesItAlone) {
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x), kernel = Load("guarded_add_one");
  EXPECT_TRUE(Run(AddOne(kernel, region, 100, 400)).ok());
  EXPECT_EQ(Read(x + 400), 1);
  LaunchCommand command = AddOne(kernel, region, 100, 400);
  params_[0].extent_bytes = 360;  // ten elements short
  const absl::Status outside = Run(command);
  EXPECT_EQ(outside.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(absl::StrContains(outside.message(),
                                "access of 4 bytes outside 'x' in kernel add_one at kernel.py:3"))
      << outside;
  EXPECT_EQ(Read(x + 400 + 356), 2);
  EXPECT_EQ(Read(x + 400 + 360), 1);
  EXPECT_EQ(executor_->restarts(), 0u);
}

TEST_F(CudaExecutorTest, AKernelThatFaultsIsQuarantinedAndCostsOneRestart) {
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x), add = Load("add_one"), fault = Load("fault");
  ASSERT_TRUE(Run(AddOne(add, region, 10)).ok());
  const absl::Time before = absl::Now();
  const absl::Status status = Run(Fault(fault));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "while it ran kernel fault")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_ILLEGAL_ADDRESS")) << status;
  const absl::Status again = Run(AddOne(add, region, 10));
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_LT(absl::Now() - before, absl::Seconds(OnRealGpu() ? 4 : 2));
  RecordProperty("seconds_to_serve_again",
                 absl::StrCat(absl::ToDoubleSeconds(absl::Now() - before)));
  std::printf("fault to serving again: %.3f s\n", absl::ToDoubleSeconds(absl::Now() - before));
  EXPECT_EQ(Read(x), 2);
  EXPECT_EQ(Run(Fault(fault)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(executor_->restarts(), 1u);
  EXPECT_EQ(executor_->quarantined(), std::vector<uint64_t>{fault});
}

TEST_F(CudaExecutorTest, OfTwoSuspectsTheGuiltyOneIsFoundByRunningAlone) {
  HostFlag flag = MakeFlag();
  const uint64_t wait = Load("wait_flag"), fault = Load("fault");
  Results results;
  LaunchCommand innocent = WaitFlag(wait, flag.region);
  innocent.session = 1;
  std::atomic<bool> enqueued{false};
  innocent.on_enqueued = [&] { enqueued = true; };
  executor_->Submit(innocent, absl::ZeroDuration(), results.Expect());
  while (!enqueued) std::this_thread::yield();
  // A suspect has begun, which takes a moment more; nothing tells of it.
  absl::SleepFor(absl::Milliseconds(200));
  LaunchCommand guilty = Fault(fault);
  guilty.session = 2;
  executor_->Submit(guilty, absl::ZeroDuration(), results.Expect());
  EXPECT_EQ(results.Await(0).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(results.Await(1).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(executor_->quarantined().empty());
  flag.word->store(1);
  EXPECT_TRUE(Run(WaitFlag(wait, flag.region)).ok());
  EXPECT_EQ(Run(Fault(fault)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(executor_->quarantined(), std::vector<uint64_t>{fault});
  EXPECT_TRUE(Run(WaitFlag(wait, flag.region)).ok());
}

TEST_F(CudaExecutorTest, AKilledExecutorFailsWhatRanAndServesAgain) {
  CUdeviceptr x = Allocate(4096);
  HostFlag flag = MakeFlag();
  const uint64_t region = MapIpc(x), wait = Load("wait_flag"), add = Load("add_one");
  CUevent done = MakeEvent();
  LaunchCommand launch = WaitFlag(wait, flag.region);
  launch.signals = {Import(done)};
  std::atomic<bool> enqueued{false};
  launch.on_enqueued = [&] { enqueued = true; };
  Results results;
  executor_->Submit(launch, absl::ZeroDuration(), results.Expect());
  while (!enqueued) std::this_thread::yield();
  EXPECT_EQ(driver_->cuEventQuery(done), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(kill(executor_->pid(), SIGKILL), 0);
  EXPECT_EQ(results.Await(0).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(executor_->quarantined().empty());
  EXPECT_TRUE(Run(AddOne(add, region, 10)).ok());
  EXPECT_EQ(Read(x), 1);
}

TEST_F(CudaExecutorTest, ALaunchThatNeverEndsIsNamedAndEnded) {
  HostFlag flag = MakeFlag();
  Start(absl::Milliseconds(500));
  flag.region = ++last_id_;
  ASSERT_TRUE(executor_->MapRegion(flag.region, flag.fd.get(), 0, 4096, false).ok());
  const uint64_t wait = Load("wait_flag");
  const absl::Status status = Run(WaitFlag(wait, flag.region));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "wait_flag")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "longer than 500 ms")) << status;
  EXPECT_TRUE(executor_->quarantined().empty());
  flag.word->store(1);
  EXPECT_TRUE(Run(WaitFlag(wait, flag.region)).ok());
}

TEST_F(CudaExecutorTest, UnloadsIdleModulesWhenMemoryIsShortAndLoadsThemAgain) {
  if (OnRealGpu()) GTEST_SKIP() << "lack of memory is simulated only";
  Start(absl::Seconds(20), {"--modules=3"});
  CUdeviceptr x = Allocate(4096);
  const uint64_t region = MapIpc(x);
  std::vector<uint64_t> kernels;
  for (int i = 0; i < 8; ++i) kernels.push_back(Load("add_one"));
  EXPECT_LE(executor_->Stats()->modules_loaded(), 3u);
  EXPECT_GE(executor_->Stats()->modules_unloaded(), 5u);
  for (uint64_t kernel : kernels) EXPECT_TRUE(Run(AddOne(kernel, region, 10)).ok());
  EXPECT_EQ(Read(x), 8);
}

TEST_F(CudaExecutorTest, UnderMpsOneFaultIsNoProof) {
  if (OnRealGpu()) GTEST_SKIP() << "MPS is simulated here";
  Start(absl::Seconds(20), {"--mps"});
  const uint64_t fault = Load("fault");
  EXPECT_EQ(Run(Fault(fault)).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(executor_->quarantined().empty());
  EXPECT_EQ(Run(Fault(fault)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(executor_->quarantined(), std::vector<uint64_t>{fault});
}

TEST(CudaStatusTest, TellsWhatKindOfErrorItIs) {
  const CudaDriver& driver = **TestDriver();
  EXPECT_EQ(CudaStatus(driver, CUDA_ERROR_OUT_OF_MEMORY, "x").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudaStatus(driver, CUDA_ERROR_NO_BINARY_FOR_GPU, "x").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudaStatus(driver, CUDA_ERROR_ILLEGAL_ADDRESS, "x").code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(CudaStatus(driver, CUDA_SUCCESS, "x").ok());
}

TEST(GpuTest, ListsWhatThereIsAndFindsItByUuid) {
  const CudaDriver* driver = *TestDriver();
  auto gpus = ListGpus(*driver);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_GE(gpus->gpus_size(), 1);
  EXPECT_GT(gpus->gpus(0).memory_bytes(), 0u);
  EXPECT_TRUE(absl::StartsWith(gpus->gpus(0).uuid(), "GPU-"));
  EXPECT_TRUE(GpuContext::Create(driver, gpus->gpus(0).uuid()).ok());
  const absl::Status unknown = GpuContext::Create(driver, "GPU-1").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(unknown.message(), gpus->gpus(0).uuid()));
}

// The exit status when this program was started as an executor.
void ServeIfAsked(int argc, char** argv) {
  int fd = -1;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    uint32_t modules = 0;
    if (flag == "--mps") FakeGpu().mps = true;
    if (absl::ConsumePrefix(&flag, "--modules=") && absl::SimpleAtoi(flag, &modules))
      FakeGpu().modules = modules;
    flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--executor-fd=") && !absl::SimpleAtoi(flag, &fd)) fd = -1;
  }
  if (fd < 0) return;
  if (!BindToDaemon(fd).ok()) std::exit(1);
  absl::StatusOr<const CudaDriver*> driver = TestDriver();
  ServeAsCudaExecutor(fd, driver, driver.ok() ? FirstUuid(**driver) : "");
}

}  // namespace
}  // namespace tessera::runtime

int main(int argc, char** argv) {
  tessera::runtime::ServeIfAsked(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
