#include "cache/layer/hot_entries_store.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

// What a compile or a compaction holds up is the store behind; nothing of it is held over a hit in front.
TEST(HotEntriesStore, AnswersHitsWhileTheStoreBehindIsHeldUp) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  // Entries of all shards: what waits for one of them must not hold up another.
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(store->PutArtifact(TestKey(absl::StrCat("hot", i)), TestArtifact("hot")).ok());
    ASSERT_TRUE(store->FindArtifact(TestKey(absl::StrCat("hot", i)))->found());
    ASSERT_TRUE(store->PutArtifact(TestKey(absl::StrCat("cold", i)), TestArtifact("cold")).ok());
  }
  std::atomic<int> waiting{0};
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  control.after_find = [&] {
    ++waiting;
    release.wait();
  };
  std::vector<std::thread> held_up;
  for (int i = 0; i < 64; ++i) {
    held_up.emplace_back([&, i] { EXPECT_TRUE(store->FindArtifact(TestKey(absl::StrCat("cold", i)))->found()); });
  }
  while (waiting < 64) std::this_thread::yield();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(store->FindArtifact(TestKey(absl::StrCat("hot", i)))->found());
  EXPECT_EQ(waiting, 64);
  released.set_value();
  for (std::thread& thread : held_up) thread.join();
}

TEST(HotEntriesStore, ForgetsWhatAnImportReplaces) {
  FakeStoreControl control;
  const auto store = NewHotEntriesStore(std::make_unique<FakeStore>(&control));
  ASSERT_TRUE(store->PutTuning(TuningKey("k", "m", "b", "d"), Tuning(1)).ok());
  ASSERT_EQ(store->FindTuning(TuningKey("k", "m", "b", "d"))->record.chosen(), 1u);
  storage::TuningRecord imported = Tuning(2);
  imported.set_format_version(1);
  ASSERT_EQ(store->Import({{"tunings", TuningKey("k", "m", "b", "d"), imported.SerializeAsString()}}, true)->imported, 1u);
  EXPECT_EQ(store->FindTuning(TuningKey("k", "m", "b", "d"))->record.chosen(), 2u);
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
