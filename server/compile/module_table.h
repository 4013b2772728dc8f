// Registered modules: in memory while the daemon runs, in the store for ever.
#ifndef TESSERA_SERVER_COMPILE_MODULE_TABLE_H_
#define TESSERA_SERVER_COMPILE_MODULE_TABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cache/store/cache_store.h"
#include "proto/storage/modules.pb.h"
#include "server/compile/compile_backend.h"
#include "server/concurrency/single_flight.h"
#include "server/concurrency/task_pool.h"

namespace tessera::server {

// Immutable.
struct Module {
  std::string id;  // hex
  storage::ModuleRecord record;
  const storage::KernelDescription* FindKernel(absl::string_view name) const;
};

class ModuleTable {
 public:
  using Callback = std::function<void(absl::StatusOr<std::shared_ptr<const Module>>)>;

  // All must outlive this object.
  ModuleTable(cache::CacheStore* store, CompileBackend* backend, TaskPool* pool, Timer* timer,
              std::string compiler_build, uint64_t max_source_bytes);

  // Parses and stores `files`; the same files again are a lookup. INVALID_ARGUMENT with diagnostics
  // when they do not parse. `done` runs on any thread, the caller's included.
  void Register(std::vector<storage::SourceFile> files, absl::Duration timeout, Callback done);

  // The module if it is in memory, else null. Does not block.
  std::shared_ptr<const Module> FindLoaded(absl::string_view id) const;
  // From memory or the store; NOT_FOUND if never registered.
  void Load(const std::string& id, absl::Duration timeout, Callback done);

  // The ids of those in memory.
  std::vector<std::string> LoadedIds() const;

  // All modules of the store. Blocks.
  absl::Status ForEachStored(
      const std::function<void(const std::string& id, const storage::ModuleRecord& record)>& visit)
      const;

 private:
  // `flight` names the piece of work that callers share: registering and loading are two, for a
  // load that finds nothing must not fail a registration.
  void LoadBlocking(const std::string& flight, const std::string& id,
                    const storage::ModuleRecord* files);
  void Describe(const std::string& flight, const std::string& id, storage::ModuleRecord record,
                int attempt);
  void Publish(const std::string& flight, std::shared_ptr<const Module> module);

  cache::CacheStore* const store_;
  CompileBackend* const backend_;
  TaskPool* const pool_;
  const std::string compiler_build_;
  const uint64_t max_source_bytes_;
  SingleFlight<std::shared_ptr<const Module>> flights_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Module>> modules_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_COMPILE_MODULE_TABLE_H_
