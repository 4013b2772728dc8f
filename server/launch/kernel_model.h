// A kernel as the launch path sees it: parameters by index, configurations, heuristics, and the
// variants compiled so far.
#ifndef TESSERA_SERVER_LAUNCH_KERNEL_MODEL_H_
#define TESSERA_SERVER_LAUNCH_KERNEL_MODEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "cache/key/compile_key.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/compile/module_table.h"
#include "server/device/device_table.h"
#include "server/launch/expression.h"
#include "server/launch/guard_policy.h"
#include "server/launch/specialise.h"

namespace tessera::server {

struct KernelStats;

// One parameter of the compiled entry point: where its value comes from.
struct EntrySlot {
  uint32_t parameter = 0;  // index of the kernel's parameter
  bool pointer = false;
  absl::InlinedVector<uint32_t, 2> path;  // inside a tuple
};

// A compiled kernel, loaded on one device.
class Variant {
 public:
  // What it was made of, for usage records; set before the variant is shared.
  std::shared_ptr<const tessera::v1::CompileRequest> recipe;

  Variant(uint64_t id, cache::CompileKey key, const storage::KernelMetadata& metadata,
          runtime::ExecutorClient* executor, TaskPool* pool);
  ~Variant();  // unloads it, on `pool`

  const uint64_t id;  // the executor's name for it
  const cache::CompileKey key;
  const std::vector<EntrySlot> slots;
  const std::vector<std::string> notes;  // lints, for the first launch
  const storage::LaunchFacts facts;      // for checks of its launches
  const std::vector<std::string> slot_names;
  const bool guarded;                    // its accesses are checked
  std::shared_ptr<GuardRecord> guard;    // set before the variant is shared
  std::atomic<bool> notes_told{false};
  std::atomic<bool> large_checked{false};  // a launch on buffers that 32-bit offsets may not reach
  std::atomic<uint64_t> launches{0};  // since they were last written to the store
  std::atomic<uint64_t> last_use{0};  // the launcher's count of launches then

 private:
  runtime::ExecutorClient* const executor_;
  TaskPool* const pool_;
};

// Thread-safe; all but the caches is immutable.
class KernelModel {
 public:
  struct Config {
    storage::TuneConfig config;
    std::vector<std::pair<int, const storage::ConstantValue*>>
        values;  // by parameter; they point into `config`
  };
  struct Heuristic {
    int parameter = 0;
    Expression value;
  };
  // What names in expressions stand for: a parameter (>= 0), or one of these.
  enum : int { kNumWarps = -1, kNumStages = -2, kNumCtas = -3 };

  // NOT_FOUND: the module has no such kernel (the message lists those it has). INVALID_ARGUMENT: a
  // configuration or heuristic that does not fit the kernel.
  static absl::StatusOr<std::shared_ptr<KernelModel>> Create(std::shared_ptr<const Module> module,
                                                             absl::string_view kernel);

  const Module& module() const { return *module_; }
  const storage::KernelDescription& description() const { return *description_; }
  const std::string& name() const { return description_->name(); }
  const std::vector<ParameterModel>& parameters() const { return parameters_; }
  const std::vector<Config>& configs() const { return configs_; }
  const std::vector<Heuristic>& heuristics() const { return heuristics_; }
  const std::vector<int>& tuning_key() const { return tuning_key_; }
  uint64_t id() const { return id_; }  // unique in this process

  // Counters of the kernel's name; null in tests that count nothing. Set before the model is shared.
  KernelStats* stats = nullptr;

  // -1: no such parameter. `hint`: where it probably is.
  int FindParameter(absl::string_view name, int hint = 0) const;
  absl::Status UnknownParameter(absl::string_view name) const;

  // A configuration's values by parameter. INVALID_ARGUMENT: a name that is no parameter.
  absl::StatusOr<Config> ModelConfig(storage::TuneConfig config) const;

  // Parsed once per text; the cache is small, for texts come from clients.
  absl::StatusOr<std::shared_ptr<const Expression>> GridExpression(const std::string& text);

  std::shared_ptr<Variant> FindVariant(absl::string_view key) const;
  void AddVariant(const std::string& key, std::shared_ptr<Variant> variant);
  // What guarded launches showed of the variant with this key, loaded or not.
  std::shared_ptr<GuardRecord> GuardRecordOf(const std::string& key);
  // Drops variants whose last use is before `count`, save those in use; returns how many.
  int DropVariantsUnusedSince(uint64_t count);
  // Likewise those of the device with this index.
  int DropVariantsOf(int device);
  int CountVariantsOf(int device) const;
  void ForEachVariant(absl::FunctionRef<void(Variant&)> visit) const;

  // Configurations that this device's limits rule out are passed over when nobody asks for them.
  bool Usable(int config, const Device& device) const;
  void MarkUnusable(int config, const Device& device);

 private:
  KernelModel() = default;

  std::shared_ptr<const Module> module_;
  const storage::KernelDescription* description_ = nullptr;
  uint64_t id_ = 0;
  std::vector<ParameterModel> parameters_;
  absl::flat_hash_map<std::string, int> index_;
  std::vector<Config> configs_;
  std::vector<Heuristic> heuristics_;
  std::vector<int> tuning_key_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Expression>> grid_expressions_;
  absl::flat_hash_map<std::string, std::shared_ptr<Variant>> variants_;
  absl::flat_hash_map<std::string, std::shared_ptr<GuardRecord>> guards_;  // by the variant's key
  std::vector<std::pair<int, int>> unusable_;  // config, device
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_KERNEL_MODEL_H_
