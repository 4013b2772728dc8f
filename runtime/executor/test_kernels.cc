#include "runtime/executor/test_kernels.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/executor/executor_main.h"

namespace tessera::runtime {
namespace {

using Function = absl::Status (*)(const Launch&);

template <typename T>
T* Pointer(const Launch& launch, int index) {
  return reinterpret_cast<T*>(launch.params[index]);
}

void PassGate(std::atomic<uint64_t>* words) {
  words[0].store(1);
  while (words[1].load() == 0) std::this_thread::yield();
}

uint64_t Sum(const volatile uint8_t* bytes, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += bytes[i];
  return sum;
}

absl::Status Nop(const Launch&) { return absl::OkStatus(); }

absl::Status AddOne(const Launch& launch) {
  int32_t* x = Pointer<int32_t>(launch, 0);
  for (uint64_t i = 0; i < launch.params[1]; ++i) ++x[i];
  return absl::OkStatus();
}

absl::Status CountPrograms(const Launch& launch) {
  int32_t* x = Pointer<int32_t>(launch, 0);
  const uint64_t last = launch.last == 0 ? uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2] : launch.last;
  for (uint64_t i = launch.first; i < last; ++i) ++x[i];
  return absl::OkStatus();
}

absl::Status Gate(const Launch& launch) {
  PassGate(Pointer<std::atomic<uint64_t>>(launch, 0));
  return absl::OkStatus();
}

absl::Status GateThenSum(const Launch& launch) {
  auto* words = Pointer<std::atomic<uint64_t>>(launch, 0);
  PassGate(words);
  words[2].store(Sum(Pointer<uint8_t>(launch, 1), launch.params[2]));
  return absl::OkStatus();
}

absl::Status SumInThreads(const Launch& launch) {
  auto* words = Pointer<std::atomic<uint64_t>>(launch, 0);
  PassGate(words);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { words[2].fetch_add(Sum(Pointer<uint8_t>(launch, 1), launch.params[2])); });
  }
  for (std::thread& thread : threads) thread.join();
  return absl::OkStatus();
}

absl::Status Overrun(const Launch& launch) {
  Pointer<volatile uint8_t>(launch, 0)[launch.params[1]] = 1;
  return absl::OkStatus();
}

absl::Status Segv(const Launch&) {
  *reinterpret_cast<volatile int*>(8) = 1;
  return absl::OkStatus();
}

absl::Status Abort(const Launch&) { std::abort(); }

absl::Status Divide(const Launch&) {
  std::raise(SIGFPE);
  return absl::OkStatus();
}

absl::Status Print(const Launch& launch) {
  for (uint64_t i = 0; i < launch.params[0]; ++i) launch.print("fifteen letters\n");
  return absl::OkStatus();
}

absl::Status Fail(const Launch&) { return absl::AbortedError("device_assert failed: x > 0"); }

struct TestFunction {
  Function function;
  std::vector<const char*> parameter_types;
};

const std::map<std::string, TestFunction>& Functions() {
  static const auto* functions = new std::map<std::string, TestFunction>{
      {"nop", {Nop, {}}},
      {"add_one", {AddOne, {"*i32", "i32"}}},
      {"count_programs", {CountPrograms, {"*i32"}}},
      {"gate", {Gate, {"*i64"}}},
      {"gate_then_sum", {GateThenSum, {"*i64", "*u8", "i64"}}},
      {"sum_in_threads", {SumInThreads, {"*i64", "*u8", "i64"}}},
      {"overrun", {Overrun, {"*u8", "i64"}}},
      {"segv", {Segv, {}}},
      {"abort", {Abort, {}}},
      {"divide", {Divide, {}}},
      {"print", {Print, {"i64"}}},
      {"fail", {Fail, {}}},
      {"crash_on_load", {nullptr, {}}},
      {"reject", {nullptr, {}}},
  };
  return *functions;
}

class TestLoadedKernel : public LoadedKernel {
 public:
  explicit TestLoadedKernel(Function function) : function_(function) {}
  absl::Status Run(const Launch& launch) override { return function_(launch); }

 private:
  Function function_;
};

class TestLoader : public KernelLoader {
 public:
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const storage::Artifact& artifact) override {
    const std::string& name = artifact.metadata().kernel();
    if (name == "crash_on_load") std::raise(SIGSEGV);
    auto found = Functions().find(name);
    if (found == Functions().end() || found->second.function == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no object code for ", name));
    }
    return std::make_unique<TestLoadedKernel>(found->second.function);
  }
};

}  // namespace

storage::Artifact TestKernel(const std::string& name) {
  storage::Artifact artifact;
  artifact.mutable_metadata()->set_kernel(name);
  artifact.mutable_metadata()->set_target("test");
  int index = 0;
  for (const char* type : Functions().at(name).parameter_types) {
    storage::EntryParameter* parameter = artifact.mutable_metadata()->add_parameters();
    parameter->set_name(absl::StrCat("p", index++));
    parameter->set_type(type);
  }
  return artifact;
}

ExecutorOptions TestExecutorOptions() {
  ExecutorOptions options;
  options.command = {"/proc/self/exe"};
  options.device = "cpu:0";
  return options;
}

std::optional<int> RunAsTestExecutor(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    int fd = 0;
    if (!absl::ConsumePrefix(&argument, "--executor-fd=") || !absl::SimpleAtoi(argument, &fd))
      continue;
    return RunExecutor(
        fd, [](const std::string& target) -> absl::StatusOr<std::unique_ptr<KernelLoader>> {
          if (target != "test")
            return absl::UnimplementedError(absl::StrCat("no loader for target ", target));
          return std::make_unique<TestLoader>();
        });
  }
  return std::nullopt;
}

}  // namespace tessera::runtime
