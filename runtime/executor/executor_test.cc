// The executor process and its client together, with kernels written in C++.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/executor/executor_client.h"
#include "runtime/executor/test_kernels.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/memory/unique_fd.h"

extern char** environ;

namespace tessera::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kPage = 4096;
constexpr absl::Duration kNoSpin = absl::ZeroDuration();

enum Kernels : uint64_t {
  kNop = 1,
  kAddOne,
  kGate,
  kGateThenSum,
  kSumInThreads,
  kOverrun,
  kSegv,
  kAbort,
  kDivide,
  kPrint,
  kFail,
  kCountPrograms
};
const std::vector<std::string>& KernelNames() {
  static const auto* names = new std::vector<std::string>{
      "nop",   "add_one", "gate",  "gate_then_sum", "sum_in_threads", "overrun", "segv",
      "abort", "divide",  "print", "fail",    "count_programs"};
  return *names;
}

// Memory that the test and the executor share. `shrinkable`: as POSIX shm, it can be truncated.
class Shared {
 public:
  explicit Shared(uint64_t bytes, bool shrinkable = false) : bytes_(bytes) {
    fd_ = shrinkable ? UniqueFd(memfd_create("shrinkable", MFD_CLOEXEC))
                     : *CreateSealedMemory("test", bytes);
    if (shrinkable) EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0);
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Shared() { munmap(data_, bytes_); }
  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  uint64_t bytes_;
  UniqueFd fd_;
  void* data_;
};

// The other side of the gate kernels.
class Gate {
 public:
  explicit Gate(const Shared& shared) : words_(shared.as<std::atomic<uint64_t>>()) {}
  void AwaitEntered() {
    while (words_[0].load() == 0) std::this_thread::yield();
  }
  void Open() { words_[1].store(1); }

 private:
  std::atomic<uint64_t>* words_;
};

// The result of one launch, and how often the callback ran.
class Outcome {
 public:
  ExecutorClient::DoneCallback Callback() {
    return [this](LaunchResult result) {
      std::lock_guard<std::mutex> lock(mutex_);
      result_ = std::move(result);
      thread_ = std::this_thread::get_id();
      ++calls_;
      changed_.notify_all();
    };
  }
  LaunchResult Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return calls_ > 0; });
    return result_;
  }
  absl::Status AwaitStatus() { return Await().status; }
  int calls() {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  std::thread::id thread() const { return thread_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  LaunchResult result_;
  std::thread::id thread_;
};

class ExecutorTest : public ::testing::Test {
 protected:
  void Start(ExecutorOptions options = TestExecutorOptions()) {
    options.on_death = [this](const absl::Status& reason) {
      std::lock_guard<std::mutex> lock(mutex_);
      deaths_.push_back(std::string(reason.message()));
      changed_.notify_all();
    };
    auto started = ExecutorClient::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    executor_ = *std::move(started);
    uint64_t kernel = 1;
    for (const std::string& name : KernelNames())
      ASSERT_TRUE(executor_->LoadKernel(kernel++, TestKernel(name)).ok());
  }
  void Map(uint64_t region, const Shared& memory) {
    const absl::Status status = executor_->MapRegion(region, memory.fd(), 0, memory.bytes(), false);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Submit(uint64_t kernel, const std::vector<LaunchParam>& params, Outcome* outcome,
              absl::Duration spin = kNoSpin) {
    LaunchCommand command;
    command.kernel = kernel;
    command.params = params.data();
    command.num_params = static_cast<uint32_t>(params.size());
    executor_->Submit(command, spin, outcome->Callback());
  }
  LaunchResult Launch(uint64_t kernel, const std::vector<LaunchParam>& params,
                      absl::Duration spin = kNoSpin) {
    Outcome outcome;
    Submit(kernel, params, &outcome, spin);
    return outcome.Await();
  }
  // Kills the executor, waiting for one that is just being started.
  void KillExecutor() {
    while (kill(executor_->pid(), SIGKILL) != 0) std::this_thread::yield();
  }
  void AwaitDeaths(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return deaths_.size() >= count; });
  }
  std::vector<std::string> deaths() {
    std::lock_guard<std::mutex> lock(mutex_);
    return deaths_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> deaths_;
  std::unique_ptr<ExecutorClient> executor_;  // ends first
};

TEST_F(ExecutorTest, RunsLaunchesOnSharedMemory) {
  Start();
  Shared memory(2 * kPage);
  Map(5, memory);
  for (const absl::Duration spin : {kNoSpin, absl::Milliseconds(100)}) {
    const int32_t before = memory.as<int32_t>()[10];
    const LaunchResult result = Launch(kAddOne, {{5, 40, 400}, {0, 100, 0}}, spin);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_GE(result.queue_seconds, 0);
    EXPECT_GT(result.kernel_seconds, 0);
    EXPECT_LT(result.kernel_seconds + result.queue_seconds, 10);
    EXPECT_EQ(memory.as<int32_t>()[9], 0);
    EXPECT_EQ(memory.as<int32_t>()[10], before + 1);
    EXPECT_EQ(memory.as<int32_t>()[109], before + 1);
    EXPECT_EQ(memory.as<int32_t>()[110], 0);
  }
  EXPECT_EQ(executor_->in_flight(), 0u);
  EXPECT_NE(executor_->pid(), getpid());
}

TEST_F(ExecutorTest, APartOfALaunchRunsBeforeTheOneThatIsTimed) {
  Start();
  const struct {
    uint64_t part;
    std::vector<int32_t> runs;  // of each program instance
  } cases[] = {
      {3, {1, 1, 1, 1, 1, 1, 0, 0, 0, 0}},
      {5, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {7, {1, 1, 1, 2, 2, 2, 2, 1, 1, 1}},
      {10, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
      {11, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
      {0, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
  };
  uint64_t region = 5;
  for (const auto& one : cases) {
    Shared memory(kPage);
    Map(++region, memory);
    const std::vector<LaunchParam> params = {{region, 0, 40}};
    LaunchCommand command;
    command.kernel = kCountPrograms;
    command.grid[0] = 5;
    command.grid[2] = 2;
    command.params = params.data();
    command.num_params = 1;
    command.part = one.part;
    Outcome counted;
    executor_->Submit(command, kNoSpin, counted.Callback());
    ASSERT_TRUE(counted.Await().status.ok());
    EXPECT_EQ(std::vector<int32_t>(memory.as<int32_t>(), memory.as<int32_t>() + 10), one.runs) << one.part;
  }
  LaunchCommand command;
  command.kernel = kFail;
  command.part = 1;
  Outcome failed;
  executor_->Submit(command, kNoSpin, failed.Callback());
  EXPECT_EQ(failed.Await().status.code(), absl::StatusCode::kAborted);
}

TEST_F(ExecutorTest, PolledLaunchEndsOnTheCallersThread) {
  Start();
  // Unless the completion thread is busy with the launch before, or other work on these cores keeps
  // the caller from polling: that passes.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    Outcome outcome;
    Submit(kNop, {}, &outcome, absl::Seconds(10));
    ASSERT_TRUE(outcome.AwaitStatus().ok());
    if (outcome.thread() == std::this_thread::get_id()) return;
  }
  FAIL() << "no launch of a minute ended inline";
}

TEST_F(ExecutorTest, MapsRegionsFromAnOffset) {
  Start();
  Shared memory(3 * kPage);
  ASSERT_TRUE(executor_->MapRegion(1, memory.fd(), 5000, 1000, false).ok());
  ASSERT_TRUE(Launch(kAddOne, {{1, 0, 1000}, {0, 250, 0}}).status.ok());
  EXPECT_EQ(memory.as<int32_t>()[1249], 0);
  EXPECT_EQ(memory.as<int32_t>()[1250], 1);
  EXPECT_EQ(memory.as<int32_t>()[1499], 1);
  EXPECT_EQ(memory.as<int32_t>()[1500], 0);
}

TEST_F(ExecutorTest, ChecksArgumentsBeforeTheKernelRuns) {
  Start();
  Shared memory(kPage);
  Map(1, memory);
  struct Case {
    std::vector<LaunchParam> params;
    absl::StatusCode code;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{{1, 0, kPage + 1}, {0, 1, 0}}, absl::StatusCode::kOutOfRange, "'p0' of kernel add_one"},
      {{{1, kPage + 1, 0}, {0, 1, 0}},
       absl::StatusCode::kOutOfRange,
       "region 1, which has 4096 bytes"},
      {{{1, ~uint64_t{0}, 2}, {0, 1, 0}}, absl::StatusCode::kOutOfRange, "region 1"},
      {{{2, 0, 4}, {0, 1, 0}}, absl::StatusCode::kNotFound, "region 2 is not mapped"},
      {{{0, 0x7fff0000, 4}, {0, 1, 0}}, absl::StatusCode::kInvalidArgument, "an address was given"},
      {{{1, 0, 4}, {1, 0, 4}}, absl::StatusCode::kInvalidArgument, "'p1' of kernel add_one"},
      {{{1, 0, 4}}, absl::StatusCode::kInvalidArgument, "takes 2 parameters, the launch has 1"},
  };
  for (const Case& test : cases) {
    const absl::Status status = Launch(kAddOne, test.params).status;
    EXPECT_EQ(status.code(), test.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.text));
  }
  EXPECT_EQ(Launch(77, {}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(memory.as<int32_t>()[0], 0);
  EXPECT_EQ(executor_->restarts(), 0u);
}

TEST_F(ExecutorTest, RefusesBadRegionsAndKernels) {
  Start();
  Shared memory(kPage);
  EXPECT_EQ(executor_->MapRegion(1, memory.fd(), 0, kPage + 1, false).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(executor_->MapRegion(0, memory.fd(), 0, kPage, false).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->MapRegion(1, -1, 0, kPage, false).code(),
            absl::StatusCode::kInvalidArgument);
  Map(1, memory);
  EXPECT_EQ(executor_->MapRegion(1, memory.fd(), 0, kPage, false).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(executor_->LoadKernel(100, TestKernel("reject")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->LoadKernel(kNop, TestKernel("nop")).code(),
            absl::StatusCode::kAlreadyExists);
  storage::Artifact foreign = TestKernel("nop");
  foreign.mutable_metadata()->set_target("sm_90a");
  EXPECT_EQ(executor_->LoadKernel(101, foreign).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ExecutorTest, HandsOverFailuresAndPrintedOutput) {
  Start();
  EXPECT_EQ(Launch(kFail, {}).status, absl::AbortedError("device_assert failed: x > 0"));
  EXPECT_EQ(Launch(kPrint, {{0, 2, 0}}).printed, "fifteen letters\nfifteen letters\n");
  EXPECT_EQ(Launch(kNop, {}).printed, "");
  const LaunchResult flood = Launch(kPrint, {{0, 1000000, 0}});
  EXPECT_TRUE(flood.status.ok());
  EXPECT_LT(flood.printed.size(), 1u << 20);
  EXPECT_THAT(flood.printed, HasSubstr("more bytes left out]"));
}

TEST_F(ExecutorTest, RegionIsUnmappedBehindTheLaunchesBeforeIt) {
  Start();
  Shared gate_memory(kPage), memory(kPage);
  Map(1, gate_memory);
  Map(2, memory);
  Gate gate(gate_memory);
  Outcome running, queued, late;
  Submit(kGate, {{1, 0, 16}}, &running);
  Submit(kAddOne, {{2, 0, 4}, {0, 1, 0}}, &queued);
  executor_->UnmapRegion(1);
  executor_->UnmapRegion(2);
  Submit(kAddOne, {{2, 0, 4}, {0, 1, 0}}, &late);
  gate.AwaitEntered();
  gate.Open();
  EXPECT_TRUE(running.AwaitStatus().ok());
  EXPECT_TRUE(queued.AwaitStatus().ok());
  EXPECT_EQ(late.AwaitStatus().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(memory.as<int32_t>()[0], 1);
}

TEST_F(ExecutorTest, UnloadedKernelIsNotFound) {
  Start();
  executor_->UnloadKernel(kNop);
  EXPECT_EQ(Launch(kNop, {}).status.code(), absl::StatusCode::kNotFound);
}

TEST_F(ExecutorTest, MoreLaunchesThanTheRingHoldsAllRunInOrder) {
  ExecutorOptions options = TestExecutorOptions();
  options.ring_bytes = 4096;
  Start(options);
  Shared gate_memory(kPage), memory(kPage);
  Map(1, gate_memory);
  Map(2, memory);
  Gate gate(gate_memory);
  Outcome running;
  Submit(kGate, {{1, 0, 16}}, &running);
  gate.AwaitEntered();
  constexpr int kCount = 2000;
  std::vector<Outcome> outcomes(kCount);
  for (Outcome& outcome : outcomes) Submit(kAddOne, {{2, 0, 4}, {0, 1, 0}}, &outcome);
  EXPECT_EQ(executor_->in_flight(), kCount + 1u);
  executor_->UnmapRegion(2);
  Outcome late;
  Submit(kAddOne, {{2, 0, 4}, {0, 1, 0}}, &late);
  gate.Open();
  for (Outcome& outcome : outcomes) ASSERT_TRUE(outcome.AwaitStatus().ok());
  EXPECT_EQ(late.AwaitStatus().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(memory.as<int32_t>()[0], kCount);
}

TEST_F(ExecutorTest, CallbacksMaySubmit) {
  Start();
  std::atomic<int> left{200};
  Outcome last;
  std::function<void(LaunchResult)> next = [&](LaunchResult result) {
    if (!result.status.ok() || --left == 0) return last.Callback()(std::move(result));
    LaunchCommand command;
    command.kernel = kNop;
    executor_->Submit(command, left % 2 == 0 ? absl::Microseconds(20) : kNoSpin, next);
  };
  LaunchCommand command;
  command.kernel = kNop;
  executor_->Submit(command, kNoSpin, next);
  EXPECT_TRUE(last.AwaitStatus().ok());
  EXPECT_EQ(left.load(), 0);
}

TEST_F(ExecutorTest, FaultsCostTheKernelItsRightToRunAndNobodyElse) {
  Start();
  Shared memory(kPage), gate_memory(kPage);
  Map(1, memory);
  std::vector<uint64_t> culprits;
  const std::vector<std::pair<uint64_t, std::string>> faults = {
      {kSegv, "SIGSEGV at address 0x8"}, {kAbort, "SIGABRT"}, {kDivide, "SIGFPE"}};
  for (const auto& [kernel, text] : faults) {
    Outcome innocent_before, culprit, innocent_behind;
    Submit(kNop, {}, &innocent_before);
    Submit(kernel, {}, &culprit);
    Submit(kNop, {}, &innocent_behind);
    EXPECT_TRUE(innocent_before.AwaitStatus().ok()) << innocent_before.AwaitStatus();
    const absl::Status status = culprit.AwaitStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(" (number ", kernel, ")")));
    EXPECT_THAT(std::string(status.message()), HasSubstr("while it ran kernel "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("which is quarantined now"));
    culprits.push_back(kernel);
    EXPECT_EQ(executor_->quarantined(), culprits);
    EXPECT_EQ(Launch(kernel, {}).status.code(), absl::StatusCode::kFailedPrecondition);
    // Regions and kernels are there again.
    EXPECT_TRUE(Launch(kAddOne, {{1, 0, 4}, {0, 1, 0}}).status.ok());
    innocent_behind.Await();  // ran before or failed with the executor, but is answered
  }
  EXPECT_EQ(memory.as<int32_t>()[0], 3);
  EXPECT_EQ(executor_->restarts(), 3u);
  EXPECT_EQ(deaths().size(), 3u);
}

TEST_F(ExecutorTest, OverrunNamesTheRegion) {
  Start();
  Shared memory(kPage);
  Map(31, memory);
  const absl::Status status = Launch(kOverrun, {{31, 0, kPage}, {0, kPage + 8, 0}}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SIGSEGV"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("8 bytes past the end of region 31"));
  EXPECT_THAT(executor_->quarantined(), ElementsAre(kOverrun));
}

TEST_F(ExecutorTest, KillIsNoFaultOfTheKernel) {
  Start();
  Shared gate_memory(kPage);
  Map(1, gate_memory);
  Gate gate(gate_memory);
  Outcome running, waiting;
  Submit(kGate, {{1, 0, 16}}, &running);
  Submit(kNop, {}, &waiting);
  gate.AwaitEntered();
  KillExecutor();
  for (Outcome* outcome : {&running, &waiting}) {
    const absl::Status status = outcome->AwaitStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("SIGKILL"));
  }
  EXPECT_THAT(executor_->quarantined(), ElementsAre());
  gate.Open();
  EXPECT_TRUE(Launch(kGate, {{1, 0, 16}}).status.ok());
}

TEST_F(ExecutorTest, EndlessLaunchIsKilledInTime) {
  ExecutorOptions options = TestExecutorOptions();
  options.kill_after = absl::Milliseconds(100);
  Start(options);
  Shared gate_memory(kPage);
  Map(1, gate_memory);
  const absl::Time before = absl::Now();
  const absl::Status status = Launch(kGate, {{1, 0, 16}}).status;
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(100));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ran longer than 100ms while it ran kernel gate (number 3)"));
  EXPECT_TRUE(Launch(kNop, {}).status.ok());
  EXPECT_THAT(executor_->quarantined(), ElementsAre());
}

TEST_F(ExecutorTest, CrashWhileLoadingFailsThatLoadOnly) {
  Start();
  storage::Artifact bad = TestKernel("crash_on_load");
  const absl::Status status = executor_->LoadKernel(200, bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("SIGSEGV"));
  EXPECT_TRUE(Launch(kNop, {}).status.ok());
  EXPECT_EQ(deaths().size(), 1u);
}

TEST_F(ExecutorTest, TruncatedMemoryFailsTheLaunchAndNothingElse) {
  Start();
  constexpr uint64_t kBytes = 16 * kPage;
  for (const uint64_t kernel : {kGateThenSum, kSumInThreads}) {
    const uint64_t gate_id = 10 * kernel, memory_id = gate_id + 1;
    Shared gate_memory(kPage), memory(kBytes, /*shrinkable=*/true);
    Map(gate_id, gate_memory);
    Map(memory_id, memory);
    Gate gate(gate_memory);
    Outcome outcome;
    Submit(kernel, {{gate_id, 0, 24}, {memory_id, 0, kBytes}, {0, kBytes, 0}}, &outcome);
    gate.AwaitEntered();
    ASSERT_EQ(ftruncate(memory.fd(), kPage), 0);
    gate.Open();
    absl::Status status = outcome.AwaitStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("region ", memory_id, " vanished")));
    status = Launch(kernel, {{gate_id, 0, 24}, {memory_id, 0, 16}, {0, 16, 0}}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
  EXPECT_TRUE(Launch(kNop, {}).status.ok());
  EXPECT_EQ(executor_->restarts(), 0u);
}

TEST_F(ExecutorTest, RestartLeavesOutARegionThatIsGone) {
  Start();
  Shared gone(2 * kPage, /*shrinkable=*/true), stays(kPage);
  Map(1, gone);
  Map(2, stays);
  ASSERT_EQ(ftruncate(gone.fd(), kPage), 0);
  KillExecutor();
  AwaitDeaths(1);
  EXPECT_EQ(Launch(kAddOne, {{2, 0, 4}, {0, 1, 0}}).status, absl::OkStatus());
  EXPECT_EQ(Launch(kAddOne, {{1, 0, 4}, {0, 1, 0}}).status.code(), absl::StatusCode::kNotFound);
}

// Four threads launch and map while the executor is killed again and again: every launch is
// answered once, what succeeded did its work, and afterwards everything still runs.
TEST_F(ExecutorTest, AnswersEveryLaunchOnceThroughAHundredKills) {
  constexpr int kThreads = 4;
  constexpr int kKills = 100;
  Start();
  std::vector<std::unique_ptr<Shared>> memories;
  for (int i = 0; i < kThreads; ++i) {
    memories.push_back(std::make_unique<Shared>(kPage));
    Map(1 + i, *memories.back());
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> submitted{0}, answered{0}, succeeded{0}, wrong{0};
  std::atomic<uint64_t> next_region{1000};
  auto work = [&](int index) {
    int32_t* counter = memories[index]->as<int32_t>();
    std::mt19937 random(index);
    Shared extra(kPage);
    while (!stop.load()) {
      // Alone on its memory: the counter tells whether the launch ran.
      const int32_t before = *static_cast<volatile int32_t*>(counter);
      ++submitted;
      Outcome outcome;
      Submit(kAddOne, {{static_cast<uint64_t>(1 + index), 0, 4}, {0, 1, 0}}, &outcome,
             random() % 2 == 0 ? kNoSpin : absl::Microseconds(30));
      const absl::Status status = outcome.AwaitStatus();
      ++answered;
      const int32_t ran = *static_cast<volatile int32_t*>(counter) - before;
      if (status.ok()) {
        ++succeeded;
        if (ran != 1) ++wrong;
      } else if (status.code() != absl::StatusCode::kUnavailable || ran > 1) {
        ++wrong;
      }
      if (outcome.calls() != 1) ++wrong;
      if (random() % 16 == 0) {
        const uint64_t region = next_region++;
        if (executor_->MapRegion(region, extra.fd(), 0, kPage, false).ok()) {
          if (random() % 2 == 0) executor_->UnmapRegion(region);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  std::mt19937 random(99);
  for (int kills = 1; kills <= kKills; ++kills) {
    const uint64_t goal = succeeded.load() + random() % 50;
    while (succeeded.load() < goal) std::this_thread::yield();
    KillExecutor();
    AwaitDeaths(kills);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(submitted.load(), answered.load());
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(succeeded.load(), 500u);
  EXPECT_EQ(executor_->in_flight(), 0u);
  EXPECT_THAT(executor_->quarantined(), ElementsAre());
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(Launch(kAddOne, {{static_cast<uint64_t>(1 + i), 0, 4}, {0, 1, 0}}).status.ok());
  }
}

TEST_F(ExecutorTest, ManyInFlightAreAllAnsweredWhenTheExecutorDies) {
  Start();
  Shared gate_memory(kPage);
  Map(1, gate_memory);
  Gate gate(gate_memory);
  Outcome running;
  Submit(kGate, {{1, 0, 16}}, &running);
  gate.AwaitEntered();
  std::vector<Outcome> outcomes(500);
  for (Outcome& outcome : outcomes) Submit(kNop, {}, &outcome);
  KillExecutor();
  for (Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.AwaitStatus().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(outcome.calls(), 1);
  }
}

TEST_F(ExecutorTest, EndsWithItsClientAndAnswersWhatIsLeft) {
  Start();
  Shared gate_memory(kPage);
  Map(1, gate_memory);
  Gate gate(gate_memory);
  Outcome running;
  Submit(kGate, {{1, 0, 16}}, &running);
  gate.AwaitEntered();
  const pid_t pid = executor_->pid();
  executor_.reset();
  EXPECT_EQ(running.calls(), 1);
  EXPECT_EQ(running.AwaitStatus().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(deaths().size(), 0u);  // an ordered end is no death
}

TEST_F(ExecutorTest, SaysWhyAnExecutorDoesNotStart) {
  ExecutorOptions options = TestExecutorOptions();
  options.command = {"/nonexistent/tesserad"};
  EXPECT_EQ(ExecutorClient::Start(options).status().code(), absl::StatusCode::kNotFound);
  options.command = {"/bin/false"};
  const absl::Status status = ExecutorClient::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("exited with status 1"));
}

TEST_F(ExecutorTest, DiesWhenItsParentIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  char self[] = "/proc/self/exe", mode[] = "--as-parent";
  char* argv[] = {self, mode, nullptr};
  pid_t parent = 0;
  ASSERT_EQ(posix_spawn(&parent, self, &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  pid_t executor = 0;
  ASSERT_EQ(read(ends[0], &executor, sizeof(executor)), static_cast<ssize_t>(sizeof(executor)));
  close(ends[0]);
  UniqueFd executor_end(static_cast<int>(syscall(SYS_pidfd_open, executor, 0)));
  ASSERT_TRUE(executor_end.open());
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd ended = {executor_end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 10000), 1) << "the executor outlived its parent";
}

// Starts an executor whose kernel never ends, tells its process id, and waits to be killed.
int RunAsParent() {
  auto executor = ExecutorClient::Start(TestExecutorOptions());
  if (!executor.ok() || !(*executor)->LoadKernel(1, TestKernel("gate")).ok()) return 1;
  Shared memory(kPage);
  if (!(*executor)->MapRegion(1, memory.fd(), 0, kPage, false).ok()) return 1;
  const LaunchParam param = {1, 0, 16};
  LaunchCommand command;
  command.kernel = 1;
  command.params = &param;
  command.num_params = 1;
  (*executor)->Submit(command, kNoSpin, [](const LaunchResult&) {});
  Gate(memory).AwaitEntered();
  const pid_t pid = (*executor)->pid();
  if (write(STDOUT_FILENO, &pid, sizeof(pid)) != sizeof(pid)) return 1;
  for (;;) pause();
}

}  // namespace
}  // namespace tessera::runtime

int main(int argc, char** argv) {
  if (auto status = tessera::runtime::RunAsTestExecutor(argc, argv)) return *status;
  if (argc > 1 && std::strcmp(argv[1], "--as-parent") == 0) return tessera::runtime::RunAsParent();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
