// Passes every call on to the store behind. A layer derives from it and overrides what it changes.
#ifndef TESSERA_CACHE_LAYER_FORWARDING_STORE_H_
#define TESSERA_CACHE_LAYER_FORWARDING_STORE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/cache_store.h"

namespace tessera::cache {

class ForwardingStore : public CacheStore {
 public:
  explicit ForwardingStore(std::unique_ptr<CacheStore> behind) : behind_(std::move(behind)) {}

  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override {
    return behind_->FindArtifact(key);
  }
  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return behind_->PutArtifact(key, record);
  }
  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    return behind_->FindModule(id);
  }
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return behind_->PutModule(id, record);
  }
  absl::StatusOr<std::vector<std::string>> ListModules() override { return behind_->ListModules(); }
  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override {
    return behind_->FindTuning(key);
  }
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return behind_->PutTuning(key, record);
  }
  absl::Status EraseTuning(absl::string_view key) override { return behind_->EraseTuning(key); }
  absl::StatusOr<std::vector<storage::TuningRecord>> ListTunings() override { return behind_->ListTunings(); }
  void AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module, uint64_t launches,
                int64_t unix_seconds) override {
    behind_->AddUsage(key, kernel, module, launches, unix_seconds);
  }
  absl::StatusOr<Lookup<storage::FailureRecord>> FindFailure(const CompileKey& key, int64_t now_unix_seconds) override {
    return behind_->FindFailure(key, now_unix_seconds);
  }
  absl::Status PutFailure(const CompileKey& key, const storage::FailureRecord& record) override {
    return behind_->PutFailure(key, record);
  }
  absl::StatusOr<CollectReport> Collect(const CollectRequest& request) override { return behind_->Collect(request); }
  absl::Status ForEach(absl::string_view family, absl::string_view key_prefix, VisitEntry visit) override {
    return behind_->ForEach(family, key_prefix, visit);
  }
  absl::StatusOr<ImportReport> Import(const std::vector<ForeignEntry>& entries, bool replace) override {
    return behind_->Import(entries, replace);
  }
  StoreStats Stats() override { return behind_->Stats(); }
  absl::StatusOr<std::vector<ListedEntry>> List(absl::string_view family, absl::string_view prefix,
                                                uint32_t limit) override {
    return behind_->List(family, prefix, limit);
  }
  absl::StatusOr<std::vector<std::string>> Verify(uint64_t* checked) override { return behind_->Verify(checked); }

 protected:
  const std::unique_ptr<CacheStore> behind_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_FORWARDING_STORE_H_
