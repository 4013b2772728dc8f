// A store for the tests of the layers: a MemoryStore that counts, fails on request and can be held up.
#ifndef TESSERA_CACHE_LAYER_FAKE_STORE_H_
#define TESSERA_CACHE_LAYER_FAKE_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/layer/forwarding_store.h"
#include "cache/store/cache_store.h"
#include "cache/store/memory/memory_store.h"

namespace tessera::cache {

// The test owns it and outlives the store that uses it.
struct FakeStoreControl {
  std::atomic<int> finds{0};
  absl::Status put_status;
  std::function<void()> after_find;  // runs between reading an entry and returning it
};

class FakeStore : public ForwardingStore {
 public:
  explicit FakeStore(FakeStoreControl* control) : ForwardingStore(NewMemoryStore()), control_(control) {}

  absl::StatusOr<Lookup<storage::ArtifactRecord>> FindArtifact(const CompileKey& key) override {
    return Found(behind_->FindArtifact(key));
  }
  absl::Status PutArtifact(const CompileKey& key, const storage::ArtifactRecord& record) override {
    return control_->put_status.ok() ? behind_->PutArtifact(key, record) : control_->put_status;
  }
  absl::StatusOr<Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    return Found(behind_->FindModule(id));
  }
  absl::Status PutModule(absl::string_view id, const storage::ModuleRecord& record) override {
    return control_->put_status.ok() ? behind_->PutModule(id, record) : control_->put_status;
  }
  absl::StatusOr<Lookup<storage::TuningRecord>> FindTuning(absl::string_view key) override {
    return Found(behind_->FindTuning(key));
  }
  absl::Status PutTuning(absl::string_view key, const storage::TuningRecord& record) override {
    return control_->put_status.ok() ? behind_->PutTuning(key, record) : control_->put_status;
  }
  absl::Status EraseTuning(absl::string_view key) override {
    return control_->put_status.ok() ? behind_->EraseTuning(key) : control_->put_status;
  }
  absl::Status PutFailure(const CompileKey& key, const storage::FailureRecord& record) override {
    return control_->put_status.ok() ? behind_->PutFailure(key, record) : control_->put_status;
  }

 private:
  template <typename Result>
  Result Found(Result found) {
    ++control_->finds;
    if (control_->after_find) control_->after_find();
    return found;
  }

  FakeStoreControl* const control_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_FAKE_STORE_H_
