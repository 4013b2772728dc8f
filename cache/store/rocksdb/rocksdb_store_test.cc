// The RocksDB store in fair weather: conformance, opening, refusal, schema, migration.
#include "cache/store/rocksdb/rocksdb_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/store/conformance/store_conformance.h"
#include "cache/store/rocksdb/rocksdb_record_store.h"
#include "cache/store/rocksdb/schema_one.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<CacheStore> MustOpen(const std::string& path, const RocksdbStoreOptions& options = {}) {
  auto store = OpenRocksdbStore(path, options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Rocksdb, StoreConformanceTest,
                         ::testing::Values(StoreUnderTest{
                             "RocksdbStore", [](const std::string& directory) { return MustOpen(directory); }, true}));

TEST(RocksdbStore, CreatesADirectoryThatOnlyItsOwnerCanRead) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/a/cache";
  ASSERT_NE(MustOpen(path), nullptr);
  struct stat found;
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST(RocksdbStore, RefusesAPathThatIsNoDirectory) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/file") << "x";
  EXPECT_EQ(OpenRocksdbStore(directory.path() + "/file").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenRocksdbStore("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RocksdbStore, RefusesASecondStoreAndNamesTheHolder) {
  TemporaryDirectory directory;
  const auto first = MustOpen(directory.path());
  const auto second = OpenRocksdbStore(directory.path());
  ASSERT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(directory.path()), HasSubstr(absl::StrCat("process ", getpid()))));
  // The first goes on as if nothing had happened.
  EXPECT_TRUE(first->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
}

TEST(RocksdbStore, SaysWhereItLivesAndHowLargeItIs) {
  TemporaryDirectory directory;
  const auto store = MustOpen(directory.path());
  ASSERT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a", 50000)).ok());
  const StoreStats stats = store->Stats();
  EXPECT_EQ(stats.path, directory.path());
  EXPECT_EQ(stats.state, "ok");
  EXPECT_GE(stats.disk_bytes, 10000u);
}

TEST(RocksdbStore, RefusesANewerSchemaAndLeavesItAsItIs) {
  TemporaryDirectory directory;
  MustOpen(directory.path());
  fs::rename(directory.path() + "/db.v2", directory.path() + "/db.v7");
  const auto before = fs::last_write_time(directory.path() + "/db.v7");
  const auto opened = OpenRocksdbStore(directory.path());
  ASSERT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), AllOf(HasSubstr("schema 7"), HasSubstr("newer")));
  EXPECT_EQ(fs::last_write_time(directory.path() + "/db.v7"), before);
  EXPECT_FALSE(fs::exists(directory.path() + "/db.v2"));
}

// A schema 3 whose only step from ours ends with `outcome`.
Schema NextSchema(absl::Status outcome, bool additive = false) {
  return Schema{3, {{2, "tries the next schema", additive, [outcome](Database*) { return outcome; }}}};
}

TEST(RocksdbStore, MigratesAnOlderSchemaAndKeepsItsEntries) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MustOpen(directory.path())->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  std::vector<std::string> notes;
  RocksdbStoreOptions options;
  options.note = [&](absl::string_view note) { notes.emplace_back(note); };
  {
    const auto store = RocksdbRecordStore::Open(directory.path(), options, nullptr, NextSchema(absl::OkStatus()));
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->FindArtifact(TestKey("a"))->found());
    EXPECT_THAT((*(*store)->List("meta", "", 0))[0].summary, HasSubstr("schema 3"));
  }
  EXPECT_THAT(notes, ElementsAre(HasSubstr("from schema 2: tries the next schema")));
  EXPECT_EQ(OpenRocksdbStore(directory.path()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RocksdbStore, SetsAsideWhatCannotBeMigrated) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MustOpen(directory.path())->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  const auto store =
      RocksdbRecordStore::Open(directory.path(), {}, nullptr, NextSchema(absl::DataLossError("cannot be read")));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE((*store)->FindArtifact(TestKey("a"))->found());
  EXPECT_TRUE((*store)->PutArtifact(TestKey("b"), TestArtifact("b")).ok());
  bool aside = false;
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    aside |= entry.path().filename().string().find("db.v2.damaged-") == 0;
  }
  EXPECT_TRUE(aside);
}

TEST(RocksdbStore, CopiesWhatCanBeReadWhereAnAdditiveStepFails) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MustOpen(directory.path())->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  const auto store =
      RocksdbRecordStore::Open(directory.path(), {}, nullptr, NextSchema(absl::DataLossError("a damaged place"), true));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->FindArtifact(TestKey("a"))->found());
}

TEST(RocksdbStore, MigratesTheDatabaseOfThePreviousRelease) {
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    ASSERT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a", 9000)).ok());
    ASSERT_TRUE(store->PutArtifact(TestKey("b"), TestArtifact("b", 100)).ok());
    ASSERT_TRUE(store->PutTuning(TuningKey("k", "m", "b", "d"), {}).ok());
    store->AddUsage(TestKey("a"), "a", "m", 3, 2000000000);
  }
  MakeSchemaOne(directory.path());
  std::vector<std::string> notes;
  RocksdbStoreOptions options;
  options.note = [&](absl::string_view note) { notes.emplace_back(note); };
  const auto store = MustOpen(directory.path(), options);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("from schema 1: keeps an inventory")));
  EXPECT_EQ(store->FindArtifact(TestKey("a"))->record.artifact().code(), TestArtifact("a", 9000).artifact().code());
  EXPECT_TRUE(store->FindArtifact(TestKey("b"))->found());
  EXPECT_TRUE(store->FindTuning(TuningKey("k", "m", "b", "d"))->found());
  EXPECT_EQ(store->List("usage", "", 0)->size(), 1u);
  const auto inventory = *store->List("inventory", "", 0);
  ASSERT_EQ(inventory.size(), 2u);
  EXPECT_FALSE(fs::exists(directory.path() + "/db.v1"));
  // What has come to be counted can be evicted.
  CollectRequest request;
  request.budget.max_bytes = 5000;
  EXPECT_EQ(store->Collect(request)->entries, 1u);
  EXPECT_FALSE(store->FindArtifact(TestKey("a"))->found());
}

TEST(RocksdbStore, GivesTheSpaceOfEvictedArtifactsBack) {
  TemporaryDirectory directory;
  const auto store = MustOpen(directory.path());
  std::string noise;
  for (int i = 0; i < 600; ++i) {
    const std::string name = absl::StrCat("k", i);
    storage::ArtifactRecord record = TestArtifact(name, 100);
    // Does not compress.
    std::mt19937 random(i);
    noise.resize(50000);
    for (char& byte : noise) byte = static_cast<char>(random());
    record.mutable_artifact()->set_code(noise);
    ASSERT_TRUE(store->PutArtifact(TestKey(name), record).ok());
  }
  EXPECT_GT(store->Stats().disk_bytes, 29u << 20);
  CollectRequest request;
  request.budget.max_bytes = 10 << 20;
  ASSERT_GT(store->Collect(request)->entries, 350u);
  const uint64_t after = store->Stats().disk_bytes;
  std::printf("%.1f MiB on disk for a budget of 10 MiB\n", after / double(1 << 20));
  EXPECT_LT(after, 30u << 20);
  EXPECT_EQ(store->Verify(nullptr)->size(), 0u);
}

TEST(RocksdbStore, GivesTheSpaceOfReplacedArtifactsBack) {
  TemporaryDirectory directory;
  RocksdbStoreOptions options;
  options.maintenance_interval = absl::InfiniteDuration();
  const auto store = RocksdbRecordStore::Open(directory.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::mt19937 random(1);
  std::string noise(100000, '\0');
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::string name = absl::StrCat("k", i);
      storage::ArtifactRecord record = TestArtifact(name, 100);
      for (size_t at = 0; at < noise.size(); at += 4) noise[at] = static_cast<char>(random());
      record.mutable_artifact()->set_code(noise);
      ASSERT_TRUE((*store)->PutArtifact(TestKey(name), record).ok());
    }
    (*store)->Maintain();
  }
  const uint64_t disk_bytes = (*store)->Stats().disk_bytes;
  std::printf("%.1f MiB on disk for 4.8 MiB, written twenty times\n", disk_bytes / double(1 << 20));
  EXPECT_LT(disk_bytes, 50u << 20);
  EXPECT_EQ((*store)->Verify(nullptr)->size(), 0u);
}

TEST(RocksdbStore, BeginsAnewWhereItsCreationWasCutShort) {
  TemporaryDirectory directory;
  fs::create_directories(directory.path() + "/db.v2");
  std::ofstream(directory.path() + "/db.v2/MANIFEST-000001") << "half";
  std::vector<std::string> notes;
  RocksdbStoreOptions options;
  options.note = [&](absl::string_view note) { notes.emplace_back(note); };
  const auto store = MustOpen(directory.path(), options);
  EXPECT_TRUE(store->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  EXPECT_THAT(notes, IsEmpty());
}

TEST(RocksdbStore, OpensQuickly) {
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    for (int i = 0; i < 100; ++i) {
      const std::string name = absl::StrCat("k", i);
      ASSERT_TRUE(store->PutArtifact(TestKey(name), TestArtifact(name, 16384)).ok());
    }
  }
  std::vector<double> milliseconds;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto store = MustOpen(directory.path());
    ASSERT_TRUE(store->FindArtifact(TestKey("k7"))->found());
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  RecordProperty("median_open_microseconds", static_cast<int>(milliseconds[4] * 1000));
  std::printf("open and first lookup: median %.1f ms, best %.1f ms\n", milliseconds[4], milliseconds[0]);
  // The aim is 15 ms on an idle machine. The bound, for busy ones, is what the daemon has in all.
  EXPECT_LT(milliseconds[0], 150.0);
}

}  // namespace
}  // namespace tessera::cache
