// The RocksDB store in foul weather: flipped bytes, lost files, a full or failing disk. It may
// forget; it may not lie.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/family/family.h"
#include "cache/store/conformance/temporary_directory.h"
#include "cache/store/conformance/test_records.h"
#include "cache/store/rocksdb/rocksdb_record_store.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace tessera::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct Notes {
  RocksdbStoreOptions Options() {
    RocksdbStoreOptions options;
    options.maintenance_interval =
        absl::InfiniteDuration();  // rounds of maintenance are the test's to call
    options.note = [this](absl::string_view note) {
      absl::MutexLock lock(&mutex);
      notes.emplace_back(note);
    };
    return options;
  }
  absl::Mutex mutex;
  std::vector<std::string> notes;
};

std::unique_ptr<CacheStore> MustOpen(const std::string& path,
                                     const RocksdbStoreOptions& options = {}) {
  auto store = OpenRocksdbStore(path, options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

std::string Name(int number) { return absl::StrCat("k", number); }

// Small values in tables, large ones in blob files.
size_t CodeBytes(int number) { return number % 4 == 0 ? 9000 + number : 300 + number; }

// By several threads, which then share one sync of the log.
void Fill(CacheStore* store, int entries) {
  std::vector<std::thread> threads;
  for (int first = 0; first < 16; ++first) {
    threads.emplace_back([=] {
      for (int i = first; i < entries; i += 16) {
        EXPECT_TRUE(store->PutArtifact(TestKey(Name(i)), TestArtifact(Name(i), CodeBytes(i))).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Looks all entries up; those that are found must be right.
int CountFound(CacheStore* store, int entries) {
  int found = 0;
  for (int i = 0; i < entries; ++i) {
    const auto lookup = store->FindArtifact(TestKey(Name(i)));
    EXPECT_TRUE(lookup.ok()) << lookup.status();
    if (!lookup.ok() || !lookup->found()) continue;
    EXPECT_EQ(lookup->record.artifact().code(),
              TestArtifact(Name(i), CodeBytes(i)).artifact().code())
        << Name(i);
    ++found;
  }
  return found;
}

// The database itself, past the store.
class RawDatabase {
 public:
  explicit RawDatabase(const std::string& path) {
    std::vector<std::string> names;
    rocksdb::Options options;
    EXPECT_TRUE(rocksdb::DB::ListColumnFamilies(options, path, &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names) {
      rocksdb::ColumnFamilyOptions family_options;
      if (const Family* family = FindFamily(name)) family->tune(FamilyResources{}, &family_options);
      descriptors.emplace_back(name, family_options);
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path, descriptors, &handles, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
    for (rocksdb::ColumnFamilyHandle* handle : handles) handles_[handle->GetName()] = handle;
  }
  ~RawDatabase() {
    for (const auto& [name, handle] : handles_)
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
  }

  std::vector<std::pair<std::string, std::string>> All(const std::string& family) {
    std::vector<std::pair<std::string, std::string>> entries;
    std::unique_ptr<rocksdb::Iterator> it(
        db_->NewIterator(rocksdb::ReadOptions(), handles_[family]));
    for (it->SeekToFirst(); it->Valid(); it->Next())
      entries.emplace_back(it->key().ToString(), it->value().ToString());
    return entries;
  }
  void Put(const std::string& family, const std::string& key, const std::string& value) {
    EXPECT_TRUE(db_->Put(rocksdb::WriteOptions(), handles_[family], key, value).ok());
  }
  void FlushAndCompact(const std::string& family) {
    EXPECT_TRUE(db_->Flush(rocksdb::FlushOptions(), handles_[family]).ok());
    EXPECT_TRUE(
        db_->CompactRange(rocksdb::CompactRangeOptions(), handles_[family], nullptr, nullptr).ok());
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
};

std::vector<std::string> FilesLike(const std::string& directory, const std::string& part) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (absl::StrContains(entry.path().filename().string(), part) && entry.file_size() > 0) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void FlipByte(const std::string& file, uint64_t offset, char with) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(offset);
  const char byte = static_cast<char>(stream.get() ^ with);
  stream.seekp(offset);
  stream.put(byte);
  ASSERT_TRUE(stream.good()) << file;
}

TEST(Damage, EveryFlippedByteInTwoThousandValuesIsDetected) {
  constexpr int kEntries = 2000;
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), kEntries);
  }
  std::mt19937 random(7);
  {
    RawDatabase raw(directory.path() + "/db.v2");
    const auto entries = raw.All("artifacts");
    ASSERT_THAT(entries, SizeIs(kEntries));
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& [key, value] = entries[i];
      std::string flipped = value;
      // The first bytes of every header in turn, then anywhere.
      const size_t place = i < 600 ? i % 30 : random() % value.size();
      flipped[place] ^= static_cast<char>(1 + random() % 255);
      raw.Put("artifacts", key, flipped);
    }
  }
  Notes notes;
  const auto store = MustOpen(directory.path(), notes.Options());
  for (int i = 0; i < kEntries; ++i) {
    const auto lookup = store->FindArtifact(TestKey(Name(i)));
    ASSERT_TRUE(lookup.ok());
    ASSERT_EQ(lookup->reason, MissReason::kDamaged) << i;
    ASSERT_EQ(lookup->record.ByteSizeLong(), 0u);
  }
  EXPECT_EQ(store->Stats().corrupt_entries, uint64_t{kEntries});
  EXPECT_THAT(notes.notes, SizeIs(kEntries));
  EXPECT_THAT(notes.notes[0], HasSubstr(TestKey(Name(0)).hex()));
  // Dropped, and the newest of them kept for a person.
  EXPECT_EQ(store->FindArtifact(TestKey(Name(0)))->reason, MissReason::kAbsent);
  EXPECT_EQ(store->List("quarantine", "", 0)->size(), 64u);
  EXPECT_THAT((*store->List("quarantine", "", 0))[0].summary, StartsWith("artifacts "));
  // Rebuilt.
  Fill(store.get(), 10);
  EXPECT_EQ(CountFound(store.get(), 10), 10);
}

// In every family, wherever the flip lies.
TEST(Damage, EveryFlippedByteOfEveryFamilyIsDetected) {
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), 30);
    storage::ModuleRecord module;
    module.add_files()->set_text("x = 1");
    ASSERT_TRUE(store->PutModule(ModuleId(module), module).ok());
    storage::TuningRecord tuning;
    tuning.set_kernel("k");
    ASSERT_TRUE(store->PutTuning(TuningKey("k", "m", "b", "d"), tuning).ok());
    storage::FailureRecord failure;
    failure.set_expires_unix_seconds(int64_t{1} << 40);
    ASSERT_TRUE(store->PutFailure(TestKey("broken"), failure).ok());
    store->AddUsage(TestKey("k1"), "k1", "m", 5, 1000);
  }
  std::mt19937 random(9);
  std::set<std::string> families;
  size_t flips = 0;
  for (const char* family : {"modules", "artifacts", "inventory", "failures", "tunings", "usage"}) {
    // A few places of each value, in a copy of the directory.
    for (int round = 0; round < 4; ++round) {
      TemporaryDirectory copy;
      fs::copy(directory.path(), copy.path(), fs::copy_options::recursive);
      size_t entries = 0;
      {
        RawDatabase raw(copy.path() + "/db.v2");
        for (const auto& [key, value] : raw.All(family)) {
          std::string flipped = value;
          flipped[random() % value.size()] ^= static_cast<char>(1 + random() % 255);
          raw.Put(family, key, flipped);
          ++entries;
        }
      }
      ASSERT_GT(entries, 0u) << family;
      flips += entries;
      const auto store = MustOpen(copy.path());
      const auto findings = *store->Verify(nullptr);
      EXPECT_EQ(findings.size(), entries) << family;
      for (const std::string& finding : findings) EXPECT_THAT(finding, StartsWith(family));
      EXPECT_THAT(*store->Verify(nullptr), IsEmpty())
          << family;  // all dropped, the inventory made again
    }
  }
  std::printf("%zu flips in stored records of six families, all detected\n", flips);
}

TEST(Damage, AValueUnderAnotherKeyIsDetected) {
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), 2);
  }
  {
    RawDatabase raw(directory.path() + "/db.v2");
    const auto entries = raw.All("artifacts");
    raw.Put("artifacts", entries[0].first, entries[1].second);
  }
  EXPECT_EQ(CountFound(MustOpen(directory.path()).get(), 2), 1);
}

TEST(Damage, VerifyNamesFamilyAndKeyAndPutsIntoQuarantine) {
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), 20);
  }
  {
    RawDatabase raw(directory.path() + "/db.v2");
    raw.Put("artifacts", TestKey(Name(3)).hash, "nonsense");
    raw.Put("tunings", TuningKey("k", "m", "b", "d"), "nonsense");
  }
  const auto store = MustOpen(directory.path());
  uint64_t checked = 0;
  EXPECT_THAT(*store->Verify(&checked),
              ElementsAre(HasSubstr("artifacts " + TestKey(Name(3)).hex()), HasSubstr("tunings ")));
  EXPECT_EQ(checked, 41u);  // 20 artifacts, the inventory of 19, 1 tuning, the schema
  EXPECT_THAT(*store->Verify(&checked), IsEmpty());
  EXPECT_EQ(store->List("quarantine", "", 0)->size(), 2u);
  EXPECT_EQ(CountFound(store.get(), 20), 19);
}

TEST(Damage, ADamagedTableBlockLosesNothingButItself) {
  constexpr int kEntries = 400;
  TemporaryDirectory directory;
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), kEntries);
  }
  {
    RawDatabase raw(directory.path() + "/db.v2");
    raw.FlushAndCompact("artifacts");
  }
  const auto tables = FilesLike(directory.path() + "/db.v2", ".sst");
  ASSERT_THAT(tables, Not(IsEmpty()));
  const std::string table = *std::max_element(
      tables.begin(), tables.end(),
      [](const auto& a, const auto& b) { return fs::file_size(a) < fs::file_size(b); });
  FlipByte(table, fs::file_size(table) / 3, 0x10);

  Notes notes;
  auto store = RocksdbRecordStore::Open(directory.path(), notes.Options());
  ASSERT_TRUE(store.ok()) << store.status();
  uint64_t checked = 0;
  EXPECT_THAT(*(*store)->Verify(&checked), ElementsAre(HasSubstr("unreadable")));
  checked -= kEntries + 1;  // the inventory and the schema, which are sound
  EXPECT_GT(checked, uint64_t{kEntries} * 9 / 10);
  EXPECT_LT(checked, uint64_t{kEntries});
  const int found = CountFound(store->get(), kEntries);
  EXPECT_EQ(found, static_cast<int>(checked));
  EXPECT_EQ((*store)->Stats().corrupt_entries, static_cast<uint64_t>(kEntries - found));
  EXPECT_EQ((*store)->Stats().state, "ok");
  Fill(store->get(), kEntries);
  EXPECT_EQ(CountFound(store->get(), kEntries), kEntries);
  EXPECT_THAT(notes.notes, Contains(HasSubstr("has unreadable places")));

  // A round of maintenance leaves the damaged table behind, and nothing else, while the store is in
  // use.
  notes.notes.clear();
  (*store)->Maintain();
  EXPECT_THAT(notes.notes, Contains(HasSubstr("sound entries into a fresh database")));
  EXPECT_THAT(notes.notes, Contains(HasSubstr("set aside as")));
  EXPECT_THAT(*(*store)->Verify(&checked), IsEmpty());
  EXPECT_EQ(CountFound(store->get(), kEntries), kEntries);
  EXPECT_FALSE(fs::exists(directory.path() + "/salvage"));
  store->reset();
  EXPECT_EQ(CountFound(MustOpen(directory.path()).get(), kEntries), kEntries);
}

// Any file, any byte: the store opens, answers rightly or not at all, takes new entries and keeps
// them.
TEST(Damage, AFlippedByteInAnyFileNeverLies) {
  constexpr int kEntries = 60;
  TemporaryDirectory original;
  {
    // A part in tables and blob files, the rest in the log.
    auto store = MustOpen(original.path());
    Fill(store.get(), kEntries);
    store.reset();
    { RawDatabase(original.path() + "/db.v2").FlushAndCompact("artifacts"); }
    store = MustOpen(original.path());
    for (int i = 0; i < kEntries; i += 3) {
      ASSERT_TRUE(store->PutArtifact(TestKey(Name(i)), TestArtifact(Name(i), CodeBytes(i))).ok());
    }
  }
  std::mt19937 random(11);
  std::map<std::string, int> found_by_kind, flips_by_kind;
  for (const char* kind : {".sst", ".blob", ".log", "MANIFEST", "CURRENT", "OPTIONS"}) {
    ASSERT_THAT(FilesLike(original.path() + "/db.v2", kind), Not(IsEmpty())) << kind;
    for (int flip = 0; flip < (kind[0] == '.' ? 10 : 3); ++flip) {
      TemporaryDirectory copy;
      fs::copy(original.path(), copy.path(), fs::copy_options::recursive);
      const auto files = FilesLike(copy.path() + "/db.v2", kind);
      const std::string& file = files[random() % files.size()];
      const uint64_t offset = random() % fs::file_size(file);
      FlipByte(file, offset, static_cast<char>(1 + random() % 255));
      SCOPED_TRACE(absl::StrCat(file, " at ", offset));
      {
        const auto store = MustOpen(copy.path());
        ASSERT_NE(store, nullptr);
        found_by_kind[kind] += CountFound(store.get(), kEntries);
        ++flips_by_kind[kind];
        Fill(store.get(), kEntries);
        ASSERT_EQ(CountFound(store.get(), kEntries), kEntries);
      }
      const auto store = MustOpen(copy.path());
      ASSERT_EQ(store->Stats().state, "ok");
      EXPECT_GE(CountFound(store.get(), kEntries),
                kEntries - 20);  // the neighbours in a damaged block
    }
  }
  for (const auto& [kind, found] : found_by_kind) {
    std::printf("%s: %.1f of %d entries were found after a flip\n", kind.c_str(),
                double(found) / flips_by_kind[kind], kEntries);
  }
  // A blob is one entry; everything else is a block, or a file that is only about the others.
  EXPECT_GE(found_by_kind[".blob"], (kEntries - 2) * flips_by_kind[".blob"]);
}

TEST(Damage, ADatabaseThatDoesNotOpenIsSetAsideAndWhatCanBeReadIsKept) {
  constexpr int kEntries = 50;
  for (const char* lost : {"CURRENT", "MANIFEST", ".sst"}) {
    SCOPED_TRACE(lost);
    TemporaryDirectory directory;
    {
      const auto store = MustOpen(directory.path());
      Fill(store.get(), kEntries);
      ASSERT_TRUE(store->PutTuning(TuningKey("k", "m", "b", "d"), {}).ok());
    }
    {
      RawDatabase raw(directory.path() + "/db.v2");
      raw.FlushAndCompact("artifacts");
      raw.FlushAndCompact("tunings");
    }
    fs::remove(FilesLike(directory.path() + "/db.v2", lost)[0]);
    Notes notes;
    const auto store = MustOpen(directory.path(), notes.Options());
    EXPECT_EQ(store->Stats().state, "ok");
    EXPECT_THAT(notes.notes, Contains(HasSubstr("set aside as")));
    const int found = CountFound(store.get(), kEntries);
    const bool tuning = store->FindTuning(TuningKey("k", "m", "b", "d"))->found();
    std::printf("without %s: %d of %d artifacts, tuning %s\n", lost, found, kEntries,
                tuning ? "kept" : "lost");
    EXPECT_TRUE(tuning || found > 0);
    Fill(store.get(), kEntries);
    EXPECT_EQ(CountFound(store.get(), kEntries), kEntries);
  }
}

// The power went while RocksDB wrote to it: the length is there, the bytes are not.
TEST(Damage, AManifestThatEndsInZerosLosesNothingNotEvenWhatIsInTheLog) {
  constexpr int kEntries = 50;
  TemporaryDirectory directory;
  MustOpen(directory.path());
  {
    const auto store = MustOpen(directory.path());
    Fill(store.get(), kEntries / 2);
  }
  { RawDatabase(directory.path() + "/db.v2").FlushAndCompact("artifacts"); }
  {
    // Less than what a close writes out into tables.
    const auto store = MustOpen(directory.path());
    for (int i = kEntries / 2; i < kEntries; ++i) {
      ASSERT_TRUE(store->PutArtifact(TestKey(Name(i)), TestArtifact(Name(i), CodeBytes(i))).ok());
    }
    ASSERT_TRUE(store->PutTuning(TuningKey("k", "m", "b", "d"), {}).ok());
  }
  const auto manifests = FilesLike(directory.path() + "/db.v2", "MANIFEST");
  ASSERT_EQ(manifests.size(), 1u);
  for (int tear = 0; tear < 3; ++tear) {
    // Checksum, length and kind of a whole record, then zeros.
    std::ofstream(manifests[0], std::ios::binary | std::ios::app)
        << std::string("abcd\x30\0\1", 7) << std::string(0x30, '\0');
  }
  Notes notes;
  const auto store = MustOpen(directory.path(), notes.Options());
  EXPECT_EQ(store->Stats().state, "ok");
  EXPECT_THAT(notes.notes, Contains(HasSubstr("set aside as")));
  // Read in two ways, and told once.
  EXPECT_THAT(notes.notes, Contains(HasSubstr("sound entries into a fresh database")).Times(1));
  EXPECT_FALSE(fs::exists(directory.path() + "/db.v2.reading"));
  EXPECT_EQ(CountFound(store.get(), kEntries), kEntries);
  EXPECT_TRUE(store->FindTuning(TuningKey("k", "m", "b", "d"))->found());
}

// Somebody tidies up below a running store.
class DeletedUnderneath : public ::testing::TestWithParam<const char*> {};

TEST_P(DeletedUnderneath, IsNoticedNamedAndMadeGood) {
  constexpr int kEntries = 200;
  const std::string what = GetParam();
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/state", database = path + "/db.v2";
  { Fill(MustOpen(path).get(), kEntries / 2); }
  { RawDatabase(database).FlushAndCompact("artifacts"); }
  Notes notes;
  auto store = RocksdbRecordStore::Open(path, notes.Options());
  ASSERT_TRUE(store.ok()) << store.status();
  Fill(store->get(),
       kEntries);  // half of it in tables and blob files, half in the log and in memory
  if (what == "everything") {
    fs::remove_all(path);
  } else {
    const auto files = FilesLike(database, what);
    ASSERT_THAT(files, Not(IsEmpty()));
    for (const std::string& file : files) fs::remove(file);
  }
  // It goes on at once, with what is open, in memory, or rebuilt.
  CountFound(store->get(), kEntries);
  (*store)->PutArtifact(TestKey("late"), TestArtifact("late")).IgnoreError();
  EXPECT_TRUE((*store)->FindArtifact(TestKey("late"))->found());
  // A round of maintenance names what is gone and copies what is left.
  (*store)->Maintain();
  (*store)->Maintain();
  EXPECT_THAT(notes.notes, Contains(HasSubstr("was deleted")));
  EXPECT_EQ((*store)->Stats().state, "ok");
  const int found = CountFound(store->get(), kEntries);
  EXPECT_TRUE((*store)->FindArtifact(TestKey("late"))->found());
  Fill(store->get(), kEntries);
  EXPECT_EQ(CountFound(store->get(), kEntries), kEntries);
  // Still its own: nobody else gets in.
  EXPECT_EQ(OpenRocksdbStore(path).status().code(), absl::StatusCode::kFailedPrecondition);
  store->reset();
  notes.notes.clear();
  const auto again = MustOpen(path, notes.Options());
  EXPECT_EQ(CountFound(again.get(), kEntries), kEntries);
  EXPECT_TRUE(again->FindArtifact(TestKey("late"))->found());
  EXPECT_THAT(*again->Verify(nullptr), IsEmpty());
  std::printf("%s deleted: %d of %d entries were still there\n", what.c_str(), found, kEntries);
}

INSTANTIATE_TEST_SUITE_P(Files, DeletedUnderneath,
                         ::testing::Values(".sst", ".blob", ".log", "CURRENT", "MANIFEST",
                                           "everything"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.erase(std::remove(name.begin(), name.end(), '.'), name.end());
                           return name;
                         });

TEST(Damage, KeepsThreeOfTheDatabasesThatWereSetAside) {
  TemporaryDirectory directory;
  for (int i = 0; i < 6; ++i) {
    { Fill(MustOpen(directory.path()).get(), 1); }
    std::ofstream(directory.path() + "/db.v2/CURRENT") << "MANIFEST-999999\n";
  }
  MustOpen(directory.path());
  int aside = 0;
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    aside += absl::StrContains(entry.path().filename().string(), ".damaged-");
  }
  EXPECT_EQ(aside, 3);
}

TEST(Damage, GoesOnWithASalvageThatWasCutShort) {
  TemporaryDirectory directory;
  { Fill(MustOpen(directory.path()).get(), 5); }
  // Killed after the copy was finished, before it took its place.
  fs::rename(directory.path() + "/db.v2", directory.path() + "/db.v2.salvaged");
  std::ofstream(directory.path() + "/salvage") << "a block was damaged\n";
  const auto store = MustOpen(directory.path());
  EXPECT_EQ(CountFound(store.get(), 5), 5);
  EXPECT_FALSE(fs::exists(directory.path() + "/salvage"));
}

TEST(Damage, RemovesWhatASalvageThatWasKilledHadBegunOnceTheDirectoryIsItsOwn) {
  TemporaryDirectory directory;
  const std::string database = directory.path() + "/db.v2";
  const std::vector<std::string> unfinished = {directory.path() + "/db.v1.reading",
                                               database + ".reading", database + ".partial"};
  auto store = MustOpen(directory.path());
  Fill(store.get(), 5);
  for (const std::string& folder : unfinished) {
    fs::create_directory(folder);
    for (const std::string& file : FilesLike(database, ""))
      fs::create_hard_link(file, folder + "/" + fs::path(file).filename().string());
  }
  // They may be what another one is at.
  EXPECT_EQ(OpenRocksdbStore(directory.path()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const std::string& folder : unfinished) EXPECT_TRUE(fs::exists(folder)) << folder;
  store.reset();
  store = MustOpen(directory.path());
  for (const std::string& folder : unfinished) EXPECT_FALSE(fs::exists(folder)) << folder;
  EXPECT_EQ(CountFound(store.get(), 5), 5);
  EXPECT_THAT(*store->Verify(nullptr), IsEmpty());
}

// A file system whose writes fail as long as it is told so.
struct Faults {
  std::atomic<bool> writes_fail{false};
  std::atomic<bool> full{false};  // how: no space left, or an I/O error
};

class FaultyFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, Faults* faults)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = Fault(faults_);
    return fault.ok() ? FSWritableFileOwnerWrapper::Append(data, options, debug) : fault;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& verification,
                           rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = Fault(faults_);
    return fault.ok() ? FSWritableFileOwnerWrapper::Append(data, options, verification, debug)
                      : fault;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = Fault(faults_);
    return fault.ok() ? FSWritableFileOwnerWrapper::Sync(options, debug) : fault;
  }

  static rocksdb::IOStatus Fault(Faults* faults) {
    if (!faults->writes_fail) return rocksdb::IOStatus::OK();
    return faults->full ? rocksdb::IOStatus::NoSpace("No space left on device")
                        : rocksdb::IOStatus::IOError("Input/output error");
  }

 private:
  Faults* const faults_;
};

class FaultyFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(Faults* faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus fault = FaultyFile::Fault(faults_);
    if (!fault.ok()) return fault;
    const rocksdb::IOStatus status =
        FileSystemWrapper::NewWritableFile(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<FaultyFile>(std::move(*result), faults_);
    return status;
  }

 private:
  Faults* const faults_;
};

class FailingDisk : public ::testing::TestWithParam<bool> {
 protected:
  FailingDisk() : env_(rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&faults_))) {
    faults_.full = GetParam();
  }
  std::unique_ptr<RocksdbRecordStore> Open() {
    auto store = RocksdbRecordStore::Open(directory_.path(), notes_.Options(), env_.get());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  Faults faults_;
  Notes notes_;
  TemporaryDirectory directory_;
  std::unique_ptr<rocksdb::Env> env_;
};

TEST_P(FailingDisk, DegradesToMemorySaysSoAndRecovers) {
  auto store = Open();
  Fill(store.get(), 10);
  faults_.writes_fail = true;
  const absl::Status refused = store->PutArtifact(TestKey("late"), TestArtifact("late"));
  EXPECT_EQ(refused.code(),
            GetParam() ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("kept in memory"));
  // Served all the same, old and new.
  EXPECT_TRUE(store->FindArtifact(TestKey("late"))->found());
  EXPECT_EQ(CountFound(store.get(), 10), 10);
  EXPECT_EQ(store->List("artifacts", "", 0)->size(), 11u);
  EXPECT_THAT(store->Stats().state, StartsWith("memory only: "));
  EXPECT_THAT(notes_.notes, Contains(HasSubstr("memory only: ")));
  // A round of trying while the disk still fails changes nothing.
  store->Maintain();
  EXPECT_THAT(store->Stats().state, StartsWith("memory only: "));
  EXPECT_FALSE(store->PutArtifact(TestKey("later"), TestArtifact("later")).ok());
  EXPECT_TRUE(store->FindArtifact(TestKey("later"))->found());

  faults_.writes_fail = false;
  store->Maintain();
  EXPECT_EQ(store->Stats().state, "ok");
  EXPECT_TRUE(store->PutArtifact(TestKey("after"), TestArtifact("after")).ok());
  store.reset();
  store = Open();
  for (const char* name : {"late", "later", "after"})
    EXPECT_TRUE(store->FindArtifact(TestKey(name))->found()) << name;
  EXPECT_EQ(CountFound(store.get(), 10), 10);
}

TEST_P(FailingDisk, ReadsOnWhereItCannotOpenForWriting) {
  { Fill(Open().get(), 10); }
  faults_.writes_fail = true;
  const auto store = Open();
  EXPECT_THAT(store->Stats().state, StartsWith("read only, new entries in memory: "));
  EXPECT_EQ(CountFound(store.get(), 10), 10);
  EXPECT_FALSE(store->PutArtifact(TestKey("late"), TestArtifact("late")).ok());
  EXPECT_TRUE(store->FindArtifact(TestKey("late"))->found());
  store->Maintain();
  EXPECT_THAT(store->Stats().state, StartsWith("read only"));
  faults_.writes_fail = false;
  store->Maintain();
  EXPECT_EQ(store->Stats().state, "ok");
  EXPECT_TRUE(store->PutArtifact(TestKey("after"), TestArtifact("after")).ok());
  EXPECT_TRUE(store->FindArtifact(TestKey("late"))->found());
  EXPECT_EQ(CountFound(store.get(), 10), 10);
}

TEST_P(FailingDisk, StartsInMemoryWhereNothingCanBeCreated) {
  faults_.writes_fail = true;
  const auto store = Open();
  EXPECT_THAT(store->Stats().state, StartsWith("memory only: "));
  EXPECT_FALSE(store->PutArtifact(TestKey("late"), TestArtifact("late")).ok());
  EXPECT_TRUE(store->FindArtifact(TestKey("late"))->found());
  EXPECT_TRUE(store->EraseTuning("none").ok());
  uint64_t checked = 0;
  EXPECT_THAT(*store->Verify(&checked), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingDisk, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Broken"; });

TEST(Damage, StartsInMemoryWhereTheDirectoryCannotBe) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/file") << "x";
  const auto store = MustOpen(directory.path() + "/file/cache");
  EXPECT_THAT(store->Stats().state, StartsWith("memory only: creating "));
  EXPECT_FALSE(store->PutTuning("t", {}).ok());
  EXPECT_TRUE(store->FindTuning("t")->found());
}

}  // namespace
}  // namespace tessera::cache
