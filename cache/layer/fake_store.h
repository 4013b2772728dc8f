// A store for the tests of the layers: a MemoryStore that counts, fails on request and can be held up.
#ifndef TESSERA_CACHE_LAYER_FAKE_STORE_H_
#define TESSERA_CACHE_LAYER_FAKE_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/store/cache_store.h"
#include "cache/store/memory/memory_store.h"

namespace tessera::cache {

// The test owns it and outlives the store that uses it.
struct FakeStoreControl {
  std::atomic<int> finds{0};
  absl::Status put_status;
  std::function<void()> after_find;  // runs between reading an entry and returning it
};

class FakeStore : public CacheStore {
 public:
  explicit FakeStore(FakeStoreControl* control) : control_(control), memory_(NewMemoryStore()) {}

  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override {
    return Found(memory_->FindArtifact(key));
  }
  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return control_->put_status.ok() ? memory_->PutArtifact(key, record) : control_->put_status;
  }
  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    return Found(memory_->FindModule(id));
  }
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return control_->put_status.ok() ? memory_->PutModule(id, record) : control_->put_status;
  }
  absl::StatusOr<std::vector<std::string>> ListModules() override { return memory_->ListModules(); }
  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override {
    return Found(memory_->FindTuning(key));
  }
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return control_->put_status.ok() ? memory_->PutTuning(key, record) : control_->put_status;
  }
  absl::Status EraseTuning(absl::string_view key) override {
    return control_->put_status.ok() ? memory_->EraseTuning(key) : control_->put_status;
  }
  absl::StatusOr<std::vector<storage::TuningRecord>> ListTunings() override { return memory_->ListTunings(); }
  void AddUsage(const CompileKey& key, absl::string_view kernel, absl::string_view module, uint64_t launches,
                int64_t unix_seconds) override {
    memory_->AddUsage(key, kernel, module, launches, unix_seconds);
  }
  StoreStats Stats() override { return memory_->Stats(); }
  absl::StatusOr<std::vector<ListedEntry>> List(absl::string_view family, absl::string_view prefix,
                                                uint32_t limit) override {
    return memory_->List(family, prefix, limit);
  }
  absl::StatusOr<std::vector<std::string>> Verify(uint64_t* checked) override { return memory_->Verify(checked); }

 private:
  template <typename Result>
  Result Found(Result found) {
    ++control_->finds;
    if (control_->after_find) control_->after_find();
    return found;
  }

  FakeStoreControl* const control_;
  const std::unique_ptr<CacheStore> memory_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_FAKE_STORE_H_
