// Compiler workers: child processes that compile one job at a time, under limits.
//
// A job that outlives its deadline or a worker that dies costs that job alone: the worker is
// replaced and the next job runs. Every job is answered exactly once. Workers start in the
// background, at Start or with the first job; nothing waits for them.
#ifndef TESSERA_SERVER_COMPILE_WORKER_POOL_H_
#define TESSERA_SERVER_COMPILE_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/compile/child_process.h"
#include "server/compile/compile_backend.h"

namespace tessera::server {

struct WorkerPoolOptions {
  std::vector<std::string> command;  // argv of a worker; "--worker-fd=N" is appended
  int workers = 1;
  // Further workers, which take background work alone. They start with their first job. 0: such
  // work waits with the rest.
  std::vector<std::string> background_command;
  int background_workers = 0;
  uint64_t memory_bytes = 0;  // address space of a worker; 0: no limit
  absl::Duration job_limit = absl::Seconds(120);
  absl::Duration background_job_limit = absl::Seconds(600);
  // Jobs that may wait; more are refused with RESOURCE_EXHAUSTED.
  size_t queue_limit = 10000;
};

class WorkerPool : public CompileBackend {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool() override;  // Stop

  void Start() override;
  void Stop() override;
  void Run(worker::WorkerRequest request, Callback done) override;
  std::vector<BackendWorker> Workers() const override;
  size_t queued() const override;

 private:
  struct Job {
    worker::WorkerRequest request;
    Callback done;
  };
  struct Slot {
    bool background = false;
    std::thread thread;
    ChildProcess child;   // of the slot's thread alone
    BackendWorker shown;  // guarded by mutex_
  };

  void Loop(Slot* slot);
  bool EnsureRunning(Slot* slot, absl::Status* failure);
  absl::StatusOr<worker::WorkerResponse> Execute(Slot* slot, const worker::WorkerRequest& request);
  absl::StatusOr<worker::WorkerResponse> Exchange(Slot* slot, const worker::WorkerRequest& request,
                                                  bool* request_untouched);
  void Show(Slot* slot, const char* state);

  const WorkerPoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, wake_background_;
  std::deque<Job> jobs_, background_jobs_;
  bool started_ = false, stopping_ = false;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_WORKER_POOL_H_
