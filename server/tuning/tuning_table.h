// The choices of configuration in force, their records in the store, and the sites that launches come for.
#ifndef TESSERA_SERVER_TUNING_TUNING_TABLE_H_
#define TESSERA_SERVER_TUNING_TUNING_TABLE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cache/store/cache_store.h"
#include "proto/storage/tunings.pb.h"
#include "server/launch/config_choices.h"
#include "server/tuning/policy.h"
#include "server/tuning/tuning_site.h"

namespace tessera::server {

// What a launch is tuned under.
struct TuningPlace {
  std::string kernel, module, source, bucket, model;
  std::string exact;   // the key's values: "M=400 N=1000"
  std::string others;  // of integers outside the key: "lda=1000"
};

// Thread-safe. Find is for the launch path: of a key seen before it costs a look-up; what changes
// records may block on the store.
class TuningTable : public ConfigChoices {
 public:
  // Both must outlive it. Load reads what is stored; records that do not read are left out.
  TuningTable(cache::CacheStore* store, const TuningPolicies* policies)
      : store_(store), policies_(policies) {}
  absl::Status Load();

  // In this order: the record for the exact values (a split bucket), for the bucket, for the nearest bucket of the same
  // types. Kernels whose policy is `fixed` have no choice.
  Choice Find(const KernelModel& kernel, const BoundLaunch& bound,
              const api::LaunchRequest* request, const Device& device) override;

  // Called for sites that are due for review. Before the first launch.
  void SetOnDue(TuningSite::OnDue on_due) { on_due_ = std::move(on_due); }

  TuningPlace PlaceOf(const KernelModel& kernel, const BoundLaunch& bound,
                      const Device& device) const;

  std::optional<storage::TuningRecord> Record(const std::string& kernel, const std::string& source,
                                              const std::string& bucket,
                                              const std::string& model) const;
  // All buckets of a kernel's source on a model.
  std::vector<storage::TuningRecord> RecordsOf(const std::string& kernel,
                                               const std::string& source,
                                               const std::string& model) const;
  absl::Status Put(storage::TuningRecord record);
  std::vector<storage::TuningRecord> List(const std::string& kernel) const;  // empty: all
  // Those that match; an empty string matches all. Returns how many.
  absl::StatusOr<uint32_t> Forget(const std::string& kernel, const std::string& module,
                                  const std::string& bucket);

  std::vector<std::shared_ptr<TuningSite>> Sites(const std::string& kernel) const;  // empty: all

 private:
  // Where launches with equal keys (AppendTuningSignature) count.
  struct Place {
    std::shared_ptr<TuningSite> site;
    std::string exact;
  };
  // What Find needs of a kernel, by KernelModel::id.
  struct KernelState {
    std::string source;
    uint64_t policy_version = 0;
    std::shared_ptr<const TuningPolicy> policy;
    // By device and bucket.
    absl::flat_hash_map<std::string, std::shared_ptr<TuningSite>> sites;
    // By device and signature; they hold for `policy`.
    absl::flat_hash_map<std::string, std::shared_ptr<const Place>> places;
  };

  std::shared_ptr<const Place> MakePlace(const KernelModel& kernel, const BoundLaunch& bound,
                                         const Device& device, const std::string& signature,
                                         std::shared_ptr<const TuningPolicy>* policy);
  std::string BucketOf(const KernelModel& kernel, const BoundLaunch& bound,
                       const TuningPolicy& policy) const;
  std::shared_ptr<TuningSite> SiteOf(const KernelModel& kernel, const std::string& bucket,
                                     const Device& device, KernelState* state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resolve(const KernelModel& kernel, TuningSite* site) const;
  TuningSite::InForce ChoiceOf(const KernelModel& kernel, const storage::TuningRecord& record,
                               std::string from) const;
  void WarnOfManyValues(const KernelModel& kernel, const KernelState& state) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  cache::CacheStore* const store_;
  const TuningPolicies* const policies_;
  TuningSite::OnDue on_due_ = [](std::shared_ptr<TuningSite>) {};
  std::atomic<uint64_t> generation_{1};  // of the records

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, KernelState> kernels_ ABSL_GUARDED_BY(mutex_);
  // By kernel, source, model and bucket: the buckets of one kernel lie side by side.
  using RecordKey = std::tuple<std::string, std::string, std::string, std::string>;
  static RecordKey KeyOf(const storage::TuningRecord& record);
  std::map<RecordKey, storage::TuningRecord> records_ ABSL_GUARDED_BY(mutex_);
};

// Whether two configurations are the same.
bool SameConfig(const storage::TuneConfig& a, const storage::TuneConfig& b);
// Whether launches with these values of the key ("M=16 N=1000 | fp16"; the other arguments alike) run the same variants:
// they differ in no fact that code is specialised for (server/launch/specialise.h).
bool SharesVariants(absl::string_view a, absl::string_view b);
// Digest of what the kernel computes: its closure.
std::string SourceDigest(const storage::KernelDescription& description);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_TUNING_TABLE_H_
