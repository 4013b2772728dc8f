// The daemon's GPU runtime over gRPC, with this process as the client that owns the memory: CUDA
// IPC and VMM memory, events both ways without anybody waiting on the host, faults and kills under
// load.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/client.h"
#include "client/cpp/launch_stream.h"
#include "runtime/cuda/fake_driver.h"
#include "runtime/cuda/test_kernels.h"
#include "tests/gpu/ptx_daemon.h"

namespace tessera {
namespace {

#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)

int Count(const char* variable, int simulated, int real) {
  if (const char* given = std::getenv(variable)) return std::atoi(given);
  return OnRealGpu() ? real : simulated;
}

template <typename Handle>
std::string BytesOf(const Handle& handle) {
  return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
}

class GpuRuntimeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    driver_ = &ClientDriver();
    gpu_ = runtime::GpuContext::Create(driver_, runtime::ListGpus(*driver_)->gpus(0).uuid())
               ->release();
  }
  void SetUp() override { StartDaemon(); }

  void StartDaemon(std::vector<std::string> flags = {}) {
    client_.reset();
    daemon_.reset();
    auto daemon = PtxDaemon::Start(std::move(flags));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    client_ = Connect();
    module_ = Register(*client_);
  }
  std::unique_ptr<Client> Connect() {
    auto client = Client::Connect(daemon_->address(), "gpu test");
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  static std::string Register(Client& client) {
    auto module = client.RegisterModule({{"kernels.py", kPtxModule}});
    EXPECT_TRUE(module.ok()) << module.status();
    return module->module();
  }

  // ---- This process's own GPU memory.
  CUdeviceptr Allocate(uint64_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(driver_->cuMemAlloc(&address, bytes));
    Fill(address, bytes / 4, 0);
    return address;
  }
  static void Fill(CUdeviceptr address, size_t count, int32_t value) {
    std::vector<int32_t> values(count, value);
    EXPECT_CUDA(driver_->cuMemcpyHtoD(address, values.data(), count * 4));
    // A small copy may return before the bytes are on the GPU, and another process's launch is not
    // ordered behind it.
    EXPECT_CUDA(driver_->cuCtxSynchronize());
  }
  static std::vector<int32_t> Read(CUdeviceptr address, size_t count) {
    std::vector<int32_t> values(count, -1);
    EXPECT_CUDA(driver_->cuMemcpyDtoH(values.data(), address, count * 4));
    return values;
  }
  static absl::StatusOr<uint64_t> ImportIpc(Client& client, CUdeviceptr address,
                                            uint64_t offset = 0) {
    CUipcMemHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetMemHandle(&handle, address));
    return client.ImportCudaIpc(BytesOf(handle), {"cuda:0", gpu_->uuid(), offset, 0});
  }
  struct Vmm {
    CUdeviceptr address = 0;
    std::vector<std::pair<int, uint64_t>> chunks;
  };
  static Vmm MakeVmm(int chunks) {
    Vmm made;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = gpu_->device();
    size_t granule = 0;
    EXPECT_CUDA(driver_->cuMemGetAllocationGranularity(&granule, &properties,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_CUDA(driver_->cuMemAddressReserve(&made.address, chunks * granule, 0, 0, 0));
    for (int i = 0; i < chunks; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      EXPECT_CUDA(driver_->cuMemCreate(&handle, granule, &properties, 0));
      EXPECT_CUDA(driver_->cuMemMap(made.address + i * granule, granule, 0, handle, 0));
      int fd = -1;
      EXPECT_CUDA(driver_->cuMemExportToShareableHandle(
          &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      made.chunks.emplace_back(fd, granule);
    }
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(driver_->cuMemSetAccess(made.address, chunks * granule, &access, 1));
    return made;
  }
  struct SharedEvent {
    CUevent event = nullptr;
    uint64_t id = 0;
  };
  SharedEvent MakeEvent(Client& client) {
    SharedEvent made;
    EXPECT_CUDA(
        driver_->cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CUipcEventHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetEventHandle(&handle, made.event));
    auto id = client.ImportEvent(BytesOf(handle), "cuda:0", gpu_->uuid());
    EXPECT_TRUE(id.ok()) << id.status();
    made.id = id.ok() ? *id : 0;
    return made;
  }
  CUstream MakeStream() {
    CUstream stream = nullptr;
    EXPECT_CUDA(driver_->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  }

  // ---- Launches.
  static v1::LaunchRequest Kernel(const std::string& module, const std::string& kernel,
                                  int64_t tag = 0) {
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel(kernel);
    launch.add_grid(1);
    *launch.add_arguments() = ConstexprArgument("TAG", IntConstant(tag));
    return launch;
  }
  static v1::LaunchRequest AddOne(const std::string& module, uint64_t region, int64_t n,
                                  uint64_t byte_offset = 0) {
    v1::LaunchRequest launch = Kernel(module, "add_one");
    launch.set_grid(0, (n + 127) / 128);
    *launch.add_arguments() = RegionArgument("p0", region, DType::kInt32, {n}, byte_offset);
    *launch.add_arguments() = IntArgument("p1", n);
    return launch;
  }
  v1::GetStatusResponse::Device Status() {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    EXPECT_TRUE(client_->admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok());
    return status.devices(0);
  }

  static const runtime::CudaDriver* driver_;
  static const runtime::GpuContext* gpu_;
  std::unique_ptr<PtxDaemon> daemon_;
  std::unique_ptr<Client> client_;
  std::string module_;
};
const runtime::CudaDriver* GpuRuntimeTest::driver_ = nullptr;
const runtime::GpuContext* GpuRuntimeTest::gpu_ = nullptr;

TEST_F(GpuRuntimeTest, LaunchesOnMemoryOfTheClientAndReportsTheGpu) {
  constexpr int64_t kN = 100000;
  CUdeviceptr x = Allocate(kN * 4);
  auto region = ImportIpc(*client_, x);
  ASSERT_TRUE(region.ok()) << region.status();
  for (const char* device : {"", "cuda", "cuda:0"}) {
    v1::LaunchRequest launch = AddOne(module_, *region, kN);
    launch.set_device(device);
    auto result = client_->Launch(launch);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(result->kernel_seconds(), 0);
  }
  EXPECT_EQ(Read(x, kN), std::vector<int32_t>(kN, 3));
  const v1::GetStatusResponse::Device status = Status();
  EXPECT_EQ(status.name(), "cuda:0");
  EXPECT_EQ(status.uuid(), gpu_->uuid());
  EXPECT_GT(status.gpu().memory_bytes(), 0u);
  EXPECT_FALSE(status.gpu().sharing().empty());
  std::printf("%s: compute capability %s, driver %s, %u multiprocessors, shared by %s\n",
              status.description().c_str(), status.gpu().compute_capability().c_str(),
              status.gpu().driver_version().c_str(), status.gpu().multiprocessors(),
              status.gpu().sharing().c_str());
}

TEST_F(GpuRuntimeTest, RefusesHandlesOfOtherGpusWithBothUuids) {
  CUipcMemHandle handle;
  ASSERT_CUDA(driver_->cuIpcGetMemHandle(&handle, Allocate(4096)));
  auto claimed = client_->ImportCudaIpc(BytesOf(handle), {"cuda:0", runtime::kFakeGpu1, 0, 0});
  EXPECT_EQ(claimed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(claimed.status().message(), runtime::kFakeGpu1));
  EXPECT_TRUE(absl::StrContains(claimed.status().message(), gpu_->uuid()));
  const worker::DeviceProbe gpus = *runtime::ListGpus(*driver_);
  if (gpus.gpus_size() < 2) return;
  auto other = runtime::GpuContext::Create(driver_, gpus.gpus(1).uuid());
  ASSERT_TRUE(other.ok()) << other.status();
  CUdeviceptr there = Allocate(4096);
  ASSERT_CUDA(driver_->cuIpcGetMemHandle(&handle, there));
  gpu_->MakeCurrent();
  // With several GPUs the UUID must be named: CUDA maps a neighbour's memory without a word.
  auto found = client_->ImportCudaIpc(BytesOf(handle), {"cuda:0", "", 0, 0});
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << found.status();
  found = client_->ImportCudaIpc(BytesOf(handle), {"cuda:0", gpus.gpus(1).uuid(), 0, 0});
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << found.status();
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(absl::StrContains(found.status().message(), gpus.gpus(i).uuid())) << found.status();
  std::printf("%s\n", std::string(found.status().message()).c_str());
  // On its own device it is right, and a launch elsewhere is refused.
  auto region = client_->ImportCudaIpc(BytesOf(handle), {"cuda:1", gpus.gpus(1).uuid(), 0, 0});
  ASSERT_TRUE(region.ok()) << region.status();
  v1::LaunchRequest launch = AddOne(module_, *region, 10);
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kFailedPrecondition);
  launch.set_device("cuda:1");
  EXPECT_TRUE(client_->Launch(launch).ok());
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(client_->admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok());
  std::set<int64_t> executors;
  for (const auto& device : status.devices()) {
    std::printf("executor of %s %s: pid %lld\n", device.name().c_str(), device.uuid().c_str(),
                static_cast<long long>(device.executor_pid()));
    executors.insert(device.executor_pid());
  }
  EXPECT_EQ(executors.size(), static_cast<size_t>(status.devices_size()));
  (*other)->MakeCurrent();
  EXPECT_EQ(Read(there, 1)[0], 1);
  gpu_->MakeCurrent();
}

TEST_F(GpuRuntimeTest, LaunchesOnMemoryThatTheDaemonMade) {
  auto made = client_->AllocateOn("cuda:0", 1 << 20);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->device_uuid(), gpu_->uuid());
  auto fd = client_->FetchDescriptor(made->region());
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_TRUE(client_->Launch(AddOne(module_, made->region(), 1000)).ok());
  auto host = client_->Allocate(4096);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_TRUE(client_->Copy(made->region(), 0, (*host)->region(), 0, 4000).ok());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ((*host)->as<int32_t>()[i], 1) << i;
  close(*fd);
}

// What a serving process does: its kernel, event, our kernel, event, its kernel; nobody waits.
TEST_F(GpuRuntimeTest, ManyLaunchesInTurnsWithTheClientsOwnKernels) {
  const int launches = Count("TESSERA_TEST_LAUNCHES", 200, 10000);
  for (const char* kind : {"cuda ipc", "vmm"}) {
    constexpr int64_t kN = 4096;
    CUdeviceptr x = 0;
    absl::StatusOr<uint64_t> region;
    if (kind == std::string("vmm")) {
      Vmm vmm = MakeVmm(2);
      x = vmm.address;
      region = client_->ImportVmm(vmm.chunks, {"cuda:0", gpu_->uuid(), 0, 0});
    } else {
      x = Allocate(kN * 4);
      region = ImportIpc(*client_, x);
    }
    ASSERT_TRUE(region.ok()) << region.status();
    Fill(x, kN, 0);
    CUstream stream = MakeStream();
    SharedEvent ready = MakeEvent(*client_), done = MakeEvent(*client_);
    CUmodule own = nullptr;
    CUfunction add = nullptr;
    ASSERT_CUDA(driver_->cuModuleLoadDataEx(&own, runtime::GpuTestKernel("add_one").code().c_str(),
                                            0, nullptr, nullptr));
    ASSERT_CUDA(driver_->cuModuleGetFunction(&add, own, "add_one"));
    uint64_t n = kN;
    void* params[] = {&x, &n};
    v1::LaunchRequest launch = AddOne(module_, *region, kN);
    launch.add_wait_events(ready.id);
    launch.add_signal_events(done.id);
    launch.set_answer(v1::LaunchRequest::ENQUEUED);
    int enqueued = 0;
    const absl::Time begin = absl::Now();
    for (int i = 0; i < launches; ++i) {
      ASSERT_CUDA(
          driver_->cuLaunchKernel(add, kN / 128, 1, 1, 128, 1, 1, 0, stream, params, nullptr));
      ASSERT_CUDA(driver_->cuEventRecord(ready.event, stream));
      launch.set_tag(i);
      auto answer = i % 2 == 0 ? client_->LaunchOnStream(launch) : client_->Launch(launch);
      ASSERT_TRUE(answer.ok()) << answer.status();
      enqueued += answer->enqueued();
      ASSERT_CUDA(driver_->cuStreamWaitEvent(stream, done.event, 0));
    }
    const absl::Duration sending = absl::Now() - begin;
    auto ended = client_->Synchronize();
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->failures_size(), 0);
    ASSERT_CUDA(driver_->cuStreamSynchronize(stream));
    EXPECT_EQ(Read(x, kN), std::vector<int32_t>(kN, 2 * launches));
    std::printf(
        "%d launches on %s memory with events both ways: %.1f us each, %d answered before "
        "they had ended\n",
        launches, kind, absl::ToDoubleMicroseconds(sending) / launches, enqueued);
  }
}

TEST_F(GpuRuntimeTest, GuardsLaunchesAsTheSessionAsks) {
  CUdeviceptr x = Allocate(4096);
  auto region = ImportIpc(*client_, x);
  ASSERT_TRUE(region.ok()) << region.status();
  v1::LaunchRequest launch = AddOne(module_, *region, 100);
  auto guarded = [&] {
    auto response = client_->Launch(launch);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() && response->guarded();
  };
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::FIRST).ok());
  v1::LaunchRequest outside = launch;
  outside.mutable_arguments(1)->mutable_tensor()->set_shape(0, 90);  // ten elements short
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = client_->Launch(outside).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "kernel.py:3, program (0, 0, 0), address 0x"))
        << status;
  }
  std::vector<int32_t> expected(100, 2);
  std::fill(expected.begin() + 90, expected.end(), 0);
  EXPECT_EQ(Read(x, 100), expected);
  EXPECT_TRUE(guarded());
  EXPECT_FALSE(guarded());
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::ALWAYS).ok());
  EXPECT_TRUE(guarded());
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::NEVER).ok());
  EXPECT_FALSE(guarded());
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::EVERY_NTH, 4).ok());
  int checked = 0;
  for (int i = 0; i < 8; ++i) checked += guarded();
  EXPECT_EQ(checked, 2);
  EXPECT_EQ(client_->SetGuardPolicy(v1::GuardPolicy::EVERY_NTH, 0).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Status().restarts(), 0u);
}

TEST_F(GpuRuntimeTest, SeveralLaunchesTravelInOneMessageAndAreAnsweredEachByItsTag) {
  CUdeviceptr x = Allocate(4096);
  auto region = ImportIpc(*client_, x);
  LaunchStream stream(client_.get());
  constexpr int kLaunches = 100;
  std::set<uint64_t> tags;
  for (int i = 0; i < kLaunches; ++i) {
    v1::LaunchRequest launch = AddOne(module_, *region, 10);
    if (i == 50) launch.set_kernel("no_such_kernel");
    launch.set_tag(i);
    stream.Send(launch);
  }
  for (int i = 0; i < kLaunches; ++i) {
    auto answer = stream.Receive();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->code(), answer->tag() == 50 ? 5 : 0) << answer->message();
    tags.insert(answer->tag());
  }
  EXPECT_EQ(tags.size(), static_cast<size_t>(kLaunches));
  EXPECT_EQ(Read(x, 1)[0], kLaunches - 1);
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kFailedPrecondition);
  kill(daemon_->pid(), SIGKILL);
  stream.Send(AddOne(module_, *region, 10));
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GpuRuntimeTest, TellsAtSynchronizeWhatFailedAfterItsAnswer) {
  v1::LaunchRequest launch = Kernel(module_, "report");
  *launch.add_arguments() = IntArgument("p0", 2);
  launch.set_answer(v1::LaunchRequest::ENQUEUED);
  launch.set_tag(77);
  auto answer = client_->Launch(launch);
  if (answer.ok()) {
    auto failures = client_->Synchronize();
    ASSERT_TRUE(failures.ok()) << failures.status();
    ASSERT_EQ(failures->failures_size(), 1);
    EXPECT_EQ(failures->failures(0).tag(), 77u);
    EXPECT_EQ(failures->failures(0).error().reason(), "OUT_OF_BOUNDS");
  } else {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kOutOfRange);  // it ended first
  }
  EXPECT_EQ(client_->Synchronize()->failures_size(), 0);
}

TEST_F(GpuRuntimeTest, ChecksStreamsAndEventsBeforeAnythingRuns) {
  auto region = ImportIpc(*client_, Allocate(4096));
  v1::LaunchRequest launch = AddOne(module_, *region, 10);
  launch.set_stream(16);
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kInvalidArgument);
  launch.set_stream(3);
  launch.set_priority(2);
  EXPECT_TRUE(client_->Launch(launch).ok());
  launch.add_wait_events(4711);
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kNotFound);
  SharedEvent event = MakeEvent(*client_);
  launch.set_wait_events(0, event.id);
  EXPECT_TRUE(client_->Launch(launch).ok());
  std::unique_ptr<Client> stranger = Connect();
  EXPECT_EQ(stranger->Launch(launch).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->ReleaseEvent(event.id).ok());
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GpuRuntimeTest, AStreamOfRequestsGoesOnAfterAFailedLaunch) {
  auto region = ImportIpc(*client_, Allocate(4096));
  v1::LaunchRequest bad = AddOne(module_, *region, 10);
  bad.set_kernel("no_such_kernel");
  EXPECT_EQ(client_->LaunchOnStream(bad).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->LaunchOnStream(AddOne(module_, *region, 10)).ok());
  kill(daemon_->pid(), SIGKILL);
  EXPECT_EQ(client_->LaunchOnStream(AddOne(module_, *region, 10)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GpuRuntimeTest, AFaultCostsTheKernelAndOneRestartAndServesAgainSoon) {
  CUdeviceptr x = Allocate(4096);
  auto region = ImportIpc(*client_, x);
  std::unique_ptr<Client> culprit = Connect();
  ASSERT_TRUE(client_->Launch(AddOne(module_, *region, 1000)).ok());
  v1::LaunchRequest fault = Kernel(Register(*culprit), "fault");
  const absl::Time before = absl::Now();
  const absl::Status status = culprit->Launch(fault).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "fault")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDA_ERROR_")) << status;
  // A fault under MPS is everybody's: this process's context is lost too, and the server takes no
  // new clients until all that it had are gone.
  if (Status().gpu().sharing() == "mps") {
    std::printf("under MPS: %s\n", std::string(status.message()).c_str());
    std::printf("this process sees: %d\n", driver_->cuCtxSynchronize());
    return;
  }
  auto again = client_->Launch(AddOne(module_, *region, 1000));
  ASSERT_TRUE(again.ok()) << again.status();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - before);
  std::printf("fault to the next session's result: %.3f s\n%s\n", seconds,
              std::string(status.message()).c_str());
  EXPECT_LT(seconds, 2.0);
  EXPECT_EQ(Read(x, 1)[0], 2);
  EXPECT_EQ(culprit->Launch(fault).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Status().quarantined_kernels_size(), 1);
}

// Two clients under load, and executors that die of SIGKILL or of a third client's faulting kernel:
// what is answered as done is right, and everybody's session and memory go on.
TEST_F(GpuRuntimeTest, KillsUnderLoadLoseNobodysSessionAndNoResult) {
  const int kills = Count("TESSERA_TEST_KILLS", 6, 20);
  const bool faults = std::getenv("TESSERA_TEST_NO_FAULTS") == nullptr;
  constexpr int64_t kN = 2000;
  std::atomic<bool> stop{false};
  std::atomic<int> right{0}, failed{0}, wrong{0}, lost{0};
  auto load = [&] {
    gpu_->MakeCurrent();
    std::unique_ptr<Client> client = Connect();
    const std::string module = Register(*client);
    CUdeviceptr x = Allocate(kN * 4);
    auto region = ImportIpc(*client, x);
    for (int32_t value = 0; !stop; value += 10) {
      Fill(x, kN, value);
      auto result = client->Launch(AddOne(module, *region, kN), absl::Seconds(30));
      if (result.ok()) {
        const std::vector<int32_t> after = Read(x, kN);
        (after == std::vector<int32_t>(kN, value + 1) ? right : wrong)++;
      } else if (absl::IsUnavailable(result.status())) {
        ++failed;
      } else {
        ++lost;
        std::printf("%s\n", result.status().ToString().c_str());
      }
    }
  };
  std::thread one(load), two(load);
  std::unique_ptr<Client> culprit = Connect();
  const std::string module = Register(*culprit);
  double longest = 0;
  for (int i = 0; i < kills; ++i) {
    const int before = right;
    while (right < before + 20) std::this_thread::yield();
    const absl::Time begin = absl::Now();
    if (faults && i % 2 == 1) {
      EXPECT_FALSE(culprit->Launch(Kernel(module, "fault", 100 + i), absl::Seconds(30)).ok());
    } else {
      const auto executor = static_cast<pid_t>(Status().executor_pid());
      ASSERT_GT(executor, 1);
      kill(executor, SIGKILL);
    }
    const uint32_t restarts = static_cast<uint32_t>(i) + 1;
    while (Status().restarts() < restarts && absl::Now() < begin + absl::Seconds(20))
      std::this_thread::yield();
    const int then = right;
    while (right == then && absl::Now() < begin + absl::Seconds(20)) std::this_thread::yield();
    longest = std::max(longest, absl::ToDoubleSeconds(absl::Now() - begin));
  }
  stop = true;
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lost, 0);
  EXPECT_GE(Status().restarts(), static_cast<uint32_t>(kills));
  EXPECT_LT(longest, OnRealGpu() ? 2.5 : 10.0);
  std::printf(
      "%d executor deaths under load: %d launches right, %d failed and told so, %d wrong; "
      "at most %.2f s until results came again\n",
      kills, right.load(), failed.load(), wrong.load(), longest);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::ServePtxDaemonRoles(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
