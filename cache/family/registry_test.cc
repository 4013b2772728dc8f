#include "cache/family/family.h"

#include <set>
#include <string>

#include "cache/family/failures/failures_family.h"
#include "cache/key/compile_key.h"
#include "gtest/gtest.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/storage/tunings.pb.h"
#include "rocksdb/options.h"

namespace tessera::cache {
namespace {

TEST(Registry, FindsFamiliesByTheNamesThatTheyAlwaysHad) {
  for (const char* name : {"modules", "artifacts", "inventory", "failures", "tunings", "usage", "meta", "quarantine"}) {
    const Family* family = FindFamily(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_STREQ(family->name, name);
  }
  EXPECT_EQ(FindFamily("default"), nullptr);
}

TEST(Registry, GivesEveryFamilyOptionsOfItsOwn) {
  for (const Family* family : AllFamilies()) {
    rocksdb::ColumnFamilyOptions options;
    family->tune(FamilyResources{}, &options);
    EXPECT_LE(options.write_buffer_size, 8u << 20) << family->name;
  }
}

TEST(Registry, ChecksThatAnArtifactLiesUnderItsOwnKey) {
  const CompileKey key = MakeCompileKey(storage::CompileJob(), "closure", "build");
  storage::ArtifactRecord record;
  record.set_key(key.canonical);
  const Family& artifacts = *FindFamily("artifacts");
  EXPECT_EQ(artifacts.check(key.hash, record.SerializeAsString()), "");
  EXPECT_NE(artifacts.check(std::string(32, 'x'), record.SerializeAsString()), "");
  EXPECT_NE(artifacts.check(key.hash, "\xff"), "");
}

TEST(Registry, PrintsEntriesInOneLine) {
  storage::ArtifactRecord artifact;
  artifact.mutable_artifact()->mutable_metadata()->set_kernel("add_kernel");
  artifact.mutable_artifact()->mutable_metadata()->set_target("cpu");
  artifact.mutable_artifact()->set_code(std::string(2048, 'c'));
  artifact.set_compile_seconds(0.25);
  artifact.set_created_unix_seconds(1900000000);
  EXPECT_EQ(FindFamily("artifacts")->dump("", artifact.SerializeAsString()),
            "add_kernel for cpu: 2.0 KiB of code, compiled in 250.00 ms at 2030-03-17T17:46:40Z");

  storage::TuningRecord tuning;
  tuning.set_kernel("matmul");
  tuning.set_bucket("M=pow2:512");
  tuning.set_device("cpu");
  tuning.add_trials();
  tuning.add_trials()->set_median_seconds(0.002);
  tuning.set_chosen(1);
  tuning.set_pinned(true);
  EXPECT_EQ(FindFamily("tunings")->dump("", tuning.SerializeAsString()),
            "matmul [M=pow2:512] on cpu: configuration 1 of 2, 2.00 ms, pinned");

  storage::UsageRecord usage;
  usage.set_kernel("add_kernel");
  usage.set_launches(7);
  EXPECT_EQ(FindFamily("usage")->dump("", usage.SerializeAsString()),
            "add_kernel: 7 launches, the last at an unknown time");
}

TEST(Registry, CountsAFailureFromTheFutureAsExpired) {
  storage::FailureRecord record;
  record.set_created_unix_seconds(1000);
  record.set_expires_unix_seconds(1600);
  EXPECT_FALSE(Expired(record, 1000));
  EXPECT_FALSE(Expired(record, 1599));
  EXPECT_TRUE(Expired(record, 1600));
  EXPECT_TRUE(Expired(record, 999));  // the clock was set back
}

}  // namespace
}  // namespace tessera::cache
