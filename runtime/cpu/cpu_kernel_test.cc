#include "runtime/cpu/cpu_kernel.h"

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

storage::KernelMetadata Metadata(int parameters, uint64_t scratch_bytes = 0, uint32_t scratch_align = 0) {
  storage::KernelMetadata metadata;
  metadata.set_kernel("k");
  for (int i = 0; i < parameters; ++i) metadata.add_parameters();
  metadata.set_scratch_bytes(scratch_bytes);
  metadata.set_scratch_align(scratch_align);
  return metadata;
}

Launch MakeLaunch(std::vector<uint64_t> params, uint32_t x, uint32_t y = 1, uint32_t z = 1) {
  Launch launch;
  launch.grid[0] = x;
  launch.grid[1] = y;
  launch.grid[2] = z;
  launch.params = std::move(params);
  return launch;
}

uint64_t Slot(void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Counts the visits of each instance in an array of std::atomic<int>.
void CountVisits(const uint64_t* params, const uint32_t*, uint64_t first, uint64_t last, KernelContext*) {
  auto* visits = reinterpret_cast<std::atomic<int>*>(params[0]);
  for (uint64_t i = first; i < last; ++i) visits[i].fetch_add(1);
}

TEST(CpuKernelTest, RunsEachInstanceOfTheGridOnce) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    CpuKernel kernel(CountVisits, Metadata(1), &pool, nullptr);
    for (int round = 0; round < 20; ++round) {  // the first unknown, the later ones known to be cheap
      std::vector<std::atomic<int>> visits(7 * 5 * 30);
      ASSERT_TRUE(kernel.Run(MakeLaunch({Slot(visits.data())}, 7, 5, 30)).ok());
      for (std::atomic<int>& count : visits) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(CpuKernelTest, RunsSomeInstancesOfTheGrid) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    CpuKernel kernel(CountVisits, Metadata(1), &pool, nullptr);
    for (auto [first, last] : std::vector<std::pair<uint64_t, uint64_t>>{
             {0, 1}, {5, 6}, {3, 200}, {0, 210}, {0, 1000}, {209, 210}, {210, 211}, {300, 400}, {7, 7}, {9, 7}}) {
      std::vector<std::atomic<int>> visits(7 * 5 * 6);
      Launch launch = MakeLaunch({Slot(visits.data())}, 7, 5, 6);
      launch.first = first;
      launch.last = last;
      uint64_t processor_ns = 0;
      launch.processor_ns = &processor_ns;
      ASSERT_TRUE(kernel.Run(launch).ok());
      for (size_t i = 0; i < visits.size(); ++i)
        ASSERT_EQ(visits[i].load(), first <= i && i < last ? 1 : 0) << first << " " << last << " " << i;
    }
  }
}

TEST(CpuKernelTest, RunsNothingForAnEmptyGrid) {
  ThreadPool pool(2);
  CpuKernel kernel(CountVisits, Metadata(1), &pool, nullptr);
  EXPECT_TRUE(kernel.Run(MakeLaunch({0}, 5, 0, 3)).ok());
}

TEST(CpuKernelTest, RefusesAWrongNumberOfParametersAndAbsurdGrids) {
  ThreadPool pool(2);
  CpuKernel kernel(CountVisits, Metadata(1), &pool, nullptr);
  EXPECT_EQ(kernel.Run(MakeLaunch({}, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernel.Run(MakeLaunch({0, 0}, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernel.Run(MakeLaunch({0}, ~0u, ~0u, ~0u)).code(), absl::StatusCode::kInvalidArgument);
}

// Fills its scratch memory with its index, dawdles, and checks that nobody else wrote there.
void UseScratch(const uint64_t* params, const uint32_t*, uint64_t first, uint64_t last, KernelContext* context) {
  auto* bad = reinterpret_cast<std::atomic<int>*>(params[0]);
  if (reinterpret_cast<uintptr_t>(context->scratch) % 256 != 0) bad->fetch_add(1);
  for (uint64_t i = first; i < last; ++i) {
    std::memset(context->scratch, static_cast<int>(i), 4096);
    for (volatile int wait = 0; wait < 1000; wait = wait + 1) {
    }
    const auto* bytes = static_cast<const unsigned char*>(context->scratch);
    for (int byte = 0; byte < 4096; ++byte)
      if (bytes[byte] != static_cast<unsigned char>(i)) bad->fetch_add(1);
  }
}

TEST(CpuKernelTest, GivesEachPieceAlignedScratchOfItsOwn) {
  ThreadPool pool(4);
  CpuKernel kernel(UseScratch, Metadata(1, 4096, 256), &pool, nullptr);
  std::atomic<int> bad{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 5; ++round) ASSERT_TRUE(kernel.Run(MakeLaunch({Slot(&bad)}, 100)).ok());
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST(CpuKernelTest, ReportsScratchThatCannotBeHad) {
  ThreadPool pool(1);
  CpuKernel kernel(UseScratch, Metadata(1, uint64_t{1} << 60, 64), &pool, nullptr);
  EXPECT_EQ(kernel.Run(MakeLaunch({0}, 1)).code(), absl::StatusCode::kResourceExhausted);
}

void FailOn37(const uint64_t* params, const uint32_t*, uint64_t first, uint64_t last, KernelContext* context) {
  if (first <= 37 && 37 < last) {
    context->failed = 1;
    context->failure_message = "index is 37";
    return;
  }
  reinterpret_cast<std::atomic<int>*>(params[0])->fetch_add(static_cast<int>(last - first));
}

TEST(CpuKernelTest, AbortsWithTheMessageOfAFailedAssertion) {
  ThreadPool pool(3);
  CpuKernel kernel(FailOn37, Metadata(1), &pool, nullptr);
  std::atomic<int> ran{0};
  EXPECT_TRUE(kernel.Run(MakeLaunch({Slot(&ran)}, 37)).ok());
  const absl::Status status = kernel.Run(MakeLaunch({Slot(&ran)}, 100000));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("index is 37"));
  EXPECT_TRUE(kernel.Run(MakeLaunch({Slot(&ran)}, 37)).ok()) << "a later launch starts afresh";
}

void PrintIndex(const uint64_t*, const uint32_t* grid, uint64_t first, uint64_t last, KernelContext* context) {
  for (uint64_t i = first; i < last; ++i) {
    const uint32_t pid[3] = {static_cast<uint32_t>(i % grid[0]), static_cast<uint32_t>(i / grid[0]), 0};
    context->print(context, pid, "i", "u32", i, 0, 2);
    context->print(context, pid, "i", "u32", i + 1, 1, 2);
  }
}

TEST(CpuKernelTest, PrintsInProgramOrder) {
  ThreadPool pool(4);
  CpuKernel kernel(PrintIndex, Metadata(0), &pool, nullptr);
  std::vector<std::string> lines;
  Launch launch = MakeLaunch({}, 2, 1);
  launch.print = [&](const std::string& line) { lines.push_back(line); };
  ASSERT_TRUE(kernel.Run(launch).ok());
  EXPECT_THAT(lines, ElementsAre("pid (0, 0, 0) idx (0) i: 0", "pid (0, 0, 0) idx (1) i: 1",
                                 "pid (1, 0, 0) idx (0) i: 1", "pid (1, 0, 0) idx (1) i: 2"));
  launch.grid[0] = 1000;
  lines.clear();
  ASSERT_TRUE(kernel.Run(launch).ok());
  ASSERT_EQ(lines.size(), 2000u);
  for (int i = 0; i < 1000; ++i) ASSERT_THAT(lines[2 * i], HasSubstr("pid (" + std::to_string(i) + ", 0, 0) idx (0)"));
}

TEST(CpuKernelTest, BoundsWhatALaunchPrints) {
  ThreadPool pool(2);
  CpuKernel kernel(PrintIndex, Metadata(0), &pool, nullptr);
  std::vector<std::string> lines;
  Launch launch = MakeLaunch({}, 40000);
  launch.print = [&](const std::string& line) { lines.push_back(line); };
  ASSERT_TRUE(kernel.Run(launch).ok());
  EXPECT_EQ(lines.size(), 65537u);
  EXPECT_EQ(lines.back(), "(14464 more values not printed)");
}

TEST(CpuKernelTest, IgnoresPrintsNobodyWants) {
  ThreadPool pool(2);
  CpuKernel kernel(PrintIndex, Metadata(0), &pool, nullptr);
  EXPECT_TRUE(kernel.Run(MakeLaunch({}, 1000)).ok());
}

// Notes the threads that ran instances.
struct Threads {
  std::mutex mutex;
  std::set<std::thread::id> ids;
};
void NoteThread(const uint64_t* params, const uint32_t*, uint64_t, uint64_t, KernelContext*) {
  auto* threads = reinterpret_cast<Threads*>(params[0]);
  std::lock_guard<std::mutex> lock(threads->mutex);
  threads->ids.insert(std::this_thread::get_id());
}

TEST(CpuKernelTest, KeepsASingleInstanceOnTheCaller) {
  ThreadPool pool(4);
  CpuKernel kernel(NoteThread, Metadata(1), &pool, nullptr);
  Threads threads;
  for (int round = 0; round < 100; ++round) ASSERT_TRUE(kernel.Run(MakeLaunch({Slot(&threads)}, 1)).ok());
  EXPECT_THAT(threads.ids, ElementsAre(std::this_thread::get_id()));
}

// Two instances that wait for one another: they end only if two threads share the launch.
void MeetOther(const uint64_t* params, const uint32_t*, uint64_t first, uint64_t last, KernelContext*) {
  auto* inside = reinterpret_cast<std::atomic<int>*>(params[0]);
  for (uint64_t i = first; i < last; ++i) {
    inside->fetch_add(1);
    while (inside->load() < 2) std::this_thread::yield();
  }
}

TEST(CpuKernelTest, SharesALaunchOfUnknownCost) {
  ThreadPool pool(2);
  CpuKernel kernel(MeetOther, Metadata(1), &pool, nullptr);
  std::atomic<int> inside{0};
  EXPECT_TRUE(kernel.Run(MakeLaunch({Slot(&inside)}, 2)).ok());
  EXPECT_EQ(inside.load(), 2);
}

TEST(CpuKernelTest, KeepsItsCodeAlive) {
  ThreadPool pool(1);
  std::weak_ptr<int> watch;
  {
    auto code = std::make_shared<int>(1);
    watch = code;
    CpuKernel kernel(CountVisits, Metadata(1), &pool, std::move(code));
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace tessera::runtime
