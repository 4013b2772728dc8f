#include "cache/store/eviction.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kNow = 2000000000, kDay = 24 * 3600;

EvictionCandidate Artifact(const std::string& key, uint64_t bytes = 100, double compile_seconds = 1,
                           uint64_t launches = 10, int64_t age = 0) {
  return {key, "kernel", bytes, compile_seconds, launches, kNow - age, false};
}

std::vector<std::string> Evicted(const std::vector<EvictionCandidate>& candidates, const EvictionBudget& budget,
                                 uint64_t other_bytes = 0) {
  std::vector<std::string> keys;
  for (const Eviction& eviction : PlanEviction(candidates, budget, other_bytes, kNow)) {
    keys.push_back(candidates[eviction.candidate].key);
  }
  return keys;
}

TEST(Eviction, LeavesEverythingWithinTheBudget) {
  EXPECT_THAT(Evicted({Artifact("a"), Artifact("b")}, {200, 2}), IsEmpty());
  EXPECT_THAT(Evicted({Artifact("a"), Artifact("b")}, {}), IsEmpty());
}

TEST(Eviction, TakesWhatWasUsedLongestAgoFirst) {
  EXPECT_THAT(Evicted({Artifact("new"), Artifact("old", 100, 1, 10, 30 * kDay)}, {150}), ElementsAre("old"));
}

TEST(Eviction, TakesWhatIsLaunchedSeldomFirst) {
  EXPECT_THAT(Evicted({Artifact("seldom", 100, 1, 1), Artifact("often", 100, 1, 1000)}, {150}), ElementsAre("seldom"));
}

TEST(Eviction, TakesWhatIsQuickToRebuildFirst) {
  EXPECT_THAT(Evicted({Artifact("slow", 100, 20), Artifact("quick", 100, 0.1)}, {150}), ElementsAre("quick"));
}

TEST(Eviction, TakesTheLargerOfTwoThatAreElseAlike) {
  EXPECT_THAT(Evicted({Artifact("small", 50), Artifact("large", 500)}, {300}), ElementsAre("large"));
}

TEST(Eviction, GivesAgeingItsDueOverPastGlory) {
  // A thousand launches half a year ago weigh less than ten yesterday.
  EXPECT_THAT(Evicted({Artifact("star", 100, 1, 1000, 180 * kDay), Artifact("fresh", 100, 1, 10, kDay)}, {150}),
              ElementsAre("star"));
}

TEST(Eviction, NeverTakesWhatIsInUse) {
  EvictionCandidate loaded = Artifact("loaded", 100, 0.001, 0, 300 * kDay);
  loaded.in_use = true;
  EXPECT_THAT(Evicted({loaded, Artifact("idle")}, {150}), ElementsAre("idle"));
  EXPECT_THAT(Evicted({loaded}, {1, 0}), IsEmpty());
}

TEST(Eviction, KeepsToTheLimitOfEachKernel) {
  std::vector<EvictionCandidate> candidates;
  for (int i = 0; i < 5; ++i) candidates.push_back(Artifact(std::string(1, 'a' + i), 1, 1, i));
  candidates.push_back(Artifact("other", 1, 1, 0));
  candidates.back().kernel = "another kernel";
  EXPECT_THAT(Evicted(candidates, {0, 3}), ElementsAre("a", "b"));
  candidates[0].in_use = true;
  EXPECT_THAT(Evicted(candidates, {0, 3}), ElementsAre("b", "c"));
}

TEST(Eviction, GoesOnToNineTenthsOfTheBudget) {
  std::vector<EvictionCandidate> candidates;
  for (int i = 0; i < 101; ++i) candidates.push_back(Artifact(std::to_string(i), 10));
  EXPECT_EQ(Evicted(candidates, {1000}).size(), 11u);  // 1010 bytes to 900
}

TEST(Eviction, CountsOtherBytesAgainstTheBudget) {
  EXPECT_THAT(Evicted({Artifact("a"), Artifact("b")}, {220}, 100), ElementsAre("a", "b"));
}

TEST(Eviction, TreatsATimeInTheFutureAsNow) {
  EXPECT_EQ(UtilityOf(Artifact("future", 100, 1, 10, -1000 * kDay), kNow), UtilityOf(Artifact("now"), kNow));
}

}  // namespace
}  // namespace tessera::cache
