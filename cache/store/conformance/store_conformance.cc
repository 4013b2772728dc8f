#include "cache/store/conformance/store_conformance.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace tessera::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

storage::TuningRecord Tuning(const std::string& bucket, uint32_t chosen) {
  storage::TuningRecord record;
  record.set_kernel("k");
  record.set_bucket(bucket);
  record.set_chosen(chosen);
  return record;
}

std::string BucketKey(const std::string& bucket) { return TuningKey("k", "m", bucket, "cpu"); }

uint64_t Entries(const StoreStats& stats, const std::string& name) {
  for (const FamilyStats& family : stats.families) {
    if (family.name == name) return family.entries;
  }
  ADD_FAILURE() << "no family " << name;
  return 0;
}

TEST_P(StoreConformanceTest, FindsWhatWasPut) {
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  const auto artifact = store_->FindArtifact(TestKey("a"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_TRUE(artifact->found());
  EXPECT_EQ(artifact->record.artifact().code(), TestArtifact("a").artifact().code());
  EXPECT_EQ(artifact->record.key(), TestKey("a").canonical);
  EXPECT_EQ(artifact->record.format_version(), 1u);

  storage::ModuleRecord module;
  module.add_files()->set_text("x = 1");
  ASSERT_TRUE(store_->PutModule(ModuleId(module), module).ok());
  const auto found = store_->FindModule(ModuleId(module));
  ASSERT_TRUE(found.ok() && found->found());
  EXPECT_EQ(found->record.files(0).text(), "x = 1");

  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  const auto tuning = store_->FindTuning(BucketKey("M=1"));
  ASSERT_TRUE(tuning.ok() && tuning->found());
  EXPECT_EQ(tuning->record.chosen(), 3u);
}

TEST_P(StoreConformanceTest, SaysAbsentForWhatWasNeverPut) {
  EXPECT_EQ(store_->FindArtifact(TestKey("a"))->reason, MissReason::kAbsent);
  EXPECT_EQ(store_->FindModule(std::string(64, 'a'))->reason, MissReason::kAbsent);
  EXPECT_EQ(store_->FindModule("no id at all")->reason, MissReason::kAbsent);
  EXPECT_EQ(store_->FindTuning(BucketKey("M=1"))->reason, MissReason::kAbsent);
}

TEST_P(StoreConformanceTest, ComparesTheFullKeyOnAHit) {
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  CompileKey same_hash = TestKey("b");
  same_hash.hash = TestKey("a").hash;
  const auto lookup = store_->FindArtifact(same_hash);
  ASSERT_TRUE(lookup.ok());
  EXPECT_EQ(lookup->reason, MissReason::kHashCollision);
  EXPECT_EQ(lookup->record.artifact().code(), "");
  EXPECT_TRUE(store_->FindArtifact(TestKey("a"))->found());  // the other one is untouched
}

TEST_P(StoreConformanceTest, RefusesKeysThatAreNone) {
  EXPECT_EQ(store_->PutArtifact(CompileKey(), TestArtifact("a")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->FindArtifact(CompileKey()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->PutModule("m", {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->PutTuning("", {}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreConformanceTest, ReplacesAnEntry) {
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 4)).ok());
  EXPECT_EQ(store_->FindTuning(BucketKey("M=1"))->record.chosen(), 4u);
  EXPECT_EQ(store_->ListTunings()->size(), 1u);
}

TEST_P(StoreConformanceTest, ErasesATuning) {
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  ASSERT_TRUE(store_->EraseTuning(BucketKey("M=1")).ok());
  EXPECT_EQ(store_->FindTuning(BucketKey("M=1"))->reason, MissReason::kAbsent);
  EXPECT_TRUE(store_->EraseTuning(BucketKey("M=1")).ok());
}

TEST_P(StoreConformanceTest, ListsModulesAndTunings) {
  ASSERT_TRUE(store_->PutModule(std::string(64, 'a'), {}).ok());
  ASSERT_TRUE(store_->PutModule(std::string(64, 'b'), {}).ok());
  EXPECT_THAT(*store_->ListModules(), UnorderedElementsAre(std::string(64, 'a'), std::string(64, 'b')));
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 0)).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=2"), Tuning("M=2", 0)).ok());
  std::set<std::string> buckets;
  const std::vector<storage::TuningRecord> tunings = *store_->ListTunings();
  for (const storage::TuningRecord& tuning : tunings) buckets.insert(tuning.bucket());
  EXPECT_THAT(buckets, ElementsAre("M=1", "M=2"));
}

TEST_P(StoreConformanceTest, AddsUpUsageAndKeepsTheLatestTime) {
  store_->AddUsage(TestKey("a"), "a", "m", 3, 2000000000);
  ASSERT_THAT(*store_->List("usage", "", 0), ElementsAre(::testing::Field(&ListedEntry::summary, HasSubstr("a: 3 "))));
  store_->AddUsage(TestKey("a"), "a", "m", 4, 1000000000);  // the clock was set back
  const auto listed = store_->List("usage", "", 0);
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].key, TestKey("a").hex());
  EXPECT_EQ((*listed)[0].summary, "a: 7 launches, the last at 2033-05-18T03:33:20Z");
}

TEST_P(StoreConformanceTest, CountsEntriesHitsAndMisses) {
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store_->PutArtifact(TestKey("b"), TestArtifact("b")).ok());
  ASSERT_TRUE(store_->FindArtifact(TestKey("a"))->found());
  ASSERT_FALSE(store_->FindArtifact(TestKey("c"))->found());
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.state, "ok");
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.corrupt_entries, 0u);
  EXPECT_EQ(Entries(stats, "artifacts"), 2u);
  EXPECT_EQ(Entries(stats, "tunings"), 0u);
}

TEST_P(StoreConformanceTest, ListsByHexPrefixAndLimit) {
  const std::string first = "a0" + std::string(62, '0'), second = "a1" + std::string(62, '0'),
                    third = "b0" + std::string(62, '0');
  for (const std::string& id : {first, second, third}) ASSERT_TRUE(store_->PutModule(id, {}).ok());
  const auto keys = [&](const std::string& prefix, uint32_t limit) {
    std::vector<std::string> keys;
    const std::vector<ListedEntry> entries = *store_->List("modules", prefix, limit);
    for (const ListedEntry& entry : entries) keys.push_back(entry.key);
    return keys;
  };
  EXPECT_THAT(keys("", 0), ElementsAre(first, second, third));
  EXPECT_THAT(keys("", 2), ElementsAre(first, second));
  EXPECT_THAT(keys("a", 0), ElementsAre(first, second));
  EXPECT_THAT(keys("A1", 0), ElementsAre(second));
  EXPECT_THAT(keys("b00", 0), ElementsAre(third));
  EXPECT_THAT(keys("c", 0), IsEmpty());
}

TEST_P(StoreConformanceTest, RefusesAFamilyOrPrefixThatIsNone) {
  EXPECT_EQ(store_->List("artefacts", "", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(store_->List("artefacts", "", 0).status().message()), HasSubstr("artifacts"));
  EXPECT_EQ(store_->List("artifacts", "xyz", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreConformanceTest, VerifiesWithoutFindingsWhatIsSound) {
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  store_->AddUsage(TestKey("a"), "a", "m", 3, 2000000000);
  uint64_t checked = 0;
  EXPECT_THAT(*store_->Verify(&checked), IsEmpty());
  EXPECT_GE(checked, 3u);
}

TEST_P(StoreConformanceTest, VerifyFindsAndDropsAnArtifactUnderAForeignKey) {
  CompileKey wrong = TestKey("a");
  wrong.hash = std::string(32, 'w');
  ASSERT_TRUE(store_->PutArtifact(wrong, TestArtifact("a")).ok());
  uint64_t checked = 0;
  EXPECT_THAT(*store_->Verify(&checked), ElementsAre(HasSubstr("artifacts " + wrong.hex())));
  EXPECT_EQ(store_->Stats().corrupt_entries, 1u);
  EXPECT_EQ(store_->FindArtifact(wrong)->reason, MissReason::kAbsent);
  EXPECT_THAT(*store_->Verify(&checked), IsEmpty());
}

TEST_P(StoreConformanceTest, KeepsLargeArtifacts) {
  const storage::ArtifactRecord large = TestArtifact("large", 9 << 20);
  ASSERT_TRUE(store_->PutArtifact(TestKey("large"), large).ok());
  EXPECT_EQ(store_->FindArtifact(TestKey("large"))->record.artifact().code(), large.artifact().code());
}

TEST_P(StoreConformanceTest, ServesWholeEntriesWhileManyThreadsPublishAndRead) {
  constexpr int kThreads = 6, kRounds = 40, kKeys = 4;
  std::atomic<int> torn{0}, found{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string name = absl::StrCat("k", (round + thread) % kKeys);
        // Contents differ from writer to writer, in length too; each is whole only if all of its bytes agree.
        storage::ArtifactRecord record = TestArtifact(name, 0);
        record.mutable_artifact()->set_code(std::string(1000 + 3000 * thread, static_cast<char>('a' + thread)));
        if (!store_->PutArtifact(TestKey(name), record).ok()) torn += 1000;
        const auto lookup = store_->FindArtifact(TestKey(name));
        if (!lookup.ok() || !lookup->found()) {
          torn += 1000;
          continue;
        }
        const std::string& code = lookup->record.artifact().code();
        const std::string whole(1000 + 3000 * (code[0] - 'a'), code[0]);
        if (code != whole || lookup->record.artifact().metadata().kernel() != name) ++torn;
        ++found;
        store_->AddUsage(TestKey(name), name, "m", 1, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(found, kThreads * kRounds);
  EXPECT_EQ(store_->List("artifacts", "", 0)->size(), size_t{kKeys});
  uint64_t checked = 0;
  EXPECT_THAT(*store_->Verify(&checked), IsEmpty());
}

TEST_P(StoreConformanceTest, SurvivesReopening) {
  if (!GetParam().survives_reopening) GTEST_SKIP() << GetParam().name << " lives in memory";
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store_->PutArtifact(TestKey("big"), TestArtifact("big", 100000)).ok());
  ASSERT_TRUE(store_->PutModule(std::string(64, 'a'), {}).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=2"), Tuning("M=2", 3)).ok());
  ASSERT_TRUE(store_->EraseTuning(BucketKey("M=2")).ok());
  store_->AddUsage(TestKey("a"), "a", "m", 3, 2000000000);
  for (int times = 0; times < 3; ++times) {
    Reopen();
    EXPECT_EQ(store_->FindArtifact(TestKey("a"))->record.artifact().code(), TestArtifact("a").artifact().code());
    EXPECT_EQ(store_->FindArtifact(TestKey("big"))->record.artifact().code(),
              TestArtifact("big", 100000).artifact().code());
    EXPECT_TRUE(store_->FindModule(std::string(64, 'a'))->found());
    EXPECT_EQ(store_->FindTuning(BucketKey("M=1"))->record.chosen(), 3u);
    EXPECT_FALSE(store_->FindTuning(BucketKey("M=2"))->found());
    ASSERT_EQ(store_->List("usage", "", 0)->size(), 1u);
    EXPECT_THAT((*store_->List("usage", "", 0))[0].summary, HasSubstr("a: 3 launches"));
    EXPECT_EQ(Entries(store_->Stats(), "artifacts"), 2u);
  }
}

}  // namespace
}  // namespace tessera::cache
