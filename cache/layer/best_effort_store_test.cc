#include "cache/layer/best_effort_store.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cache/layer/fake_store.h"
#include "cache/store/conformance/store_conformance.h"
#include "cache/store/memory/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::ElementsAre;

INSTANTIATE_TEST_SUITE_P(BestEffort, StoreConformanceTest,
                         ::testing::Values(StoreUnderTest{
                             "BestEffortStore",
                             [](const std::string&) { return NewBestEffortStore(NewMemoryStore(), nullptr); }, false}));

TEST(BestEffortStore, ForgivesCountsAndTellsFailedWrites) {
  FakeStoreControl control;
  control.put_status = absl::ResourceExhaustedError("disk full");
  std::vector<std::string> attempts;
  std::atomic<uint64_t> failed{0};
  const auto store = NewBestEffortStore(
      std::make_unique<FakeStore>(&control),
      [&](absl::string_view attempt, const absl::Status& failure) {
        EXPECT_EQ(failure.code(), absl::StatusCode::kResourceExhausted);
        attempts.emplace_back(attempt);
      },
      &failed);
  storage::TuningRecord tuning;
  tuning.set_kernel("t");
  EXPECT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  EXPECT_TRUE(store->PutModule("id", {}).ok());
  EXPECT_TRUE(store->PutTuning("key", tuning).ok());
  EXPECT_EQ(failed, 3u);
  EXPECT_THAT(attempts, ElementsAre("storing an artifact of a", "storing module id", "storing a tuning of t"));
}

TEST(BestEffortStore, DoesNotForgiveWrongArgumentsOrAPersonsOrder) {
  FakeStoreControl control;
  std::atomic<uint64_t> failed{0};
  const auto store = NewBestEffortStore(std::make_unique<FakeStore>(&control), nullptr, &failed);
  EXPECT_EQ(store->PutArtifact(CompileKey(), {}).code(), absl::StatusCode::kInvalidArgument);
  control.put_status = absl::UnavailableError("disk");
  EXPECT_EQ(store->EraseTuning("key").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(failed, 0u);
}

}  // namespace
}  // namespace tessera::cache
