// A bundle brings a cache to another machine: whole, in the same bytes, and never what is damaged.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/bundle/bundle_export.h"
#include "cache/bundle/bundle_import.h"
#include "cache/store/conformance/test_records.h"
#include "cache/store/memory/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNow = 2000000000;
constexpr char kBuild[] = "test";  // of TestKey

std::string Name(int number) { return absl::StrCat("k", number); }

storage::ModuleRecord Module(const std::string& kernel) {
  storage::ModuleRecord module;
  module.add_files()->set_text("def " + kernel);
  module.mutable_description()->add_kernels()->set_name(kernel);
  return module;
}

// Artifacts k0 to k9, each with its module and a tuning, made at `when`.
void Fill(CacheStore* store, int64_t when, int entries = 10) {
  for (int i = 0; i < entries; ++i) {
    storage::ArtifactRecord artifact = TestArtifact(Name(i), 200 + 50 * i);
    artifact.set_created_unix_seconds(when);
    artifact.set_compile_seconds(when * 1e-9);
    artifact.mutable_artifact()->mutable_metadata()->set_target(i % 2 == 0 ? "cpu" : "sm_90a");
    auto* stage = artifact.mutable_artifact()->mutable_metadata()->add_stage_times();
    stage->set_seconds(when * 1e-10);
    ASSERT_TRUE(store->PutArtifact(TestKey(Name(i)), artifact).ok());
    storage::ModuleRecord module = Module(Name(i));
    module.set_registered_unix_seconds(when);
    ASSERT_TRUE(store->PutModule(ModuleId(module), module).ok());
    storage::TuningRecord tuning;
    tuning.set_kernel(Name(i));
    tuning.set_chosen(i);
    ASSERT_TRUE(store->PutTuning(TuningKey(Name(i), "m", "b", "d"), tuning).ok());
  }
}

std::string Exported(CacheStore* store, const ExportFilter& filter = {}) {
  std::string bundle;
  const auto entries = ExportBundle(store, filter, [&](absl::string_view piece) {
    bundle.append(piece.data(), piece.size());
    return true;
  });
  EXPECT_TRUE(entries.ok()) << entries.status();
  return bundle;
}

absl::Status Imported(absl::string_view bundle, CacheStore* store, BundleReport* report, size_t piece = 100000,
                      const std::string& build = kBuild) {
  BundleImport import(store, build, /*replace=*/false, kNow);
  for (size_t at = 0; at < bundle.size(); at += piece) {
    const absl::Status fed = import.Feed(bundle.substr(at, piece));
    if (!fed.ok()) return fed;
  }
  const absl::Status finished = import.Finish();
  *report = import.report();
  return finished;
}

TEST(Bundle, BringsEverythingToAnotherStore) {
  const auto from = NewMemoryStore(), to = NewMemoryStore();
  Fill(from.get(), 1000);
  BundleReport report;
  ASSERT_TRUE(Imported(Exported(from.get()), to.get(), &report).ok());
  EXPECT_EQ(report.entries.imported, 30u);
  for (int i = 0; i < 10; ++i) {
    const auto artifact = to->FindArtifact(TestKey(Name(i)));
    ASSERT_TRUE(artifact->found());
    EXPECT_EQ(artifact->record.artifact().code(), TestArtifact(Name(i), 200 + 50 * i).artifact().code());
    EXPECT_EQ(artifact->record.created_unix_seconds(), kNow);
    EXPECT_TRUE(to->FindModule(ModuleId(Module(Name(i))))->found());
    EXPECT_EQ(to->FindTuning(TuningKey(Name(i), "m", "b", "d"))->record.chosen(), uint32_t(i));
  }
  EXPECT_THAT(*to->Verify(nullptr), IsEmpty());
}

TEST(Bundle, HasTheSameBytesForTheSameContent) {
  const auto one = NewMemoryStore(), other = NewMemoryStore(), third = NewMemoryStore();
  Fill(one.get(), 1000);
  Fill(other.get(), 2000);  // at another time, at another speed
  const std::string bundle = Exported(one.get());
  EXPECT_EQ(bundle, Exported(one.get()));
  EXPECT_EQ(bundle, Exported(other.get()));
  BundleReport report;
  ASSERT_TRUE(Imported(bundle, third.get(), &report).ok());
  EXPECT_EQ(bundle, Exported(third.get()));
}

TEST(Bundle, ReadsPiecesOfAnySize) {
  const auto from = NewMemoryStore();
  Fill(from.get(), 1000, 3);
  const std::string bundle = Exported(from.get());
  for (size_t piece : {1u, 7u, 44u, 1000u}) {
    const auto to = NewMemoryStore();
    BundleReport report;
    ASSERT_TRUE(Imported(bundle, to.get(), &report, piece).ok()) << piece;
    EXPECT_EQ(report.entries.imported, 9u);
  }
}

TEST(Bundle, TakesWhatTheFilterSays) {
  const auto from = NewMemoryStore();
  Fill(from.get(), 1000);
  const auto imported = [&](const ExportFilter& filter) {
    const auto to = NewMemoryStore();
    BundleReport report;
    EXPECT_TRUE(Imported(Exported(from.get(), filter), to.get(), &report).ok());
    return report.entries.imported;
  };
  EXPECT_EQ(imported({{"k3", "k4"}}), 6u);
  EXPECT_EQ(imported({{"k3"}, {"artifacts"}}), 1u);
  EXPECT_EQ(imported({{}, {"artifacts"}, {"cpu"}}), 5u);
  EXPECT_EQ(imported({{"nobody"}}), 0u);
  EXPECT_EQ(imported({{}, {"artifacts"}, {}, "another build"}), 0u);
  EXPECT_EQ(ExportBundle(from.get(), {{}, {"usage"}}, [](absl::string_view) { return true; }).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Bundle, CarriesAManifest) {
  const auto from = NewMemoryStore(), to = NewMemoryStore();
  ExportFilter filter;
  filter.manifest = "modules: []\n";
  BundleReport report;
  ASSERT_TRUE(Imported(Exported(from.get(), filter), to.get(), &report).ok());
  EXPECT_EQ(report.manifest, "modules: []\n");
}

TEST(Bundle, LeavesOutArtifactsOfAnotherBuild) {
  const auto from = NewMemoryStore(), to = NewMemoryStore();
  Fill(from.get(), 1000);
  BundleReport report;
  ASSERT_TRUE(Imported(Exported(from.get()), to.get(), &report, 100000, "another build").ok());
  EXPECT_EQ(report.other_build, 10u);
  EXPECT_EQ(report.entries.imported, 20u);
}

TEST(Bundle, KeepsWhatIsThere) {
  const auto from = NewMemoryStore(), to = NewMemoryStore();
  Fill(from.get(), 1000, 1);
  storage::TuningRecord ours;
  ours.set_kernel("k0");
  ours.set_chosen(77);
  ASSERT_TRUE(to->PutTuning(TuningKey("k0", "m", "b", "d"), ours).ok());
  BundleReport report;
  ASSERT_TRUE(Imported(Exported(from.get()), to.get(), &report).ok());
  EXPECT_EQ(report.entries.already_there, 1u);
  EXPECT_EQ(to->FindTuning(TuningKey("k0", "m", "b", "d"))->record.chosen(), 77u);
}

// Every byte of the file in turn: the damage is seen, what it hit does not enter, everything else does.
TEST(Bundle, SeesEveryFlippedByteAndTakesTheRest) {
  const auto from = NewMemoryStore();
  Fill(from.get(), 1000, 3);
  const std::string bundle = Exported(from.get());
  std::mt19937 random(3);
  for (size_t at = 16; at < bundle.size(); ++at) {
    std::string flipped = bundle;
    flipped[at] ^= static_cast<char>(1 + random() % 255);
    const auto to = NewMemoryStore();
    BundleReport report;
    ASSERT_EQ(Imported(flipped, to.get(), &report).code(), absl::StatusCode::kDataLoss) << at;
    ASSERT_GE(report.entries.imported, 8u) << at;  // of 9
    ASSERT_THAT(report.entries.findings, Not(IsEmpty()));
    for (int i = 0; i < 3; ++i) {
      const auto artifact = to->FindArtifact(TestKey(Name(i)));
      if (!artifact->found()) continue;
      ASSERT_EQ(artifact->record.artifact().code(), TestArtifact(Name(i), 200 + 50 * i).artifact().code()) << at;
    }
  }
}

TEST(Bundle, SaysWhenItWasCutShort) {
  const auto from = NewMemoryStore();
  Fill(from.get(), 1000, 2);
  const std::string bundle = Exported(from.get());
  for (size_t size = 16; size < bundle.size(); size += 13) {
    const auto to = NewMemoryStore();
    BundleReport report;
    ASSERT_EQ(Imported(absl::string_view(bundle).substr(0, size), to.get(), &report).code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST(Bundle, RefusesWhatIsNoneAndVersionsToCome) {
  const auto to = NewMemoryStore();
  BundleReport report;
  EXPECT_EQ(Imported("", to.get(), &report).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Imported("hello, world, this is text", to.get(), &report).code(), absl::StatusCode::kInvalidArgument);
  std::string next = Exported(NewMemoryStore().get());
  next[8] = 2;
  const absl::Status refused = Imported(next, to.get(), &report);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("version 2"));
}

TEST(Bundle, StopsWhenTheSinkDoes) {
  const auto from = NewMemoryStore();
  Fill(from.get(), 1000);
  int pieces = 0;
  EXPECT_EQ(ExportBundle(from.get(), {}, [&](absl::string_view) { return ++pieces < 4; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(pieces, 4);
}

// Signatures come behind the end: today's readers pass over them.
TEST(Bundle, PassesOverASignature) {
  const auto from = NewMemoryStore(), to = NewMemoryStore();
  Fill(from.get(), 1000, 1);
  BundleReport report;
  const std::string bundle = Exported(from.get()) + FrameWriter().Frame(FrameKind::kSignature, "signer", "bytes");
  EXPECT_TRUE(Imported(bundle, to.get(), &report).ok());
}

}  // namespace
}  // namespace tessera::cache
