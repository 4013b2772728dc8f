// The choices of configuration in force, and their records in the store.
#ifndef TESSERA_SERVER_TUNING_TUNING_TABLE_H_
#define TESSERA_SERVER_TUNING_TUNING_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cache/store/cache_store.h"
#include "proto/storage/tunings.pb.h"
#include "server/launch/config_choices.h"

namespace tessera::server {

// Thread-safe. Find is for the launch path; the rest may block on the store.
class TuningTable : public ConfigChoices {
 public:
  // `store` must outlive it. Load reads what is stored; records that do not read are left out.
  explicit TuningTable(cache::CacheStore* store) : store_(store) {}
  absl::Status Load();

  Choice Find(const KernelModel& kernel, absl::string_view bucket,
              const Device& device) const override;

  // The record of a bucket, if there is one.
  std::optional<storage::TuningRecord> Record(const std::string& kernel, const std::string& module,
                                              const std::string& bucket,
                                              const std::string& device) const;
  absl::Status Put(storage::TuningRecord record);
  std::vector<storage::TuningRecord> List(const std::string& kernel) const;  // empty: all
  // Those that match; an empty string matches all. Returns how many.
  absl::StatusOr<uint32_t> Forget(const std::string& kernel, const std::string& module,
                                  const std::string& bucket);

 private:
  // A record with the choice resolved against the kernel that asked first.
  struct Entry {
    storage::TuningRecord record;
    mutable uint64_t resolved_for = 0;  // KernelModel::id
    mutable Choice choice;
  };

  cache::CacheStore* const store_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_;  // by cache::TuningKey
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_TUNING_TABLE_H_
