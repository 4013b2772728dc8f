// The power is cut at random operations of the file system: while the store opens, writes, imports,
// evicts, migrates and salvages. What was acknowledged is there afterwards, and nothing damaged is
// served.
//
// TESSERA_POWER_CUTS sets the number of cuts (default 40), TESSERA_POWER_CUT_SEED the seed.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cache/store/conformance/temporary_directory.h"
#include "cache/store/conformance/test_records.h"
#include "cache/store/rocksdb/power_cut_file_system.h"
#include "cache/store/rocksdb/rocksdb_record_store.h"
#include "cache/store/rocksdb/schema_one.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/env.h"

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = otherwise;
  if (text != nullptr) EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << name;
  return value;
}

// Sizes from a few bytes to 30 KiB, so that values lie in tables and in blob files.
storage::ArtifactRecord Artifact(const std::string& name) {
  return TestArtifact(name, std::hash<std::string>()(name) % 30000);
}
// Of these the budget may take any; the others are in use.
bool MayGo(const std::string& name) { return absl::StartsWith(name, "idle"); }

// After a failed flush RocksDB waits a second before it tries again: not for a test.
class WaitlessEnv : public rocksdb::EnvWrapper {
 public:
  explicit WaitlessEnv(rocksdb::Env* env) : EnvWrapper(env) {}
  const char* Name() const override { return "WaitlessEnv"; }
  void SleepForMicroseconds(int microseconds) override {
    EnvWrapper::SleepForMicroseconds(std::min(microseconds, 100));
  }
};

// What was acknowledged so far in one directory.
struct Acknowledged {
  std::mutex mutex;
  std::set<std::string> artifacts;
  std::map<std::string, int64_t> tunings;
  void Artifact(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex);
    artifacts.insert(name);
  }
};

void Write(CacheStore* store, PowerCut* cut, int cycle, Acknowledged* acknowledged) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([=] {
      for (int i = 0; i < 12 && !cut->gone(); ++i) {
        const std::string name =
            absl::StrCat(i % 3 == 0 ? "idle" : "kept", cycle, ".", thread, ".", i);
        if (store->PutArtifact(TestKey(name), Artifact(name)).ok()) acknowledged->Artifact(name);
        store->AddUsage(TestKey(name), name, "m", 1, 1000);
        if (thread != 0) continue;
        storage::TuningRecord tuning;
        tuning.set_measured_unix_seconds(cycle * 100 + i);
        const std::string key = TuningKey("k", "m", absl::StrCat("M=", i % 3), "cpu");
        if (!store->PutTuning(key, tuning).ok()) continue;
        std::lock_guard<std::mutex> lock(acknowledged->mutex);
        acknowledged->tunings[key] = cycle * 100 + i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Import(CacheStore* store, int cycle, Acknowledged* acknowledged) {
  std::vector<ForeignEntry> entries;
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) {
    names.push_back(absl::StrCat("imported", cycle, ".", i));
    storage::ArtifactRecord record = Artifact(names.back());
    record.set_format_version(1);
    record.set_key(TestKey(names.back()).canonical);
    entries.push_back({"artifacts", TestKey(names.back()).hash, record.SerializeAsString()});
  }
  const auto report = store->Import(entries, false);
  if (!report.ok()) return;
  for (const std::string& name : names) acknowledged->Artifact(name);
}

void Collect(CacheStore* store, Acknowledged* acknowledged) {
  std::set<std::string> in_use;
  {
    std::lock_guard<std::mutex> lock(acknowledged->mutex);
    for (const std::string& name : acknowledged->artifacts) {
      if (!MayGo(name)) in_use.insert(TestKey(name).hash);
    }
  }
  CollectRequest request;
  request.budget.max_bytes = 1;
  request.now_unix_seconds = 2000;
  request.artifact_in_use = [&](absl::string_view hash) {
    return in_use.count(std::string(hash)) != 0;
  };
  store->Collect(request).IgnoreError();
}

// With the power back: everything that was acknowledged, right, and nothing wrong.
void Check(const std::string& directory, Acknowledged* acknowledged) {
  std::vector<std::string> notes;
  RocksdbStoreOptions options;
  options.note = [&](absl::string_view note) { notes.emplace_back(note); };
  const auto store = RocksdbRecordStore::Open(directory, options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_EQ((*store)->Stats().state, "ok");
  std::vector<std::string> gone;
  for (const std::string& name : acknowledged->artifacts) {
    const auto lookup = (*store)->FindArtifact(TestKey(name));
    ASSERT_TRUE(lookup.ok()) << lookup.status();
    if (!lookup->found() && MayGo(name)) {
      gone.push_back(name);
      continue;
    }
    ASSERT_EQ(lookup->reason, MissReason::kFound) << name << " was acknowledged";
    ASSERT_EQ(lookup->record.artifact().code(), Artifact(name).artifact().code()) << name;
  }
  for (const std::string& name : gone) acknowledged->artifacts.erase(name);
  for (const auto& [key, number] : acknowledged->tunings) {
    const auto lookup = (*store)->FindTuning(key);
    ASSERT_TRUE(lookup.ok() && lookup->found()) << key;
    ASSERT_GE(lookup->record.measured_unix_seconds(), number);
  }
  EXPECT_EQ((*store)->Stats().corrupt_entries, 0u);
  EXPECT_THAT(*(*store)->Verify(nullptr), ::testing::IsEmpty());
  // Artifacts and their inventory came together or not at all.
  EXPECT_EQ((*store)->List("artifacts", "", 100000)->size(),
            (*store)->List("inventory", "", 100000)->size());
  for (const std::string& note : notes) {
    // A torn end of the log is dropped with a word, that of the MANIFEST makes a salvage; nothing
    // in them was acknowledged.
    EXPECT_THAT(note, ::testing::AnyOf(
                          ::testing::HasSubstr("dropping"), ::testing::HasSubstr("migrated"),
                          ::testing::HasSubstr("salvage"), ::testing::HasSubstr("sound entries"),
                          ::testing::HasSubstr("damaged: asked for"),
                          ::testing::ContainsRegex("damaged: opening .*/MANIFEST-"),
                          ::testing::HasSubstr("set aside as")));
  }
}

TEST(PowerCut, LosesNothingThatWasAcknowledged) {
  const int cuts = FromEnvironment("TESSERA_POWER_CUTS", 40);
  std::mt19937 random(FromEnvironment("TESSERA_POWER_CUT_SEED", 1));
  std::unique_ptr<TemporaryDirectory> directory;
  std::unique_ptr<Acknowledged> acknowledged;
  size_t entries = 0, struck = 0;
  std::map<std::string, int> while_doing;
  for (int cycle = 0; cycle < cuts; ++cycle) {
    // A directory for some cuts, so that the store grows and has a past.
    if (cycle % 8 == 0) {
      directory = std::make_unique<TemporaryDirectory>("/dev/shm");
      acknowledged = std::make_unique<Acknowledged>();
    }
    const std::string path = directory->path();
    if (cycle % 8 == 4 && fs::exists(path + "/db.v2")) MakeSchemaOne(path);
    if (cycle % 8 == 6) std::ofstream(path + "/salvage") << "asked for by the test\n";
    PowerCut cut;
    const auto composite = rocksdb::NewCompositeEnv(NewPowerCutFileSystem(&cut));
    WaitlessEnv env(composite.get());
    // A quarter strikes while the store opens, migrates or salvages.
    cut.CutAfter(1 + random() % (random() % 4 == 0 ? 60 : 500));
    const char* doing = "opening";
    {
      RocksdbStoreOptions options;
      options.maintenance_interval = absl::InfiniteDuration();
      const auto store = RocksdbRecordStore::Open(path, options, &env);
      ASSERT_TRUE(store.ok()) << store.status();
      const auto next = [&](const char* what) {
        if (!cut.gone()) doing = what;
        return !cut.gone();
      };
      for (int round = 0; round < 3; ++round) {
        if (next("writing")) Write(store->get(), &cut, cycle * 3 + round, acknowledged.get());
        if (next("importing")) Import(store->get(), cycle * 3 + round, acknowledged.get());
        if (next("collecting")) Collect(store->get(), acknowledged.get());
        if (next("maintaining")) (*store)->Maintain();
      }
      next("closing");
    }
    struck += cut.gone();
    ++while_doing[cut.gone() ? doing : "nothing: it was over"];
    cut.CutAfter(0);
    cut.Lose(&random);
    Check(path, acknowledged.get());
    if (HasFailure()) {
      std::fprintf(stderr, "cut %d, while %s\n", cycle, doing);
      return;
    }
    if (cycle % 8 == 7) entries += acknowledged->artifacts.size();
  }
  std::printf("%d power cuts, %zu in the middle of something;", cuts, struck);
  for (const auto& [doing, count] : while_doing) std::printf(" %d %s,", count, doing.c_str());
  std::printf(" %zu acknowledged artifacts checked\n", entries);
  EXPECT_GT(struck, static_cast<size_t>(cuts) / 2);
}

}  // namespace
}  // namespace tessera::cache
