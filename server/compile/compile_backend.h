// Whoever turns source text into descriptions and artifacts.
#ifndef TESSERA_SERVER_COMPILE_COMPILE_BACKEND_H_
#define TESSERA_SERVER_COMPILE_COMPILE_BACKEND_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/worker/worker.pb.h"

namespace tessera::server {

struct BackendWorker {
  int64_t pid = 0;  // 0: no process runs
  const char* state = "";  // "idle", "compiling", "starting", "stopped"
  uint64_t compiles = 0;
  uint32_t restarts = 0;
};

class CompileBackend {
 public:
  // An error status carries the source's diagnostics as its detail. Errors that a retry may cure:
  // UNAVAILABLE, INTERNAL (the worker died). DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED: a limit, named
  // with its stage.
  using Callback = std::function<void(absl::StatusOr<worker::WorkerResponse>)>;

  virtual ~CompileBackend() = default;
  // Start gets ready for requests ahead of the first. After Stop everything is answered
  // (UNAVAILABLE) and nothing more is done.
  virtual void Start() {}
  virtual void Stop() {}
  // Queues a request; `id` is chosen by the backend. `done` runs exactly once, on a thread of the
  // backend.
  virtual void Run(worker::WorkerRequest request, Callback done) = 0;
  virtual std::vector<BackendWorker> Workers() const = 0;
  // Requests that wait for a worker.
  virtual size_t queued() const { return 0; }
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_COMPILE_BACKEND_H_
