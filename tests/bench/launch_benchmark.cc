// What a launch through the daemon costs, beside a bare gRPC echo of equal message size and an in-process call.
//
// usage: launch_benchmark --tesserad=PATH [--rounds=N] [--calls=N]
// Rounds of each kind are interleaved; the table shows the median of the rounds' p50 and p99, in microseconds.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"
#include "client/cpp/private_daemon.h"
#include "compiler/driver/driver.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server_builder.h"
#include "runtime/cpu/cpu_kernel_loader.h"

extern char** environ;

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kNop[] = R"py(
import triton
import triton.language as tl


@triton.jit
def nop(x_ptr, n, BLOCK: tl.constexpr):
    pass
)py";

double MicrosSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min<size_t>(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

//===-- the bare echo -------------------------------------------------------------------------===//

// A gRPC server that does nothing but echo, in a process of its own.
class EchoService : public v1::AdminService::CallbackService {
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const v1::EchoMessage* request, v1::EchoMessage* response) override {
    *response = *request;
    grpc::ServerUnaryReactor* call = context->DefaultReactor();
    call->Finish(grpc::Status::OK);
    return call;
  }
};

int RunEchoServer(const std::string& address) {
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  server->Wait();
  return 0;
}

struct EchoProcess {
  pid_t pid = -1;
  std::string address;
  explicit EchoProcess(const std::string& folder) : address("unix:" + folder + "/echo.sock") {
    std::string self = "/proc/self/exe", flag = "--echo-server=" + address;
    char* argv[] = {self.data(), flag.data(), nullptr};
    if (posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv, environ) != 0) pid = -1;
  }
  ~EchoProcess() {
    if (pid < 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
};

//===-- kinds of calls ------------------------------------------------------------------------===//

// Of the launches measured so far: what the daemon reports between submission and start on the device.
std::vector<double> queue_micros;

// Runs `calls` calls and returns the time of each.
using Round = std::function<absl::StatusOr<std::vector<double>>(int calls)>;

Round Unary(Client& client, const v1::LaunchRequest& request) {
  return [&client, request](int calls) -> absl::StatusOr<std::vector<double>> {
    std::vector<double> micros;
    for (int i = 0; i < calls; ++i) {
      grpc::ClientContext context;
      v1::LaunchResponse response;
      auto begin = Clock::now();
      grpc::Status status = client.launches().Launch(&context, request, &response);
      micros.push_back(MicrosSince(begin));
      if (!status.ok()) return StatusOf(status, context);
      queue_micros.push_back(response.queue_seconds() * 1e6);
    }
    return micros;
  };
}

// `window` launches in flight; the time of one is the wall time over their number.
Round Streamed(Client& client, const v1::LaunchRequest& request, int window) {
  return [&client, request, window](int calls) -> absl::StatusOr<std::vector<double>> {
    grpc::ClientContext context;
    auto stream = client.launches().LaunchStream(&context);
    v1::LaunchResponse response;
    std::vector<double> micros;
    for (int i = 0; i < window; ++i) stream->Write(request);
    for (int i = 0; i < window * 4; ++i) {  // settle
      if (!stream->Read(&response)) return StatusOf(stream->Finish(), context);
      stream->Write(request);
    }
    for (int done = 0; done < calls; done += window) {
      auto begin = Clock::now();
      for (int i = 0; i < window; ++i) {
        if (!stream->Read(&response)) return StatusOf(stream->Finish(), context);
        if (response.code() != 0) return absl::InternalError(response.message());
        stream->Write(request);
      }
      micros.push_back(MicrosSince(begin) / window);
    }
    stream->WritesDone();
    while (stream->Read(&response)) {
    }
    grpc::Status status = stream->Finish();
    if (!status.ok()) return StatusOf(status, context);
    return micros;
  };
}

Round Echo(v1::AdminService::Stub& stub, size_t bytes) {
  return [&stub, bytes](int calls) -> absl::StatusOr<std::vector<double>> {
    v1::EchoMessage message;
    message.set_payload(std::string(bytes, 'x'));
    std::vector<double> micros;
    for (int i = 0; i < calls; ++i) {
      grpc::ClientContext context;
      v1::EchoMessage response;
      auto begin = Clock::now();
      grpc::Status status = stub.Echo(&context, message, &response);
      micros.push_back(MicrosSince(begin));
      if (!status.ok()) return StatusOf(status, context);
    }
    return micros;
  };
}

Round InProcess(runtime::LoadedKernel& kernel, void* memory) {
  return [&kernel, memory](int calls) -> absl::StatusOr<std::vector<double>> {
    runtime::Launch launch;
    launch.params = {reinterpret_cast<uint64_t>(memory), 1000};
    std::vector<double> micros;
    for (int i = 0; i < calls; ++i) {
      auto begin = Clock::now();
      RETURN_IF_ERROR(kernel.Run(launch));
      micros.push_back(MicrosSince(begin));
    }
    return micros;
  };
}

absl::StatusOr<std::unique_ptr<runtime::LoadedKernel>> CompileNop(runtime::KernelLoader& loader) {
  storage::CompileJob job;
  job.add_files()->set_text(kNop);
  job.set_kernel("nop");
  job.set_target("cpu");
  job.set_cpu_features(compiler::HostCpuFeatures());
  auto* x = job.add_parameters();
  x->set_name("x_ptr");
  x->set_type("*fp32");
  auto* n = job.add_parameters();
  n->set_name("n");
  n->set_type("i32");
  auto* block = job.add_parameters();
  block->set_name("BLOCK");
  block->mutable_constant()->set_integer(256);
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::Artifact artifact, compiler.Compile(job, &diagnostics));
  return loader.Load(artifact);
}

v1::LaunchRequest NopLaunch(Client& client, const std::string& module, const SharedBuffer& buffer) {
  v1::LaunchRequest request;
  request.set_session(client.session());
  request.set_module(module);
  request.set_kernel("nop");
  request.add_grid(1);
  *request.add_arguments() = TensorArgument("x_ptr", buffer, DType::kFp32, {1000});
  *request.add_arguments() = IntArgument("n", 1000);
  *request.add_arguments() = ConstexprArgument("BLOCK", IntConstant(256));
  return request;
}

// From exec of the daemon on a warm state directory to the result of its first launch.
absl::StatusOr<double> StartToFirstLaunch(const PrivateDaemonOptions& options, std::string* outcome) {
  auto begin = Clock::now();
  ASSIGN_OR_RETURN(auto daemon, PrivateDaemon::Start(options));
  ASSIGN_OR_RETURN(auto client, Client::Connect(daemon->address()));
  ASSIGN_OR_RETURN(auto module, client->RegisterModule({{"nop.py", kNop}}));
  ASSIGN_OR_RETURN(auto buffer, client->Allocate(4000));
  ASSIGN_OR_RETURN(v1::LaunchResponse response, client->Launch(NopLaunch(*client, module.module(), *buffer)));
  *outcome = response.outcome();
  return MicrosSince(begin) / 1e3;
}

absl::Status Run(const std::string& tesserad, int rounds, int calls) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera_bench.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("no temporary folder");
  struct Remove {
    std::string folder;
    ~Remove() { std::filesystem::remove_all(folder); }
  } remove{folder};
  EchoProcess echo(folder);
  PrivateDaemonOptions options;
  options.binary = tesserad;
  options.state_dir = folder + "/state";
  {
    ASSIGN_OR_RETURN(auto daemon, PrivateDaemon::Start(options));
    ASSIGN_OR_RETURN(auto client, Client::Connect(daemon->address()));
    ASSIGN_OR_RETURN(auto module, client->RegisterModule({{"nop.py", kNop}}));
    ASSIGN_OR_RETURN(auto buffer, client->Allocate(4000));
    v1::LaunchRequest request = NopLaunch(*client, module.module(), *buffer);
    RETURN_IF_ERROR(client->Launch(request).status());
    auto stub = v1::AdminService::NewStub(grpc::CreateChannel(echo.address, grpc::InsecureChannelCredentials()));
    for (int attempt = 0; attempt < 500; ++attempt) {
      if (Echo(*stub, 1)(1).ok()) break;
      absl::SleepFor(absl::Milliseconds(10));
    }
    runtime::ThreadPool pool(1);
    std::unique_ptr<runtime::KernelLoader> loader = runtime::CreateCpuKernelLoader(&pool);
    ASSIGN_OR_RETURN(auto kernel, CompileNop(*loader));
    size_t bytes = request.ByteSizeLong();
    const std::vector<std::pair<std::string, Round>> kinds = {
        {"bare gRPC echo", Echo(*stub, bytes)},
        {"the daemon's echo", Echo(client->admin(), bytes)},
        {"launch, unary", Unary(*client, request)},
        {"launch, stream, 1 in flight", Streamed(*client, request, 1)},
        {"launch, stream, 16 in flight", Streamed(*client, request, 16)},
        {"in-process call", InProcess(*kernel, buffer->data())},
    };
    std::map<std::string, std::vector<double>> p50, p99;
    for (const auto& [name, round] : kinds) RETURN_IF_ERROR(round(calls).status());  // warm-up
    for (int r = 0; r < rounds; ++r)
      for (const auto& [name, round] : kinds) {
        ASSIGN_OR_RETURN(std::vector<double> micros, round(calls));
        p50[name].push_back(Quantile(micros, 0.5));
        p99[name].push_back(Quantile(micros, 0.99));
      }
    double base = Quantile(p50[kinds[0].first], 0.5);
    std::printf("nop kernel, request of %zu bytes, %d rounds of %d calls, %u cores\n", bytes, rounds, calls, std::thread::hardware_concurrency());
    std::printf("%-30s %10s %10s %14s\n", "", "p50 us", "p99 us", "p50 / echo");
    for (const auto& [name, round] : kinds)
      std::printf("%-30s %10.1f %10.1f %14.2f\n", name.c_str(), Quantile(p50[name], 0.5), Quantile(p99[name], 0.5), Quantile(p50[name], 0.5) / base);
    std::printf("unary launches wait %.1f us (p50) between submission and start on the device\n", Quantile(queue_micros, 0.5));
  }
  std::vector<double> starts;
  std::string outcome;
  for (int i = 0; i < 10; ++i) {
    ASSIGN_OR_RETURN(double millis, StartToFirstLaunch(options, &outcome));
    starts.push_back(millis);
  }
  std::printf("exec to first launch's result on a warm state directory (%s): median %.0f ms, worst of 10 %.0f ms\n", outcome.c_str(),
              Quantile(starts, 0.5), *std::max_element(starts.begin(), starts.end()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::string tesserad;
  int rounds = 7, calls = 3000;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (absl::StartsWith(word, "--echo-server=")) return tessera::RunEchoServer(word.substr(14));
    if (absl::StartsWith(word, "--tesserad=")) tesserad = word.substr(11);
    if (absl::StartsWith(word, "--rounds=")) rounds = std::atoi(word.c_str() + 9);
    if (absl::StartsWith(word, "--calls=")) calls = std::atoi(word.c_str() + 8);
  }
  absl::Status status = tessera::Run(tesserad, rounds, calls);
  if (!status.ok()) std::fprintf(stderr, "launch_benchmark: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
