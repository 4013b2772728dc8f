// What a launch costs between daemon and executor: round trips of a nop kernel, alone and with 16
// in flight.
//
// Prints p50 and p99 in microseconds. `--seconds=N` sets the time of each measurement,
// `--spin-us=N` what Submit polls.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/executor/test_kernels.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

struct Settings {
  double seconds = 1;
  int spin_us = 40;
};

void Print(const char* what, std::vector<uint64_t> nanos, double per_launch_us) {
  std::sort(nanos.begin(), nanos.end());
  std::printf("%-44s p50 %7.1f us   p99 %7.1f us   %7.2f us per launch   %zu launches\n", what,
              nanos[nanos.size() / 2] * 1e-3, nanos[nanos.size() * 99 / 100] * 1e-3, per_launch_us,
              nanos.size());
}

void Pause(uint64_t nanos) {
  const uint64_t until = MonotonicNanos() + nanos;
  while (MonotonicNanos() < until) {
  }
}

void OneAtATime(ExecutorClient* executor, const char* what, absl::Duration spin, uint64_t gap_ns,
                double seconds) {
  std::vector<uint64_t> nanos;
  LaunchCommand command;
  command.kernel = 1;
  const uint64_t begin = MonotonicNanos();
  const uint64_t end = begin + static_cast<uint64_t>(seconds * 1e9);
  uint64_t paused = 0;
  while (MonotonicNanos() < end) {
    if (gap_ns > 0) Pause(gap_ns);
    paused += gap_ns;
    std::atomic<uint32_t> done{0};
    const uint64_t start = MonotonicNanos();
    executor->Submit(command, spin, [&](const LaunchResult&) {
      done.store(1);
      FutexWake(&done);
    });
    while (done.load() == 0) FutexWait(&done, 0, 1000000000);
    nanos.push_back(MonotonicNanos() - start);
  }
  const double per_launch =
      static_cast<double>(MonotonicNanos() - begin - paused) * 1e-3 / nanos.size();
  Print(what, std::move(nanos), per_launch);
}

// Keeps `depth` launches in flight; a completion submits the next one, as a stream of launches
// does.
class Stream {
 public:
  Stream(ExecutorClient* executor, double seconds)
      : executor_(executor), end_(MonotonicNanos() + static_cast<uint64_t>(seconds * 1e9)) {}

  void Run(int depth, const char* what) {
    const uint64_t begin = MonotonicNanos();
    for (int i = 0; i < depth; ++i) SubmitOne();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
    const double per_launch = static_cast<double>(MonotonicNanos() - begin) * 1e-3 / nanos_.size();
    Print(what, std::move(nanos_), per_launch);
  }

 private:
  void SubmitOne() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++running_;
    }
    LaunchCommand command;
    command.kernel = 1;
    const uint64_t start = MonotonicNanos();
    executor_->Submit(command, absl::ZeroDuration(), [this, start](const LaunchResult&) {
      const uint64_t now = MonotonicNanos();
      if (now < end_) SubmitOne();
      std::lock_guard<std::mutex> lock(mutex_);
      nanos_.push_back(now - start);
      if (--running_ == 0) changed_.notify_all();
    });
  }

  ExecutorClient* executor_;
  const uint64_t end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
  std::vector<uint64_t> nanos_;
};

int Benchmark(const Settings& settings) {
  const uint64_t before = MonotonicNanos();
  auto executor = ExecutorClient::Start(TestExecutorOptions());
  if (!executor.ok() || !(*executor)->LoadKernel(1, TestKernel("nop")).ok()) return 1;
  std::printf("start of an executor and its first kernel: %.2f ms\n",
              (MonotonicNanos() - before) * 1e-6);
  const absl::Duration spin = absl::Microseconds(settings.spin_us);
  OneAtATime(executor->get(), "1 in flight, polled", spin, 0, settings.seconds);
  OneAtATime(executor->get(), "1 in flight, polled, after a pause of 30 us", spin, 30000,
             settings.seconds);
  OneAtATime(executor->get(), "1 in flight, polled, after a pause of 1 ms", spin, 1000000,
             settings.seconds);
  OneAtATime(executor->get(), "1 in flight, callback", absl::ZeroDuration(), 0, settings.seconds);
  OneAtATime(executor->get(), "1 in flight, callback, after a pause of 30 us", absl::ZeroDuration(),
             30000, settings.seconds);
  Stream(executor->get(), settings.seconds).Run(16, "16 in flight");
  return 0;
}

}  // namespace
}  // namespace tessera::runtime

int main(int argc, char** argv) {
  if (auto status = tessera::runtime::RunAsTestExecutor(argc, argv)) return *status;
  tessera::runtime::Settings settings;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    bool ok = false;
    if (absl::ConsumePrefix(&argument, "--seconds="))
      ok = absl::SimpleAtod(argument, &settings.seconds);
    else if (absl::ConsumePrefix(&argument, "--spin-us="))
      ok = absl::SimpleAtoi(argument, &settings.spin_us);
    if (!ok) {
      std::fprintf(stderr, "usage: %s [--seconds=N] [--spin-us=N]\n", argv[0]);
      return 2;
    }
  }
  return tessera::runtime::Benchmark(settings);
}
