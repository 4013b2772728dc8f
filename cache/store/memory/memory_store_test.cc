#include "cache/store/memory/memory_store.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cache/store/conformance/store_conformance.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest,
                         ::testing::Values(StoreUnderTest{
                             "MemoryStore", [](const std::string&) { return NewMemoryStore(); }, false}));

TEST(MemoryStore, EvictsTheOldestArtifactsBeyondItsBoundAndKeepsTunings) {
  const auto store = NewMemoryStore(20000);
  ASSERT_TRUE(store->PutTuning("tuning", {}).ok());
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("k", i);
    ASSERT_TRUE(store->PutArtifact(TestKey(name), TestArtifact(name, 4000)).ok());
  }
  EXPECT_FALSE(store->FindArtifact(TestKey("k0"))->found());
  EXPECT_TRUE(store->FindArtifact(TestKey("k9"))->found());
  EXPECT_TRUE(store->FindTuning("tuning")->found());
  uint64_t bytes = 0;
  const StoreStats stats = store->Stats();
  for (const FamilyStats& family : stats.families) bytes += family.bytes;
  EXPECT_LE(bytes, 20000u);
  EXPECT_GE(stats.evictions, 6u);
}

TEST(MemoryStore, SaysTheStateItWasGiven) {
  EXPECT_EQ(NewMemoryStore(0, "memory only: no disk")->Stats().state, "memory only: no disk");
}

}  // namespace
}  // namespace tessera::cache
