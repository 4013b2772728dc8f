// How long a launch takes through the daemon, while the client's own kernels keep the GPU busy:
// beside a bare socket ping-pong with the same IPC events, and beside a launch in this process, all
// in one run. Prints a table; exit status 1 if a bound does not hold (only with --check, under
// MPS).
//
//   launch_latency [--rounds=N] [--check] [--no-polling]
//
// --no-polling: neither the daemon nor the client's stream looks for messages before it sleeps.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "client/cpp/client.h"
#include "client/cpp/launch_stream.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/test_kernels.h"
#include "tests/gpu/ptx_daemon.h"

extern char** environ;

namespace tessera {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint64_t kBusyNs = 100000;  // one kernel of the client's own load
constexpr double kAllowedOverPingPongUs = 60, kAllowedEachOf16Us = 20;

void MustBe(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  ClientDriver().cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name == nullptr ? "?" : name);
  std::exit(1);
}
#define MUST(call) MustBe(ClientDriver().call, #call)

template <typename T>
T ValueOf(absl::StatusOr<T> value, const char* what) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

// A GPU, a kernel of our own, and a buffer for it.
struct Gpu {
  const runtime::GpuContext* context;
  CUfunction add = nullptr, spin = nullptr;
  CUdeviceptr x = 0;
  uint64_t n = kBytes / 4;

  Gpu() {
    const runtime::CudaDriver& driver = ClientDriver();
    context =
        runtime::GpuContext::Create(&driver, runtime::ListGpus(driver)->gpus(0).uuid())->release();
    CUmodule module = nullptr;
    MUST(cuModuleLoadDataEx(&module, runtime::GpuTestKernel("add_one").code().c_str(), 0, nullptr,
                            nullptr));
    MUST(cuModuleGetFunction(&add, module, "add_one"));
    MUST(cuModuleGetFunction(&spin, module, "spin"));
  }
  void Add(CUdeviceptr where, CUstream stream) {
    void* params[] = {&where, &n};
    MUST(cuLaunchKernel(add, kBytes / 4 / 128, 1, 1, 128, 1, 1, 0, stream, params, nullptr));
  }
};

CUstream MakeStream() {
  CUstream stream = nullptr;
  MUST(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}
CUevent MakeEvent() {
  CUevent event = nullptr;
  MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  return event;
}
void Await(CUevent event) {
  CUresult result;
  while ((result = ClientDriver().cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
  }
  MustBe(result, "waiting for an event");
}

// The client's own load: kernels one behind the other on one multiprocessor, always two queued.
class BusyGpu {
 public:
  explicit BusyGpu(Gpu* gpu) : thread_([this, gpu] { Run(gpu); }) {}
  ~BusyGpu() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run(Gpu* gpu) {
    gpu->context->MakeCurrent();
    CUstream stream = MakeStream();
    CUevent events[2] = {MakeEvent(), MakeEvent()};
    uint64_t nanoseconds = kBusyNs;
    void* params[] = {&nanoseconds};
    for (int i = 0; !stop_; ++i) {
      MUST(cuLaunchKernel(gpu->spin, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
      MUST(cuEventRecord(events[i % 2], stream));
      while (i > 0 && ClientDriver().cuEventQuery(events[(i + 1) % 2]) == CUDA_ERROR_NOT_READY)
        std::this_thread::yield();
    }
    MUST(cuStreamSynchronize(stream));
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Times {
  std::vector<double> microseconds;
  double Quantile(double q) {
    std::sort(microseconds.begin(), microseconds.end());
    return microseconds[std::min(
        microseconds.size() - 1,
        static_cast<size_t>(q * static_cast<double>(microseconds.size())))];
  }
};

void Print(const char* what, Times times) {
  std::printf("  %-52s p50 %7.1f us   p99 %7.1f us\n", what, times.Quantile(0.5),
              times.Quantile(0.99));
}

// ---- The bare ping-pong: a second process with its own context, one byte each way.

struct PingPongSetup {
  CUipcMemHandle memory;
  CUipcEventHandle ready, done;
};

[[noreturn]] void ServePingPong(int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Gpu gpu;
  PingPongSetup setup;
  TESSERA_CHECK(read(fd, &setup, sizeof(setup)) == sizeof(setup), "the parent sends its handles");
  CUdeviceptr x = 0;
  CUevent ready = nullptr, done = nullptr;
  MUST(cuIpcOpenMemHandle(&x, setup.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  MUST(cuIpcOpenEventHandle(&ready, setup.ready));
  MUST(cuIpcOpenEventHandle(&done, setup.done));
  CUstream stream = MakeStream();
  char byte = 1;
  (void)!write(fd, &byte, 1);
  while (read(fd, &byte, 1) == 1) {
    MUST(cuStreamWaitEvent(stream, ready, 0));
    gpu.Add(x, stream);
    MUST(cuEventRecord(done, stream));
    if (write(fd, &byte, 1) != 1) break;
  }
  _exit(0);
}

class PingPong {
 public:
  explicit PingPong(Gpu* gpu) {
    int ends[2];
    TESSERA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
                  "sockets are to be had");
    fd_ = ends[0];
    fcntl(ends[1], F_SETFD, 0);  // the other process alone gets this end
    std::string flag = absl::StrCat("--ping-pong=", ends[1]);
    char self[] = "/proc/self/exe";
    char* argv[] = {self, &flag[0], nullptr};
    TESSERA_CHECK(posix_spawn(&pid_, self, nullptr, nullptr, argv, environ) == 0, "it starts");
    close(ends[1]);
    PingPongSetup setup;
    ready_ = MakeEvent();
    done_ = MakeEvent();
    MUST(cuIpcGetMemHandle(&setup.memory, gpu->x));
    MUST(cuIpcGetEventHandle(&setup.ready, ready_));
    MUST(cuIpcGetEventHandle(&setup.done, done_));
    char byte = 0;
    TESSERA_CHECK(write(fd_, &setup, sizeof(setup)) == sizeof(setup) && read(fd_, &byte, 1) == 1,
                  "the other process answers");
  }
  ~PingPong() {
    close(fd_);
    waitpid(pid_, nullptr, 0);
  }
  void Run(CUstream stream) {
    MUST(cuEventRecord(ready_, stream));
    char byte = 1;
    TESSERA_CHECK(write(fd_, &byte, 1) == 1 && read(fd_, &byte, 1) == 1, "it answers");
    Await(done_);
  }

 private:
  int fd_ = -1;
  pid_t pid_ = 0;
  CUevent ready_ = nullptr, done_ = nullptr;
};

// ---- Through the daemon.

struct Daemon {
  std::unique_ptr<PtxDaemon> process;
  std::unique_ptr<Client> client;
  v1::LaunchRequest launch;
  absl::Duration spin;
  std::unique_ptr<LaunchStream> requests;
  CUevent ready = nullptr, done = nullptr;

  Daemon(Gpu* gpu, bool polling)
      : spin(polling ? LaunchStream::DefaultSpin() : absl::ZeroDuration()) {
    std::vector<std::string> flags;
    if (!polling) flags.push_back("--socket-poll=0s");
    process = ValueOf(PtxDaemon::Start(flags), "starting a daemon");
    client = ValueOf(Client::Connect(process->address(), "latency"), "connecting");
    CUipcMemHandle memory;
    MUST(cuIpcGetMemHandle(&memory, gpu->x));
    auto bytes = [](const auto& handle) {
      return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
    };
    const uint64_t region =
        ValueOf(client->ImportCudaIpc(bytes(memory), {"cuda:0", gpu->context->uuid(), 0, 0}),
                "importing memory");
    ready = MakeEvent();
    done = MakeEvent();
    CUipcEventHandle handle;
    MUST(cuIpcGetEventHandle(&handle, ready));
    launch.add_wait_events(
        ValueOf(client->ImportEvent(bytes(handle), "cuda:0", gpu->context->uuid()), "an event"));
    MUST(cuIpcGetEventHandle(&handle, done));
    launch.add_signal_events(
        ValueOf(client->ImportEvent(bytes(handle), "cuda:0", gpu->context->uuid()), "an event"));
    requests = std::make_unique<LaunchStream>(client.get(), spin);
    launch.set_session(client->session());
    launch.set_module(
        ValueOf(client->RegisterModule({{"kernels.py", kPtxModule}}), "a module").module());
    launch.set_kernel("add_one");
    launch.add_grid(kBytes / 4 / 128);
    launch.set_answer(v1::LaunchRequest::ENQUEUED);
    *launch.add_arguments() =
        RegionArgument("p0", region, DType::kInt32, {static_cast<int64_t>(kBytes / 4)});
    *launch.add_arguments() = IntArgument("p1", kBytes / 4);
    *launch.add_arguments() = ConstexprArgument("TAG", IntConstant(0));
  }
  std::string Sharing() {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    if (!client->admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok()) return "?";
    return status.devices(0).gpu().sharing();
  }
  // What gRPC alone takes.
  void Echo() {
    grpc::ClientContext context;
    v1::EchoMessage payload, answer;
    payload.set_payload(std::string(300, 'x'));
    TESSERA_CHECK(client->admin().Echo(&context, payload, &answer).ok(), "the daemon answers");
  }
  // One launch at a time on a stream of requests. Time until it is enqueued.
  absl::Duration RunOnStream(CUstream stream) {
    const absl::Time begin = absl::Now();
    MUST(cuEventRecord(ready, stream));
    requests->Send(launch);
    const v1::LaunchResponse response = ValueOf(requests->Receive(), "an answer");
    TESSERA_CHECK(response.code() == 0, "the daemon launches");
    const absl::Duration enqueued = absl::Now() - begin;
    Await(done);
    return enqueued;
  }
  // The same on a stream of gRPC's own, where the client sleeps until the answer is there.
  void RunOnPlainStream(CUstream stream) {
    MUST(cuEventRecord(ready, stream));
    ValueOf(client->LaunchOnStream(launch), "a launch");
    Await(done);
  }
  // Time until it is enqueued.
  absl::Duration Run(CUstream stream) {
    const absl::Time begin = absl::Now();
    MUST(cuEventRecord(ready, stream));
    ValueOf(client->Launch(launch), "a launch");
    const absl::Duration enqueued = absl::Now() - begin;
    Await(done);
    return enqueued;
  }
  // Microseconds a launch, with `window` of them in flight on one stream of requests.
  double Stream(int launches, int window) {
    v1::LaunchRequest request = launch;
    request.clear_wait_events();
    request.clear_signal_events();
    request.set_answer(v1::LaunchRequest::FINISHED);
    LaunchStream stream(client.get(), spin);
    const absl::Time begin = absl::Now();
    for (int sent = 0, answered = 0; answered < launches; ++answered) {
      for (; sent < launches && sent - answered < window; ++sent) stream.Send(request);
      const v1::LaunchResponse response = ValueOf(stream.Receive(), "an answer");
      if (response.code() == 0) continue;
      std::fprintf(stderr, "a launch: %s\n", response.message().c_str());
      std::exit(1);
    }
    return absl::ToDoubleMicroseconds(absl::Now() - begin) / launches;
  }
};

// Rounds of all three, one behind the other, so that clocks and neighbours are the same for them.
int Measure(int rounds, bool check, bool polling) {
  Gpu gpu;
  MUST(cuMemAlloc(&gpu.x, kBytes));
  CUstream stream = MakeStream();
  CUevent event = MakeEvent();
  PingPong ping_pong(&gpu);
  Daemon daemon(&gpu, polling);
  const std::string sharing = daemon.Sharing();
  int status = 0;
  for (bool busy : {false, true}) {
    Times in_process, bare, echo, unary, plain, enqueued, through_daemon;
    double each_of_16 = 0, each_of_1 = 0;
    {
      std::unique_ptr<BusyGpu> load;
      if (busy) load = std::make_unique<BusyGpu>(&gpu);
      for (int i = 0; i < rounds + 50; ++i) {
        auto timed = [&](Times* times, auto&& run) {
          const absl::Time begin = absl::Now();
          run();
          if (i >= 50)
            times->microseconds.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
        };
        timed(&in_process, [&] {
          gpu.Add(gpu.x, stream);
          MUST(cuEventRecord(event, stream));
          Await(event);
        });
        timed(&bare, [&] { ping_pong.Run(stream); });
        timed(&echo, [&] { daemon.Echo(); });
        timed(&unary, [&] { daemon.Run(stream); });
        timed(&plain, [&] { daemon.RunOnPlainStream(stream); });
        absl::Duration until_enqueued;
        timed(&through_daemon, [&] { until_enqueued = daemon.RunOnStream(stream); });
        if (i >= 50) enqueued.microseconds.push_back(absl::ToDoubleMicroseconds(until_enqueued));
      }
      each_of_1 = daemon.Stream(std::min(rounds, 2000), 1);
      each_of_16 = daemon.Stream(rounds, 16);
    }
    std::printf("GPU shared by %s, the client's own kernels %s:\n", sharing.c_str(),
                busy ? "keep it busy" : "leave it idle");
    Print("in this process, to completion", in_process);
    Print("bare socket ping-pong with IPC events, to completion", bare);
    Print("gRPC alone: a unary echo of 300 bytes", echo);
    Print("daemon, unary call, to completion", unary);
    Print("daemon, gRPC's own stream, to completion", plain);
    Print("daemon, stream of requests, to the answer (enqueued)", enqueued);
    Print("daemon, stream of requests, to completion", through_daemon);
    std::printf(
        "  daemon, stream of requests, no events: %.1f us each with 1 in flight, %.1f us with 16\n",
        each_of_1, each_of_16);
    if (!check || sharing != "mps" || !busy) continue;
    const double over = through_daemon.Quantile(0.5) - bare.Quantile(0.5);
    const bool holds = over <= kAllowedOverPingPongUs && each_of_16 <= kAllowedEachOf16Us;
    std::printf(
        "  %s: %.1f us over the ping-pong (at most %.0f), %.1f us each of 16 (at most %.0f)\n",
        holds ? "within bounds" : "OUT OF BOUNDS", over, kAllowedOverPingPongUs, each_of_16,
        kAllowedEachOf16Us);
    if (!holds) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::ServePtxDaemonRoles(argc, argv);
  int rounds = 2000, ping_pong = -1;
  bool check = false, polling = true;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (flag == "--check") check = true;
    if (flag == "--no-polling") polling = false;
    absl::string_view value = flag;
    if (absl::ConsumePrefix(&value, "--rounds=") && !absl::SimpleAtoi(value, &rounds)) return 2;
    value = flag;
    if (absl::ConsumePrefix(&value, "--ping-pong=") && !absl::SimpleAtoi(value, &ping_pong))
      return 2;
  }
  if (ping_pong >= 0) tessera::ServePingPong(ping_pong);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return tessera::Measure(rounds, check, polling);
}
