#include "runtime/cpu/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/give_way.h"

namespace tessera::runtime {
namespace {

// About 5 us where a pause takes 25 ns: long enough to catch the next launch of a busy caller, short enough not to
// starve another process on a shared core.
constexpr int kSpins = 200;

// A woken thread wakes this many others while there is work, so that the caller pays for the first ones only.
constexpr int kWakeFanOut = 2;

constexpr long kOwnCacheBytes = 1 << 20;  // where the system does not say
constexpr size_t kLineBytes = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int AllowedCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1u, std::thread::hardware_concurrency());
}

// Of the cores that are allowed, from 0.
void StayOnCore(int index) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || index-- > 0) continue;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
    return;
  }
}

// More than a core has for itself: caches do not quite forget the oldest first.
size_t SweptBytes() {
  return 3 * static_cast<size_t>(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), kOwnCacheBytes)) / 2;
}

}  // namespace

int DefaultCpuThreads() {
  if (const char* text = std::getenv("TESSERA_CPU_THREADS")) {
    const long threads = std::strtol(text, nullptr, 10);
    if (threads >= 1) return static_cast<int>(std::min(threads, 1024L));
  }
  return AllowedCores();
}

ThreadPool::ThreadPool(int threads, bool one_to_a_core)
    : one_to_a_core_(one_to_a_core && threads == AllowedCores()) {
  if (one_to_a_core) swept_.assign(SweptBytes() / sizeof(uint64_t), 1);
  for (int i = 1; i < threads; ++i)
    workers_.emplace_back([this, i] {
      if (one_to_a_core_) StayOnCore(i);
      WorkerLoop();
    });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    posted_.fetch_add(1, std::memory_order_relaxed);
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunPieces(Job* job) {
  while (true) {
    const uint64_t first = job->next.fetch_add(job->chunk, std::memory_order_relaxed);
    // Each thread steps beyond the end once, so `next` cannot wrap around for loops of fewer than 2^63 indices.
    if (first >= job->end) return;
    job->body(job->context, first, std::min(job->end, first + job->chunk));
  }
}

void ThreadPool::Run(uint64_t begin, uint64_t end, uint64_t chunk, BodyFunction body, const void* context) {
  if (begin >= end) return;
  if (workers_.empty() || end - begin <= chunk) {
    for (uint64_t first = begin; first < end; first += std::min(chunk, end - first))
      body(context, first, first + std::min(chunk, end - first));
    return;
  }
  thread_local bool stays = false;
  if (one_to_a_core_ && !stays) {
    StayOnCore(0);
    stays = true;
  }
  Job job;
  job.next.store(begin, std::memory_order_relaxed);
  job.end = end;
  job.chunk = chunk;
  job.body = body;
  job.context = context;
  int woken;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Job** tail = &jobs_;
    while (*tail != nullptr) tail = &(*tail)->following;
    *tail = &job;
    posted_.fetch_add(1, std::memory_order_relaxed);
    woken = ClaimSleepersLocked(job);
  }
  for (int i = 0; i < woken; ++i) work_.notify_one();
  RunPieces(&job);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->following;
    *link = job.following;
  }
  // No worker can join any more; wait for those inside. The last one leaves under the mutex, and may still hold it
  // when the count is seen to be 0: taking it keeps the job alive until then.
  for (int i = 0; i < kSpins && job.helpers.load(std::memory_order_relaxed) != 0; ++i) Pause();
  std::unique_lock<std::mutex> lock(mutex_);
  job.caller_sleeps = true;
  job.finished.wait(lock, [&] { return job.helpers.load(std::memory_order_relaxed) == 0; });
}

void ThreadPool::SweepCaches() {
  // All may read the same.
  if (swept_.empty()) swept_.assign(SweptBytes() / sizeof(uint64_t), 1);
  std::atomic<uint64_t> sum{0};  // or the reads would be left out
  ParallelFor(0, static_cast<uint64_t>(threads()), 1, [&](uint64_t, uint64_t) {
    uint64_t own = 0;
    for (size_t i = 0; i < swept_.size(); i += kLineBytes / sizeof(uint64_t)) own += swept_[i];
    sum.fetch_add(own, std::memory_order_relaxed);
  });
}

ThreadPool::Job* ThreadPool::FindJobLocked() {
  for (Job* job = jobs_; job != nullptr; job = job->following)
    if (job->next.load(std::memory_order_relaxed) < job->end) return job;
  return nullptr;
}

int ThreadPool::ClaimSleepersLocked(const Job& job) {
  const uint64_t next = job.next.load(std::memory_order_relaxed);
  if (next >= job.end) return 0;
  const uint64_t pieces = (job.end - next - 1) / job.chunk;  // but for the one of the caller
  const int count = static_cast<int>(std::min<uint64_t>(pieces, std::min(kWakeFanOut, sleeping_ - waking_)));
  waking_ += count;
  return count;
}

void ThreadPool::WorkerLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (Job* job = FindJobLocked()) {
      job->helpers.fetch_add(1, std::memory_order_relaxed);
      const int woken = ClaimSleepersLocked(*job);
      lock.unlock();
      for (int i = 0; i < woken; ++i) work_.notify_one();
      {
        GiveWay give_way;
        RunPieces(job);
      }
      lock.lock();
      if (job->helpers.fetch_sub(1, std::memory_order_relaxed) == 1 && job->caller_sleeps) job->finished.notify_one();
      continue;
    }
    const uint64_t seen = posted_.load(std::memory_order_relaxed);
    lock.unlock();
    for (int i = 0; i < kSpins && posted_.load(std::memory_order_relaxed) == seen; ++i) Pause();
    lock.lock();
    if (posted_.load(std::memory_order_relaxed) != seen) continue;
    // Jobs are posted under the mutex, so none can come unseen between this check and the wait.
    ++sleeping_;
    work_.wait(lock, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
    --sleeping_;
    waking_ = std::max(0, waking_ - 1);
  }
}

}  // namespace tessera::runtime
