#include "server/main/roles.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/give_way.h"
#include "compiler/driver/interpreted_kernel.h"
#include "compiler/driver/worker.h"
#include "runtime/cpu/cpu_kernel_loader.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cuda/cuda_role.h"
#include "runtime/executor/executor_main.h"
#include "server/compile/child_process.h"

namespace tessera::server {
namespace {

// `--nice` from here on means SCHED_IDLE.
constexpr int kIdleClass = 19;

std::optional<int> IntegerFlag(const std::vector<std::string>& arguments,
                               absl::string_view prefix) {
  for (absl::string_view argument : arguments) {
    int value = 0;
    if (absl::ConsumePrefix(&argument, prefix) && absl::SimpleAtoi(argument, &value)) return value;
  }
  return std::nullopt;
}

std::string TextFlag(const std::vector<std::string>& arguments, absl::string_view prefix) {
  for (absl::string_view argument : arguments)
    if (absl::ConsumePrefix(&argument, prefix)) return std::string(argument);
  return "";
}

// The interpreter as a device: every access is checked against the extents of the launch.
class InterpreterKernel : public runtime::LoadedKernel {
 public:
  explicit InterpreterKernel(std::unique_ptr<compiler::InterpretedKernel> kernel)
      : kernel_(std::move(kernel)) {}

  absl::Status Run(const runtime::Launch& launch) override {
    compiler::InterpretOptions options;
    for (const runtime::MemoryExtent& extent : launch.extents)
      options.extents.push_back({extent.address, extent.bytes, extent.read_only, extent.name});
    options.program_order_seed = launch.program_order_seed;
    options.print = launch.print;
    return kernel_->Run(launch.params.data(), launch.grid, options);
  }

 private:
  std::unique_ptr<compiler::InterpretedKernel> kernel_;
};

class InterpreterLoader : public runtime::KernelLoader {
 public:
  absl::StatusOr<std::unique_ptr<runtime::LoadedKernel>> Load(
      const storage::Artifact& artifact) override {
    absl::StatusOr<std::unique_ptr<compiler::InterpretedKernel>> kernel =
        compiler::InterpretedKernel::Load(artifact);
    if (!kernel.ok()) return kernel.status();
    return std::unique_ptr<runtime::LoadedKernel>(new InterpreterKernel(*std::move(kernel)));
  }
};

int RunExecutorRole(int fd, int threads, bool one_to_a_core) {
  prctl(PR_SET_NAME, "tessera-exec");
  std::unique_ptr<runtime::ThreadPool> pool;
  return runtime::RunExecutor(
      fd, [&](const std::string& target) -> absl::StatusOr<std::unique_ptr<runtime::KernelLoader>> {
        if (target == "interpreter")
          return std::unique_ptr<runtime::KernelLoader>(new InterpreterLoader);
        if (target != "cpu")
          return absl::UnimplementedError(absl::StrCat("this executor runs no ", target, " code"));
        if (pool == nullptr)
          pool = std::make_unique<runtime::ThreadPool>(
              threads > 0 ? threads : runtime::DefaultCpuThreads(), one_to_a_core);
        return runtime::CreateCpuKernelLoader(pool.get());
      });
}

}  // namespace

bool IsChildRole(const std::vector<std::string>& arguments) {
  return !arguments.empty() &&
         (arguments[0] == "--role=worker" || arguments[0] == "--role=executor" ||
          arguments[0] == "--role=cuda-executor" || arguments[0] == "--role=probe");
}

int RunChildRole(const std::vector<std::string>& arguments) {
  if (std::optional<int> lower = IntegerFlag(arguments, "--nice=")) {
    (void)!nice(*lower);
    // The lowest priority still takes turns with what wakes up; this class does not.
    sched_param none = {};
    if (*lower >= kIdleClass) (void)sched_setscheduler(0, SCHED_IDLE, &none);
  }
  if (std::optional<int> period = IntegerFlag(arguments, "--give-way-us="); period && *period > 0)
    EnableGiveWay(std::chrono::microseconds(*period));
  if (arguments[0] == "--role=probe") {
    const std::string found = runtime::ProbeGpus().SerializeAsString();
    return std::fwrite(found.data(), 1, found.size(), stdout) == found.size() ? 0 : 1;
  }
  if (arguments[0] == "--role=worker") {
    std::optional<int> fd = IntegerFlag(arguments, "--worker-fd=");
    if (fd) {
      prctl(PR_SET_NAME, "tessera-worker");
      WatchParent(*fd);
      return compiler::RunWorker(*fd);
    }
  } else if (std::optional<int> fd = IntegerFlag(arguments, "--executor-fd=")) {
    if (arguments[0] == "--role=cuda-executor") {
      prctl(PR_SET_NAME, "tessera-cuda");
      return runtime::RunCudaExecutor(*fd, TextFlag(arguments, "--gpu="),
                                      IntegerFlag(arguments, "--poll-us=").value_or(0));
    }
    return RunExecutorRole(*fd, IntegerFlag(arguments, "--threads=").value_or(0),
                           IntegerFlag(arguments, "--one-to-a-core=").value_or(0) != 0);
  }
  std::fprintf(stderr, "tesserad: this role is started by the daemon alone\n");
  return 2;
}

}  // namespace tessera::server
