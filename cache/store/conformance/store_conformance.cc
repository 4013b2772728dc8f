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

storage::FailureRecord Failure(int64_t created, int64_t expires) {
  storage::FailureRecord record;
  record.set_code(3);
  record.set_message("unknown function");
  record.set_kernel("k");
  record.set_created_unix_seconds(created);
  record.set_expires_unix_seconds(expires);
  return record;
}

TEST_P(StoreConformanceTest, KeepsFailuresUntilTheyExpire) {
  EXPECT_EQ(store_->FindFailure(TestKey("a"), 1000)->reason, MissReason::kAbsent);
  ASSERT_TRUE(store_->PutFailure(TestKey("a"), Failure(1000, 1600)).ok());
  const auto found = store_->FindFailure(TestKey("a"), 1599);
  ASSERT_TRUE(found.ok() && found->found());
  EXPECT_EQ(found->record.message(), "unknown function");
  EXPECT_EQ(store_->FindFailure(TestKey("a"), 1600)->reason, MissReason::kAbsent);
  EXPECT_EQ(Entries(store_->Stats(), "failures"), 0u);  // dropped when it was met
}

TEST_P(StoreConformanceTest, ForgetsAFailureWhenTheClockWasSetBack) {
  ASSERT_TRUE(store_->PutFailure(TestKey("a"), Failure(1000, 1600)).ok());
  EXPECT_EQ(store_->FindFailure(TestKey("a"), 500)->reason, MissReason::kAbsent);
}

TEST_P(StoreConformanceTest, ComparesTheFullKeyOfAFailure) {
  ASSERT_TRUE(store_->PutFailure(TestKey("a"), Failure(1000, 1600)).ok());
  CompileKey same_hash = TestKey("b");
  same_hash.hash = TestKey("a").hash;
  EXPECT_EQ(store_->FindFailure(same_hash, 1001)->reason, MissReason::kHashCollision);
}

constexpr int64_t kNow = 2000000000, kDay = 24 * 3600;

// Ten artifacts of some 10 kB; the higher the number, the later each was launched.
void PutTen(CacheStore* store) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("k", i);
    ASSERT_TRUE(store->PutArtifact(TestKey(name), TestArtifact(name, 10000)).ok());
    store->AddUsage(TestKey(name), name, std::string(64, 'a'), 5, kNow - (20 - i) * kDay);
  }
}

CollectRequest Within(uint64_t bytes) {
  CollectRequest request;
  request.budget.max_bytes = bytes;
  request.now_unix_seconds = kNow;
  return request;
}

TEST_P(StoreConformanceTest, CollectsDownToItsBudgetAndSparesWhatIsInUse) {
  PutTen(store_.get());
  CollectRequest request = Within(60000);
  request.artifact_in_use = [](absl::string_view hash) { return hash == TestKey("k0").hash; };
  request.dry_run = true;
  const auto would = store_->Collect(request);
  ASSERT_TRUE(would.ok()) << would.status();
  EXPECT_EQ(would->entries, 5u);
  EXPECT_EQ(store_->List("artifacts", "", 0)->size(), 10u);  // nothing was touched
  EXPECT_EQ(store_->Stats().evictions, 0u);
  request.dry_run = false;
  const auto report = store_->Collect(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->entries, 5u);
  EXPECT_EQ(report->bytes, would->bytes);
  EXPECT_EQ(report->kept_entries, 5u);
  EXPECT_LE(report->kept_bytes, 54000u);
  ASSERT_EQ(report->evicted.size(), 5u);
  EXPECT_EQ(report->evicted[0].key, TestKey("k1").hex());  // the one used longest ago, but for what is in use
  EXPECT_THAT(report->evicted[0].summary, HasSubstr("over the budget"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store_->FindArtifact(TestKey(absl::StrCat("k", i)))->found(), i == 0 || i >= 6) << i;
  }
  EXPECT_EQ(Entries(store_->Stats(), "artifacts"), 5u);
  EXPECT_EQ(Entries(store_->Stats(), "inventory"), 5u);
  EXPECT_EQ(store_->Stats().evictions, 5u);
  EXPECT_EQ(store_->Collect(request)->entries, 0u);
}

TEST_P(StoreConformanceTest, CollectsDownToTheLimitOfAKernel) {
  storage::CompileJob job;
  job.set_kernel("k");
  for (int i = 0; i < 6; ++i) {
    job.mutable_options()->set_num_warps(i + 1);
    const CompileKey key = MakeCompileKey(job, "def k", "test");
    ASSERT_TRUE(store_->PutArtifact(key, TestArtifact("k")).ok());
    store_->AddUsage(key, "k", "m", i, kNow);
  }
  ASSERT_TRUE(store_->PutArtifact(MakeCompileKey(job, "def k edited", "test"), TestArtifact("k")).ok());
  CollectRequest request = Within(0);
  request.budget.max_entries_per_kernel = 4;
  EXPECT_EQ(store_->Collect(request)->entries, 2u);
  EXPECT_EQ(store_->List("artifacts", "", 0)->size(), 5u);
  job.mutable_options()->set_num_warps(1);
  EXPECT_FALSE(store_->FindArtifact(MakeCompileKey(job, "def k", "test"))->found());  // never launched
}

TEST_P(StoreConformanceTest, CollectsOldModulesBeforeArtifactsAndSparesNewOnes) {
  storage::ModuleRecord module;
  module.add_files()->set_text(std::string(5000, 'x'));
  module.set_registered_unix_seconds(kNow - 10 * kDay);
  const std::string idle(64, 'b'), launched(64, 'a'), registered_now(64, 'c'), loaded(64, 'd');
  for (const std::string& id : {idle, launched, loaded}) ASSERT_TRUE(store_->PutModule(id, module).ok());
  module.set_registered_unix_seconds(kNow - 60);
  ASSERT_TRUE(store_->PutModule(registered_now, module).ok());
  ASSERT_TRUE(store_->PutArtifact(TestKey("k"), TestArtifact("k", 1000)).ok());
  store_->AddUsage(TestKey("k"), "k", launched, 1000, kNow);
  CollectRequest request = Within(1);
  request.artifact_in_use = [](absl::string_view) { return true; };
  request.module_in_use = [&](absl::string_view id) { return id == loaded; };
  const auto report = store_->Collect(request);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->evicted.size(), 2u);
  EXPECT_THAT(report->evicted[0].key, idle);
  EXPECT_THAT(report->evicted[1].key, launched);
  EXPECT_THAT(*store_->ListModules(), UnorderedElementsAre(registered_now, loaded));
}

TEST_P(StoreConformanceTest, CollectsWhatHasExpired) {
  ASSERT_TRUE(store_->PutFailure(TestKey("old"), Failure(kNow - 700, kNow - 100)).ok());
  ASSERT_TRUE(store_->PutFailure(TestKey("new"), Failure(kNow - 10, kNow + 590)).ok());
  store_->AddUsage(TestKey("gone"), "gone", "m", 1, kNow - 100 * kDay);
  store_->AddUsage(TestKey("recent"), "recent", "m", 1, kNow - kDay);
  ASSERT_TRUE(store_->Collect(Within(0)).ok());
  EXPECT_EQ(store_->List("failures", "", 0)->size(), 1u);
  EXPECT_EQ(store_->List("usage", "", 0)->size(), 1u);
}

TEST_P(StoreConformanceTest, ShowsEntriesThatAnotherStoreTakesAfterChecking) {
  storage::ModuleRecord module;
  module.add_files()->set_text("x = 1");
  ASSERT_TRUE(store_->PutModule(ModuleId(module), module).ok());
  ASSERT_TRUE(store_->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  ASSERT_TRUE(store_->PutTuning(BucketKey("M=1"), Tuning("M=1", 3)).ok());
  std::vector<ForeignEntry> entries;
  for (const char* family : {"modules", "artifacts", "tunings"}) {
    ASSERT_TRUE(store_
                    ->ForEach(family, "",
                              [&](absl::string_view key, absl::string_view payload) {
                                entries.push_back({family, std::string(key), std::string(payload)});
                                return true;
                              })
                    .ok());
  }
  ASSERT_EQ(entries.size(), 3u);
  TemporaryDirectory other_directory;
  const auto other = GetParam().open(other_directory.path());
  const auto report = other->Import(entries, false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->imported, 3u);
  EXPECT_TRUE(other->FindArtifact(TestKey("a"))->found());
  EXPECT_TRUE(other->FindModule(ModuleId(module))->found());
  EXPECT_EQ(other->FindTuning(BucketKey("M=1"))->record.chosen(), 3u);
  EXPECT_EQ(Entries(other->Stats(), "inventory"), 1u);
  EXPECT_EQ(other->Import(entries, false)->already_there, 3u);
  EXPECT_EQ(other->Import(entries, true)->imported, 3u);
}

TEST_P(StoreConformanceTest, RejectsForeignEntriesThatAreNotWhatTheySay) {
  storage::ModuleRecord module;
  module.set_format_version(1);
  storage::ArtifactRecord artifact = TestArtifact("a");
  artifact.set_key(TestKey("a").canonical);
  artifact.set_format_version(9);
  const auto report = store_->Import({{"artifacts", TestKey("b").hash, artifact.SerializeAsString()},
                                      {"artifacts", TestKey("a").hash, artifact.SerializeAsString()},
                                      {"artifacts", TestKey("a").hash, "\xff"},
                                      {"modules", std::string(32, 'x'), module.SerializeAsString()},
                                      {"tunings", "no key", ""},
                                      {"usage", TestKey("a").hash, ""},
                                      {"meta", "schema", ""}},
                                     true);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->imported, 0u);
  EXPECT_EQ(report->rejected, 7u);
  EXPECT_THAT(report->findings, ElementsAre(HasSubstr("holds another key"), HasSubstr("has format 9"),
                                            HasSubstr("is no ArtifactRecord"), HasSubstr("holds other files"),
                                            HasSubstr("no tuning key"), HasSubstr("not imported"),
                                            HasSubstr("not imported")));
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
