// Compiled artifacts by what they are made of: from the store, or compiled once for all who ask.
//
// A success is stored, durably, before anybody hears of it. A failure that a retry would repeat is
// remembered for a while, so that a broken kernel in a loop costs one compile. Thread-safe; nothing
// blocks the caller.
#ifndef TESSERA_SERVER_COMPILE_COMPILE_SERVICE_H_
#define TESSERA_SERVER_COMPILE_COMPILE_SERVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/key/compile_key.h"
#include "cache/store/cache_store.h"
#include "proto/storage/artifacts.pb.h"
#include "server/compile/compile_backend.h"
#include "server/concurrency/single_flight.h"
#include "server/concurrency/task_pool.h"
#include "server/concurrency/timer.h"
#include "server/telemetry/metrics.h"

namespace tessera::server {

enum class CompileOutcome { kHit, kCompiled, kCoalesced };
const char* OutcomeName(CompileOutcome outcome);  // "hit", "compiled", "coalesced"

struct CompiledArtifact {
  cache::CompileKey key;
  std::shared_ptr<const storage::Artifact> artifact;
  CompileOutcome outcome = CompileOutcome::kHit;
  double compile_seconds = 0;  // 0 for hits
  double cpu_seconds = 0;      // likewise: what it cost, however busy the cores were
};

class CompileService {
 public:
  using Callback = std::function<void(absl::StatusOr<CompiledArtifact>)>;

  // `limits` says in words which ones compiles run under: a failure that may be theirs does not
  // outlive a change of them. All must outlive this object, and `backend` must have answered
  // everything before it goes.
  CompileService(cache::CacheStore* store, CompileBackend* backend, TaskPool* pool, Timer* timer,
                 Metrics* metrics, std::string compiler_build, absl::Duration remember_failures,
                 std::string limits = "");

  // `timeout` bounds this caller's wait, not the compile. `background`: what must be compiled is
  // no matter of hurry.
  void GetOrCompile(const storage::CompileJob& job, const cache::SourceText& source,
                    absl::Duration timeout, Callback done, bool background = false);

  // As GetOrCompile, but compiles also where the cache has the artifact, and replaces it.
  void CompileAnew(const storage::CompileJob& job, const cache::SourceText& source,
                   absl::Duration timeout, Callback done, bool background = false);

  cache::CompileKey KeyOf(const storage::CompileJob& job, const cache::SourceText& source) const {
    return cache::MakeCompileKey(job, source, compiler_build_);
  }
  // Whether a compile of it would be a look-up. Blocks on the store.
  bool IsStored(const storage::CompileJob& job, const cache::SourceText& source) const;

  // Compiles without the cache, for stage texts (`job.emit`).
  void CompileUncached(const storage::CompileJob& job, Callback done);

  uint64_t compiles() const { return compiles_.load(std::memory_order_relaxed); }
  const std::string& compiler_build() const { return compiler_build_; }

 private:
  struct Failure {
    absl::Status status;
    std::chrono::steady_clock::time_point until;
  };

  bool Join(const std::string& hash, absl::Duration timeout, Callback done);
  void Lead(const cache::CompileKey& key, const storage::CompileJob& job, bool background);
  void Compile(const cache::CompileKey& key, const storage::CompileJob& job, bool background,
               int attempt);
  void Keep(const cache::CompileKey& key, const storage::CompileJob& job,
            worker::WorkerResponse response, double seconds);
  void Fail(const cache::CompileKey& key, const storage::CompileJob& job,
            const absl::Status& status, bool remember = true);
  // Of this process, and of those before it (which reads the store).
  absl::Status RememberedFailure(const std::string& hash);
  absl::Status StoredFailure(const cache::CompileKey& key);
  void Remember(const std::string& hash, const absl::Status& status, absl::Duration how_long);

  cache::CacheStore* const store_;
  CompileBackend* const backend_;
  TaskPool* const pool_;
  Metrics* const metrics_;
  const std::string compiler_build_;
  const absl::Duration remember_failures_;
  const std::string limits_;
  SingleFlight<CompiledArtifact> flights_;
  std::atomic<uint64_t> compiles_{0};
  std::mutex mutex_;
  absl::flat_hash_map<std::string, Failure> failures_;  // by key hash
};

// What must hold of an artifact before it may be stored or launched. DATA_LOSS if it does not.
absl::Status ValidateArtifact(const storage::Artifact& artifact, const storage::CompileJob& job);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_COMPILE_SERVICE_H_
