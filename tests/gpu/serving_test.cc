// What a serving process does with a daemon that compiles: the fused product of two matrices on
// memory of this process, with events both ways and nobody waiting on the host, and guarded
// launches. The daemon is the one at TESSERA_ADDRESS; kernels come from the file that
// TESSERA_TEST_KERNELS names.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/small_float.h"
#include "client/cpp/client.h"
#include "client/cpp/launch_stream.h"
#include "runtime/cuda/gpu.h"

namespace tessera {
namespace {

#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr int64_t kSize = 256;  // of the square matrices
constexpr uint64_t kMatrixBytes = kSize * kSize * 2;
constexpr int kInputs = 4;    // different ones, in turns
constexpr int kInFlight = 8;  // launches, each with events and an output of its own
constexpr int kLaunches = 10000;

// Counts the elements that are not what they should be, and leaves NaN behind for the next round.
constexpr char kCheckPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry check(.param .u64 out, .param .u64 want, .param .u64 wrong, .param .u32 n)
{
  .reg .pred %p;
  .reg .b16 %h<2>;
  .reg .f32 %f<5>;
  .reg .b32 %r<6>;
  .reg .b64 %d<8>;
  ld.param.u64 %d0, [out];
  ld.param.u64 %d1, [want];
  ld.param.u64 %d2, [wrong];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra DONE;
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mul.wide.s32 %d3, %r4, 2;
  add.s64 %d4, %d0, %d3;
  mul.wide.s32 %d5, %r4, 4;
  add.s64 %d6, %d1, %d5;
  ld.global.b16 %h0, [%d4];
  cvt.f32.f16 %f0, %h0;
  ld.global.f32 %f1, [%d6];
  sub.f32 %f2, %f0, %f1;
  abs.f32 %f2, %f2;
  abs.f32 %f3, %f1;
  mov.f32 %f4, 0f3B03126F;
  fma.rn.f32 %f3, %f3, %f4, %f4;
  setp.le.f32 %p, %f2, %f3;
  mov.u16 %h1, 0x7e00;
  st.global.b16 [%d4], %h1;
  @%p bra DONE;
  mov.u32 %r5, 1;
  red.global.add.u32 [%d2], %r5;
DONE:
  ret;
}
)";
constexpr double kTolerance = 0.002;  // relative and absolute; 0f3B03126F above

constexpr char kGuardKernels[] = R"(
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0)
    tl.store(out_ptr + i + SHIFT, x, mask=inside)
)";
constexpr int kStoreLine = 11;

template <typename Handle>
std::string BytesOf(const Handle& handle) {
  return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
}

class ServingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* address = std::getenv("TESSERA_ADDRESS");
    if (std::getenv("TESSERA_TEST_GPU") == nullptr || address == nullptr)
      GTEST_SKIP() << "skipped: no GPU";
    if (driver_ == nullptr) {
      driver_ = *runtime::LoadCudaDriver();
      gpu_ = runtime::GpuContext::Create(driver_, runtime::ListGpus(*driver_)->gpus(0).uuid())
                 ->release();
    }
    auto client = Client::Connect(address, "serving test");
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    ASSERT_CUDA(driver_->cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
  }

  CUdeviceptr Malloc(uint64_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(driver_->cuMemAlloc(&address, bytes));
    return address;
  }
  absl::StatusOr<uint64_t> ImportIpc(CUdeviceptr address) {
    CUipcMemHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetMemHandle(&handle, address));
    return client_->ImportCudaIpc(BytesOf(handle), {"cuda:0", gpu_->uuid(), 0, 0});
  }
  // One VMM allocation of at least `bytes`, exported.
  absl::StatusOr<uint64_t> MakeVmm(uint64_t bytes, CUdeviceptr* address) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = gpu_->device();
    size_t granule = 0;
    EXPECT_CUDA(driver_->cuMemGetAllocationGranularity(&granule, &properties,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    bytes = (bytes + granule - 1) / granule * granule;
    CUmemGenericAllocationHandle handle = 0;
    int fd = -1;
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(driver_->cuMemAddressReserve(address, bytes, 0, 0, 0));
    EXPECT_CUDA(driver_->cuMemCreate(&handle, bytes, &properties, 0));
    EXPECT_CUDA(driver_->cuMemMap(*address, bytes, 0, handle, 0));
    EXPECT_CUDA(driver_->cuMemSetAccess(*address, bytes, &access, 1));
    EXPECT_CUDA(driver_->cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return client_->ImportVmm({{fd, bytes}}, {"cuda:0", gpu_->uuid(), 0, 0});
  }
  struct SharedEvent {
    CUevent event = nullptr;
    uint64_t id = 0;
  };
  SharedEvent MakeEvent() {
    SharedEvent made;
    EXPECT_CUDA(
        driver_->cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CUipcEventHandle handle;
    EXPECT_CUDA(driver_->cuIpcGetEventHandle(&handle, made.event));
    auto id = client_->ImportEvent(BytesOf(handle), "cuda:0", gpu_->uuid());
    EXPECT_TRUE(id.ok()) << id.status();
    made.id = id.ok() ? *id : 0;
    return made;
  }
  void Put(CUdeviceptr to, const void* from, size_t bytes) {
    EXPECT_CUDA(driver_->cuMemcpyHtoD(to, from, bytes));
    EXPECT_CUDA(driver_->cuCtxSynchronize());
  }
  void MultiplyManyTimes(const char* kind, CUdeviceptr memory, uint64_t region);

  static const runtime::CudaDriver* driver_;
  static const runtime::GpuContext* gpu_;
  std::unique_ptr<Client> client_;
  CUstream stream_ = nullptr;
};
const runtime::CudaDriver* ServingTest::driver_ = nullptr;
const runtime::GpuContext* ServingTest::gpu_ = nullptr;

// In the shared memory, in bytes: the inputs, the weights, the bias, the outputs.
constexpr uint64_t kWeights = kInputs * kMatrixBytes;
constexpr uint64_t kBias = kWeights + kMatrixBytes;
constexpr uint64_t kOutputs = kBias + 4096;
constexpr uint64_t kAllBytes = kOutputs + kInFlight * kMatrixBytes;

std::vector<uint16_t> RandomHalves(size_t count, float scale, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<uint16_t> halves(count);
  for (uint16_t& half : halves) half = FloatToHalf(uniform(*random));
  return halves;
}

// The kernel's own formula in double precision.
std::vector<float> Reference(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                             const std::vector<uint16_t>& bias) {
  std::vector<double> weights(b.size());
  for (size_t i = 0; i < b.size(); ++i) weights[i] = HalfToFloat(b[i]);
  std::vector<float> result(kSize * kSize);
  std::vector<double> row(kSize);
  for (int64_t m = 0; m < kSize; ++m) {
    for (int64_t n = 0; n < kSize; ++n) row[n] = HalfToFloat(bias[n]);
    for (int64_t k = 0; k < kSize; ++k) {
      const double x = HalfToFloat(a[m * kSize + k]);
      for (int64_t n = 0; n < kSize; ++n) row[n] += x * weights[k * kSize + n];
    }
    for (int64_t n = 0; n < kSize; ++n) {
      const double x = row[n], inner = 0.7978845608 * (x + 0.044715 * x * x * x);
      result[m * kSize + n] = static_cast<float>(0.5 * x * (1 + std::tanh(inner)));
    }
  }
  return result;
}

void ServingTest::MultiplyManyTimes(const char* kind, CUdeviceptr memory, uint64_t region) {
  std::ifstream file(std::getenv("TESSERA_TEST_KERNELS"));
  std::stringstream source;
  source << file.rdbuf();
  auto module = client_->RegisterModule({{"fused.py", source.str()}});
  ASSERT_TRUE(module.ok()) << module.status();

  std::mt19937 random(7);
  const std::vector<uint16_t> weights = RandomHalves(kSize * kSize, 0.2f, &random);
  const std::vector<uint16_t> bias = RandomHalves(kSize, 1.0f, &random);
  Put(memory + kWeights, weights.data(), weights.size() * 2);
  Put(memory + kBias, bias.data(), bias.size() * 2);
  CUdeviceptr wanted = Malloc(kInputs * kSize * kSize * 4), wrong = Malloc(4);
  for (int i = 0; i < kInputs; ++i) {
    const std::vector<uint16_t> input = RandomHalves(kSize * kSize, 1.0f, &random);
    const std::vector<float> want = Reference(input, weights, bias);
    Put(memory + i * kMatrixBytes, input.data(), input.size() * 2);
    Put(wanted + i * want.size() * 4, want.data(), want.size() * 4);
  }
  const uint32_t zero = 0;
  Put(wrong, &zero, 4);
  const std::vector<uint16_t> nothing(kInFlight * kSize * kSize, 0x7e00);  // NaN
  Put(memory + kOutputs, nothing.data(), nothing.size() * 2);

  CUmodule own = nullptr;
  CUfunction check = nullptr;
  ASSERT_CUDA(driver_->cuModuleLoadDataEx(&own, kCheckPtx, 0, nullptr, nullptr));
  ASSERT_CUDA(driver_->cuModuleGetFunction(&check, own, "check"));
  SharedEvent ready[kInFlight], done[kInFlight];
  v1::LaunchRequest launches[kInFlight];
  for (int i = 0; i < kInFlight; ++i) {
    ready[i] = MakeEvent();
    done[i] = MakeEvent();
    v1::LaunchRequest& launch = launches[i];
    launch.set_module(module->module());
    launch.set_kernel("matmul_bias_gelu");
    launch.set_device("cuda:0");
    launch.add_grid_expressions("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)");
    auto matrix = [&](const char* name, uint64_t offset) {
      *launch.add_arguments() =
          RegionArgument(name, region, DType::kFp16, {kSize, kSize}, offset);
    };
    matrix("a_ptr", (i % kInputs) * kMatrixBytes);
    matrix("b_ptr", kWeights);
    *launch.add_arguments() = RegionArgument("bias_ptr", region, DType::kFp16, {kSize}, kBias);
    matrix("c_ptr", kOutputs + i * kMatrixBytes);
    for (const char* name : {"M", "N", "K"})
      *launch.add_arguments() = IntArgument(name, kSize);
    for (const char* row : {"stride_am", "stride_bk", "stride_cm"})
      *launch.add_arguments() = IntArgument(row, kSize);
    for (const char* column : {"stride_ak", "stride_bn", "stride_cn"})
      *launch.add_arguments() = IntArgument(column, 1);
    *launch.add_arguments() = ConstexprArgument("APPLY_GELU", BoolConstant(true));
    launch.add_wait_events(ready[i].id);
    launch.add_signal_events(done[i].id);
    launch.set_answer(v1::LaunchRequest::ENQUEUED);
  }
  auto check_output = [&](int slot) {
    CUdeviceptr out = memory + kOutputs + slot * kMatrixBytes;
    CUdeviceptr want = wanted + (slot % kInputs) * kSize * kSize * 4;
    uint32_t n = kSize * kSize;
    void* params[] = {&out, &want, &wrong, &n};
    EXPECT_CUDA(driver_->cuStreamWaitEvent(stream_, done[slot].event, 0));
    EXPECT_CUDA(driver_->cuLaunchKernel(check, n / 256, 1, 1, 256, 1, 1, 0, stream_, params,
                                        nullptr));
  };

  LaunchStream stream(client_.get());
  std::vector<bool> answered(kLaunches, false);
  int enqueued = 0;
  auto await = [&](int launch) {
    while (!answered[launch]) {
      auto answer = stream.Receive();
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->code(), 0) << answer->message();
      answered[answer->tag()] = true;
      enqueued += answer->enqueued();
    }
  };
  absl::Time begin = absl::Now();
  double first_seconds = 0;
  for (int i = 0; i < kLaunches + kInFlight; ++i) {
    const int slot = i % kInFlight;
    if (i >= kInFlight) {
      await(i - kInFlight);
      if (HasFatalFailure()) return;
      if (i == kInFlight) {
        first_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
        begin = absl::Now();
      }
      check_output(slot);
    }
    if (i >= kLaunches) continue;
    EXPECT_CUDA(driver_->cuEventRecord(ready[slot].event, stream_));
    launches[slot].set_tag(i);
    stream.Send(launches[slot]);
    stream.Flush();
  }
  const absl::Duration sending = absl::Now() - begin;
  auto ended = client_->Synchronize();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->failures_size(), 0);
  ASSERT_CUDA(driver_->cuStreamSynchronize(stream_));
  uint32_t mistakes = 0;
  EXPECT_CUDA(driver_->cuMemcpyDtoH(&mistakes, wrong, 4));
  EXPECT_EQ(mistakes, 0u) << "elements of " << uint64_t{kLaunches} * kSize * kSize
                          << " differ by more than " << kTolerance;
  std::printf("%d launches of matmul_bias_gelu %lld cubed fp16 on %s memory, events both ways: first "
              "%.2f s (compile), then %.1f us each, %d answered before they had ended, %u elements "
              "wrong\n",
              kLaunches, static_cast<long long>(kSize), kind, first_seconds,
              absl::ToDoubleMicroseconds(sending) / kLaunches, enqueued, mistakes);
}

TEST_F(ServingTest, MultipliesOnMemoryOfCudaMallocWithEventsBothWays) {
  CUdeviceptr memory = Malloc(kAllBytes);
  auto region = ImportIpc(memory);
  ASSERT_TRUE(region.ok()) << region.status();
  MultiplyManyTimes("cudaMalloc", memory, *region);
}

TEST_F(ServingTest, MultipliesOnAVmmAllocationWithEventsBothWays) {
  CUdeviceptr memory = 0;
  auto region = MakeVmm(kAllBytes, &memory);
  ASSERT_TRUE(region.ok()) << region.status();
  MultiplyManyTimes("VMM", memory, *region);
}

TEST_F(ServingTest, AGuardedLaunchReportsLineProgramAndAddressAndFaultsNobody) {
  constexpr int64_t kN = 4096;
  CUdeviceptr memory = Malloc(4 * kN * 4);
  const std::vector<int32_t> fives(4 * kN, 5);
  Put(memory, fives.data(), fives.size() * 4);
  auto region = ImportIpc(memory);
  ASSERT_TRUE(region.ok()) << region.status();
  auto module = client_->RegisterModule({{"copy.py", kGuardKernels}});
  ASSERT_TRUE(module.ok()) << module.status();
  auto launch = [&](int64_t shift) {
    v1::LaunchRequest request;
    request.set_module(module->module());
    request.set_kernel("copy");
    request.set_device("cuda:0");
    request.add_grid(kN / 1024);
    *request.add_arguments() = RegionArgument("x_ptr", *region, DType::kInt32, {kN});
    *request.add_arguments() = RegionArgument("out_ptr", *region, DType::kInt32, {kN}, 2 * kN * 4);
    *request.add_arguments() = IntArgument("n", kN);
    *request.add_arguments() = ConstexprArgument("SHIFT", IntConstant(shift));
    *request.add_arguments() = ConstexprArgument("BLOCK", IntConstant(1024));
    return client_->Launch(request);
  };
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::FIRST).ok());
  const std::vector<int32_t> sevens(kN, 7);
  Put(memory, sevens.data(), sevens.size() * 4);
  for (int64_t shift : {int64_t{1}, int64_t{1} << 38}) {  // inside the allocation; nowhere
    const absl::Status status = launch(shift).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("copy.py:", kStoreLine))) << status;
    std::printf("guarded: %s\n", std::string(status.message()).c_str());
  }
  std::vector<int32_t> after(4 * kN);
  EXPECT_CUDA(driver_->cuMemcpyDtoH(after.data(), memory, after.size() * 4));
  EXPECT_EQ(after[3 * kN], 5) << "behind the output";
  EXPECT_EQ(after[3 * kN - 1], 7);
  auto first = launch(0), second = launch(0);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_TRUE(first->guarded());
  EXPECT_FALSE(second->guarded());
  ASSERT_TRUE(client_->SetGuardPolicy(v1::GuardPolicy::ALWAYS).ok());
  EXPECT_TRUE(launch(0)->guarded());
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(client_->admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok());
  for (const auto& device : status.devices())
    if (device.name() == "cuda:0") EXPECT_EQ(device.restarts(), 0u);
  EXPECT_CUDA(driver_->cuCtxSynchronize());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
