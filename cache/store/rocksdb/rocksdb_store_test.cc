// The RocksDB store in fair weather: conformance, opening, refusal, schema, migration.
#include "cache/store/rocksdb/rocksdb_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/store/conformance/store_conformance.h"
#include "cache/store/rocksdb/rocksdb_record_store.h"
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
  fs::rename(directory.path() + "/db.v1", directory.path() + "/db.v7");
  const auto before = fs::last_write_time(directory.path() + "/db.v7");
  const auto opened = OpenRocksdbStore(directory.path());
  ASSERT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), AllOf(HasSubstr("schema 7"), HasSubstr("newer")));
  EXPECT_EQ(fs::last_write_time(directory.path() + "/db.v7"), before);
  EXPECT_FALSE(fs::exists(directory.path() + "/db.v1"));
}

// A schema 2 whose only step ends with `outcome`.
Schema SchemaTwo(absl::Status outcome) {
  return Schema{2, {{1, "tries the next schema", [outcome](Database*) { return outcome; }}}};
}

TEST(RocksdbStore, MigratesAnOlderSchemaAndKeepsItsEntries) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MustOpen(directory.path())->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  std::vector<std::string> notes;
  RocksdbStoreOptions options;
  options.note = [&](absl::string_view note) { notes.emplace_back(note); };
  {
    const auto store = RocksdbRecordStore::Open(directory.path(), options, nullptr, SchemaTwo(absl::OkStatus()));
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->FindArtifact(TestKey("a"))->found());
    EXPECT_THAT((*(*store)->List("meta", "", 0))[0].summary, HasSubstr("schema 2"));
  }
  EXPECT_THAT(notes, ElementsAre(HasSubstr("from schema 1: tries the next schema")));
  EXPECT_EQ(OpenRocksdbStore(directory.path()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RocksdbStore, SetsAsideWhatCannotBeMigrated) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MustOpen(directory.path())->PutArtifact(TestKey("a"), TestArtifact("a")).ok());
  const auto store =
      RocksdbRecordStore::Open(directory.path(), {}, nullptr, SchemaTwo(absl::DataLossError("cannot be read")));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE((*store)->FindArtifact(TestKey("a"))->found());
  EXPECT_TRUE((*store)->PutArtifact(TestKey("b"), TestArtifact("b")).ok());
  bool aside = false;
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    aside |= entry.path().filename().string().find("db.v1.damaged-") == 0;
  }
  EXPECT_TRUE(aside);
}

TEST(RocksdbStore, BeginsAnewWhereItsCreationWasCutShort) {
  TemporaryDirectory directory;
  fs::create_directories(directory.path() + "/db.v1");
  std::ofstream(directory.path() + "/db.v1/MANIFEST-000001") << "half";
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
