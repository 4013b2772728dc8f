// A few threads for work that may block: disk, control messages to children, text processing.
//
// Thread-safe. Tasks run in the order they were given, as far as threads are free.
#ifndef TESSERA_SERVER_CONCURRENCY_TASK_POOL_H_
#define TESSERA_SERVER_CONCURRENCY_TASK_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::server {

class TaskPool {
 public:
  explicit TaskPool(int threads);
  // Runs what was queued, then joins.
  ~TaskPool();

  void Run(std::function<void()> task);
  // Returns when nothing is queued and nothing runs.
  void Drain();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  int running_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_CONCURRENCY_TASK_POOL_H_
