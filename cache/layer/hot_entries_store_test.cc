#include "cache/layer/hot_entries_store.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cache/layer/fake_store.h"
#include "cache/store/conformance/store_conformance.h"
#include "cache/store/memory/memory_store.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

INSTANTIATE_TEST_SUITE_P(HotEntries, StoreConformanceTest,
                         ::testing::Values(StoreUnderTest{
                             "HotEntriesStore",
                             [](const std::string&) { return NewHotEntriesStore(NewMemoryStore()); }, false}));

storage::TuningRecord Tuning(uint32_t chosen) {
  storage::TuningRecord record;
  record.set_chosen(chosen);
  return record;
}

TEST(HotEntriesStore, AsksTheStoreBehindOnce) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  ASSERT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(store->FindArtifact(TestKey("a"))->found());
  EXPECT_EQ(control.finds, 1);
  EXPECT_EQ(store->Stats().hits, 5u);
}

TEST(HotEntriesStore, AsksAgainForWhatWasMissing) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  EXPECT_FALSE(store->FindTuning("t")->found());
  ASSERT_TRUE(store->PutTuning("t", Tuning(1)).ok());
  EXPECT_TRUE(store->FindTuning("t")->found());
}

TEST(HotEntriesStore, ForgetsWhatIsReplacedOrErased) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  ASSERT_TRUE(store->PutTuning("t", Tuning(1)).ok());
  EXPECT_EQ(store->FindTuning("t")->record.chosen(), 1u);
  ASSERT_TRUE(store->PutTuning("t", Tuning(2)).ok());
  EXPECT_EQ(store->FindTuning("t")->record.chosen(), 2u);
  ASSERT_TRUE(store->EraseTuning("t").ok());
  EXPECT_FALSE(store->FindTuning("t")->found());
}

TEST(HotEntriesStore, DoesNotKeepWhatAWriteOvertook) {
  FakeStoreControl control;
  CacheStore* outer = nullptr;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  outer = store.get();
  ASSERT_TRUE(store->PutTuning("t", Tuning(1)).ok());
  // While a lookup is on its way back with 1, somebody writes 2.
  control.after_find = [&] {
    control.after_find = nullptr;
    ASSERT_TRUE(outer->PutTuning("t", Tuning(2)).ok());
  };
  EXPECT_EQ(store->FindTuning("t")->record.chosen(), 1u);  // it began before the write
  EXPECT_EQ(store->FindTuning("t")->record.chosen(), 2u);
}

TEST(HotEntriesStore, TellsACollisionAlsoOfAHotEntry) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  ASSERT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store->FindArtifact(TestKey("a"))->found());
  CompileKey other = TestKey("b");
  other.hash = TestKey("a").hash;
  EXPECT_EQ(store->FindArtifact(other)->reason, MissReason::kHashCollision);
}

TEST(HotEntriesStore, LetsTheEntryGoThatWasUsedLongestAgo) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control), 1 << 20);
  for (int i = 0; i < 200; ++i) {
    const std::string name = absl::StrCat("k", i);
    ASSERT_TRUE(store->PutArtifact(TestKey(name), TestArtifact(name, 10000)).ok());
    ASSERT_TRUE(store->FindArtifact(TestKey(name))->found());
    ASSERT_TRUE(store->FindArtifact(TestKey("k0"))->found());  // used all the time
  }
  control.finds = 0;
  ASSERT_TRUE(store->FindArtifact(TestKey("k0"))->found());
  EXPECT_EQ(control.finds, 0);
  ASSERT_TRUE(store->FindArtifact(TestKey("k1"))->found());
  EXPECT_EQ(control.finds, 1);
}

TEST(HotEntriesStore, KeepsNothingInFrontThatTheStoreBehindRefused) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  control.put_status = absl::UnavailableError("disk");
  EXPECT_FALSE(store->PutTuning("t", Tuning(1)).ok());
  EXPECT_FALSE(store->FindTuning("t")->found());
}

}  // namespace
}  // namespace tessera::cache
