#include "server/compile/cache_keeper.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cache/store/conformance/test_records.h"
#include "cache/store/memory/memory_store.h"
#include "gtest/gtest.h"

namespace tessera::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(2000000000);

TEST(CacheKeeper, SparesWhatIsLoadedAlsoIfItWasLoadedMeanwhile) {
  auto store = cache::NewMemoryStore();
  for (int i = 0; i < 10; ++i) {
    std::string name = absl::StrCat("k", i);
    ASSERT_TRUE(store->PutArtifact(cache::TestKey(name), cache::TestArtifact(name, 1000)).ok());
  }
  std::string loaded = cache::TestKey("k3").hash;
  CacheKeeper keeper(
      store.get(), {2000, 0}, [&](CacheKeeper::InUse* in_use) { in_use->artifacts.insert(loaded); },
      [](absl::string_view hash) { return hash == cache::TestKey("k7").hash; });
  EXPECT_EQ(keeper.Collect(true, kNow)->entries, 8u);
  loaded = cache::TestKey("k4").hash;
  EXPECT_EQ(keeper.Collect(false, kNow)->entries, 8u);
  EXPECT_FALSE(store->FindArtifact(cache::TestKey("k3"))->found());
  EXPECT_TRUE(store->FindArtifact(cache::TestKey("k4"))->found());
  EXPECT_TRUE(store->FindArtifact(cache::TestKey("k7"))->found());
}

TEST(CacheKeeper, IsDueAtTheStartAndWhenEntriesCameAWhileAfterTheLastRound) {
  auto store = cache::NewMemoryStore();
  CacheKeeper keeper(
      store.get(), {}, [](CacheKeeper::InUse*) {}, [](absl::string_view) { return false; });
  std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  EXPECT_TRUE(keeper.Due(0, start));
  EXPECT_FALSE(keeper.Due(0, start + std::chrono::hours(1)));
  EXPECT_TRUE(keeper.Due(1, start + std::chrono::hours(1)));
  EXPECT_FALSE(keeper.Due(2, start + std::chrono::hours(1) + std::chrono::seconds(1)));
  EXPECT_TRUE(keeper.Due(2, start + std::chrono::hours(2)));
}

}  // namespace
}  // namespace tessera::server
