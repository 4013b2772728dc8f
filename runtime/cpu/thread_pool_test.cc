#include "runtime/cpu/thread_pool.h"

#include <sched.h>

#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

std::vector<int> VisitCounts(ThreadPool& pool, uint64_t begin, uint64_t end, uint64_t chunk) {
  std::vector<std::atomic<int>> visits(end);
  pool.ParallelFor(begin, end, chunk, [&](uint64_t first, uint64_t last) {
    for (uint64_t i = first; i < last; ++i) visits[i].fetch_add(1);
  });
  return std::vector<int>(visits.begin(), visits.end());
}

TEST(ThreadPoolTest, VisitsEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (uint64_t end : {1, 2, 7, 64, 1000})
      for (uint64_t chunk : {1, 3, 64, 5000}) {
        std::vector<int> expected(end, 1);
        EXPECT_EQ(VisitCounts(pool, 0, end, chunk), expected) << threads << " " << end << " " << chunk;
        expected[0] = 0;
        EXPECT_EQ(VisitCounts(pool, 1, end, chunk), expected) << threads << " " << end << " " << chunk;
      }
  }
}

TEST(ThreadPoolTest, GivesPiecesOfAtMostTheChunk) {
  ThreadPool pool(3);
  std::atomic<uint64_t> largest{0};
  pool.ParallelFor(0, 1000, 7, [&](uint64_t first, uint64_t last) {
    uint64_t seen = largest.load();
    while (last - first > seen && !largest.compare_exchange_weak(seen, last - first)) {
    }
  });
  EXPECT_EQ(largest.load(), 7u);
}

TEST(ThreadPoolTest, RunsASinglePieceOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id runner;
  pool.ParallelFor(0, 8, 8, [&](uint64_t, uint64_t) { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());
}

TEST(ThreadPoolTest, UsesSeveralThreadsAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> inside{0};
  // Each piece waits for the other two: it ends only if three threads run at the same time.
  pool.ParallelFor(0, 3, 1, [&](uint64_t, uint64_t) {
    inside.fetch_add(1);
    while (inside.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 3);
}

TEST(ThreadPoolTest, WakesSleepersForEachOfManyLoops) {
  ThreadPool pool(2);
  for (int round = 0; round < 2000; ++round) {
    // Rounds of idling that end before, during and after the spin of idle threads.
    for (volatile int i = 0; i < (round % 50) * 400; i = i + 1) {
    }
    std::atomic<int> inside{0};
    pool.ParallelFor(0, 2, 1, [&](uint64_t, uint64_t) {
      inside.fetch_add(1);
      while (inside.load() < 2) std::this_thread::yield();  // hangs if the wake-up is lost
    });
  }
}

TEST(ThreadPoolTest, ServesManyCallersAtOnce) {
  ThreadPool pool(4);
  std::vector<std::thread> callers;
  std::atomic<uint64_t> total{0};
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<uint64_t> sum{0};
        const uint64_t count = 1 + (caller * 131 + round * 17) % 300;
        pool.ParallelFor(0, count, 1 + round % 5, [&](uint64_t first, uint64_t last) {
          for (uint64_t i = first; i < last; ++i) sum.fetch_add(i + 1);
        });
        ASSERT_EQ(sum.load(), count * (count + 1) / 2);
        total.fetch_add(1);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 8u * 500u);
}

TEST(ThreadPoolTest, RunsLoopsInsideLoops) {
  ThreadPool pool(3);
  std::atomic<int> visits{0};
  pool.ParallelFor(0, 20, 1, [&](uint64_t, uint64_t) {
    pool.ParallelFor(0, 20, 1, [&](uint64_t, uint64_t) { visits.fetch_add(1); });
  });
  EXPECT_EQ(visits.load(), 400);
}

TEST(ThreadPoolTest, OneToACoreIsForPoolsThatHaveThemAll) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  const int cores = CPU_COUNT(&all);
  if (cores < 2) GTEST_SKIP() << "one core";
  auto cores_of = [](ThreadPool& pool) {  // of each thread that took part
    std::mutex mutex;
    std::map<std::thread::id, int> cores;
    for (int loop = 0; loop < 200; ++loop)
      pool.ParallelFor(0, 16, 1, [&](uint64_t, uint64_t) {
        cpu_set_t own;
        sched_getaffinity(0, sizeof(own), &own);
        std::lock_guard<std::mutex> lock(mutex);
        cores[std::this_thread::get_id()] = CPU_COUNT(&own);
      });
    return cores;
  };
  std::thread([&] {
    ThreadPool pool(cores, /*one_to_a_core=*/true);
    for (const auto& [thread, count] : cores_of(pool)) EXPECT_EQ(count, 1);
  }).join();
  std::thread([&] {
    ThreadPool pool(cores - 1, /*one_to_a_core=*/true);
    for (const auto& [thread, count] : cores_of(pool)) EXPECT_EQ(count, cores);
  }).join();
}

TEST(ThreadPoolTest, SweepsCachesBetweenLoops) {
  ThreadPool pool(3);
  std::vector<int> data(1 << 20, 1);
  for (int i = 0; i < 3; ++i) {
    pool.SweepCaches();
    std::atomic<int> sum{0};
    pool.ParallelFor(0, data.size(), 1 << 16, [&](uint64_t first, uint64_t last) {
      sum += std::accumulate(data.begin() + static_cast<ptrdiff_t>(first), data.begin() + static_cast<ptrdiff_t>(last), 0);
    });
    EXPECT_EQ(sum.load(), 1 << 20);
  }
}

TEST(ThreadPoolTest, StopsWhileIdle) {
  for (int round = 0; round < 200; ++round) ThreadPool pool(3);
}

TEST(DefaultCpuThreadsTest, FollowsTheEnvironment) {
  setenv("TESSERA_CPU_THREADS", "3", 1);
  EXPECT_EQ(DefaultCpuThreads(), 3);
  unsetenv("TESSERA_CPU_THREADS");
  const int cores = DefaultCpuThreads();
  EXPECT_GE(cores, 1);
  for (const char* nonsense : {"0", "-2", "many", ""}) {
    setenv("TESSERA_CPU_THREADS", nonsense, 1);
    EXPECT_EQ(DefaultCpuThreads(), cores) << nonsense;
  }
  unsetenv("TESSERA_CPU_THREADS");
}

}  // namespace
}  // namespace tessera::runtime
