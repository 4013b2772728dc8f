// Threads that share the program instances of launches.
#ifndef TESSERA_RUNTIME_CPU_THREAD_POOL_H_
#define TESSERA_RUNTIME_CPU_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::runtime {

// Threads for CPU kernels: TESSERA_CPU_THREADS if it is a number of at least 1, else the cores this process may use.
int DefaultCpuThreads();

// A number of threads that run loops together with their callers. Several threads may call at once, also from inside a
// loop; each call takes part in its own work, so none waits for a free thread. Idle threads spin for some microseconds,
// then sleep. Thread-safe.
class ThreadPool {
 public:
  // `threads` counts the caller: a pool of 1 starts no thread. `one_to_a_core`, for measurements: where the pool has as many
  // threads as there are cores, each keeps to one of its own from then on, and whoever calls to the first one. The scheduler
  // may leave a woken thread on its waker's core for milliseconds while another core is idle (seen on Linux 6.18); but
  // where other programs compute, threads are better free to move.
  explicit ThreadPool(int threads, bool one_to_a_core = false);
  // No call may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(first, last) for pieces that cover begin <= i < end once, each of `chunk` (at least 1) indices or fewer,
  // on several threads; returns when all have finished. `body` must not throw.
  template <typename Body>
  void ParallelFor(uint64_t begin, uint64_t end, uint64_t chunk, const Body& body) {
    Run(begin, end, chunk, [](const void* context, uint64_t first, uint64_t last) {
      (*static_cast<const Body*>(context))(first, last);
    }, &body);
  }

  // Lets the threads read other memory until little is left in the caches of their cores that is not in those they share.
  // One caller at a time.
  void SweepCaches();

 private:
  using BodyFunction = void (*)(const void* context, uint64_t first, uint64_t last);

  // One loop. Lives on the stack of its caller, in jobs_ while pieces are left.
  struct Job {
    alignas(64) std::atomic<uint64_t> next;
    alignas(64) uint64_t end;
    uint64_t chunk;
    BodyFunction body;
    const void* context;
    std::atomic<int> helpers{0};  // workers inside; changes under mutex_
    bool caller_sleeps = false;   // guarded by mutex_
    std::condition_variable finished;
    Job* following = nullptr;  // in jobs_
  };

  void Run(uint64_t begin, uint64_t end, uint64_t chunk, BodyFunction body, const void* context);
  static void RunPieces(Job* job);
  void WorkerLoop();
  Job* FindJobLocked();
  // How many sleeping threads to wake for `job`; the caller notifies them when it has released the mutex.
  int ClaimSleepersLocked(const Job& job);

  const bool one_to_a_core_;
  std::vector<uint64_t> swept_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable work_;
  Job* jobs_ = nullptr;               // guarded by mutex_
  int sleeping_ = 0;                  // guarded by mutex_
  int waking_ = 0;                    // of those: notified, not yet awake; guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::atomic<uint64_t> posted_{0};   // how many jobs there were; what idle threads watch
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CPU_THREAD_POOL_H_
