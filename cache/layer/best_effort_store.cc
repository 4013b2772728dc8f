#include "cache/layer/best_effort_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/layer/forwarding_store.h"

namespace tessera::cache {
namespace {

class BestEffortStore : public ForwardingStore {
 public:
  BestEffortStore(std::unique_ptr<CacheStore> behind,
                  std::function<void(absl::string_view, const absl::Status&)> on_failure,
                  std::atomic<uint64_t>* failed_writes)
      : ForwardingStore(std::move(behind)), on_failure_(std::move(on_failure)), failed_writes_(failed_writes) {}

  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return Forgive("storing an artifact of", record.artifact().metadata().kernel(), behind_->PutArtifact(key, record));
  }
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return Forgive("storing module", id, behind_->PutModule(id, record));
  }
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return Forgive("storing a tuning of", record.kernel(), behind_->PutTuning(key, record));
  }

  absl::Status PutFailure(const CompileKey& key, const storage::FailureRecord& record) override {
    return Forgive("storing a failure of", record.kernel(), behind_->PutFailure(key, record));
  }

 private:
  absl::Status Forgive(absl::string_view attempt, absl::string_view what, const absl::Status& status) {
    // A wrong argument is our own caller's fault and no weather: it stays an error.
    if (status.ok() || status.code() == absl::StatusCode::kInvalidArgument) return status;
    if (failed_writes_ != nullptr) failed_writes_->fetch_add(1, std::memory_order_relaxed);
    if (on_failure_) on_failure_(absl::StrCat(attempt, " ", what), status);
    return absl::OkStatus();
  }

  const std::function<void(absl::string_view, const absl::Status&)> on_failure_;
  std::atomic<uint64_t>* const failed_writes_;
};

}  // namespace

std::unique_ptr<CacheStore> NewBestEffortStore(
    std::unique_ptr<CacheStore> behind,
    std::function<void(absl::string_view attempt, const absl::Status& failure)> on_failure,
    std::atomic<uint64_t>* failed_writes) {
  return std::make_unique<BestEffortStore>(std::move(behind), std::move(on_failure), failed_writes);
}

}  // namespace tessera::cache
