#include "cache/layer/best_effort_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::cache {
namespace {

class BestEffortStore : public CacheStore {
 public:
  BestEffortStore(std::unique_ptr<CacheStore> behind,
                  std::function<void(absl::string_view, const absl::Status&)> on_failure,
                  std::atomic<uint64_t>* failed_writes)
      : behind_(std::move(behind)), on_failure_(std::move(on_failure)), failed_writes_(failed_writes) {}

  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return Forgive("storing an artifact of", record.artifact().metadata().kernel(), behind_->PutArtifact(key, record));
  }
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return Forgive("storing module", id, behind_->PutModule(id, record));
  }
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return Forgive("storing a tuning of", record.kernel(), behind_->PutTuning(key, record));
  }

  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override {
    return behind_->FindArtifact(key);
  }
  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    return behind_->FindModule(id);
  }
  absl::StatusOr<std::vector<std::string>> ListModules() override { return behind_->ListModules(); }
  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override {
    return behind_->FindTuning(key);
  }
  absl::Status EraseTuning(absl::string_view key) override { return behind_->EraseTuning(key); }
  absl::StatusOr<std::vector<storage::TuningRecord>> ListTunings() override { return behind_->ListTunings(); }
  void AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module, uint64_t launches,
                int64_t unix_seconds) override {
    behind_->AddUsage(key, kernel, module, launches, unix_seconds);
  }
  StoreStats Stats() override { return behind_->Stats(); }
  absl::StatusOr<std::vector<ListedEntry>> List(absl::string_view family, absl::string_view prefix,
                                                uint32_t limit) override {
    return behind_->List(family, prefix, limit);
  }
  absl::StatusOr<std::vector<std::string>> Verify(uint64_t* checked) override { return behind_->Verify(checked); }

 private:
  absl::Status Forgive(absl::string_view attempt, absl::string_view what, const absl::Status& status) {
    // A wrong argument is our own caller's fault and no weather: it stays an error.
    if (status.ok() || status.code() == absl::StatusCode::kInvalidArgument) return status;
    if (failed_writes_ != nullptr) failed_writes_->fetch_add(1, std::memory_order_relaxed);
    if (on_failure_) on_failure_(absl::StrCat(attempt, " ", what), status);
    return absl::OkStatus();
  }

  const std::unique_ptr<CacheStore> behind_;
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
