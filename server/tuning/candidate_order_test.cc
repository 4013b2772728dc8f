#include "server/tuning/candidate_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

storage::TuneConfig Config(int block_m, int block_n, int warps, const char* text = nullptr) {
  storage::TuneConfig config;
  auto add = [&](const char* name) {
    storage::NamedConstant* value = config.add_values();
    value->set_name(name);
    return value->mutable_value();
  };
  add("BLOCK_M")->set_integer(block_m);
  add("BLOCK_N")->set_integer(block_n);
  if (text != nullptr) add("ORDER")->set_text(text);
  config.mutable_options()->set_num_warps(warps);
  return config;
}

TEST(SpreadOut, TakesEachOnceAndTheFirstFewFromEverywhere) {
  for (size_t count : {0, 1, 2, 3, 5, 23, 64}) {
    std::vector<size_t> order = SpreadOut(count), sorted = order, all(count);
    std::iota(all.begin(), all.end(), 0);
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, all) << count;
  }
  std::vector<size_t> order = SpreadOut(24);
  for (size_t begin : {0, 8, 16})
    EXPECT_TRUE(std::any_of(order.begin(), order.begin() + 4, [&](size_t i) { return i / 8 == begin / 8; })) << begin;
}

TEST(ConfigDistance, CountsDoublings) {
  const storage::TuneConfig config = Config(64, 64, 4);
  EXPECT_DOUBLE_EQ(ConfigDistance(config, config), 0);
  EXPECT_DOUBLE_EQ(ConfigDistance(config, Config(128, 64, 4)), 1);
  EXPECT_DOUBLE_EQ(ConfigDistance(config, Config(64, 16, 8)), 3);
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(64, 16, 8), config), 3);
}

TEST(ConfigDistance, WhatIsNoNumberIsTheSameOrNot) {
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(64, 64, 4, "rows"), Config(64, 64, 4, "rows")), 0);
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(64, 64, 4, "rows"), Config(64, 64, 4, "columns")), 1);
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(64, 64, 4, "rows"), Config(64, 64, 4)), 1);
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(64, 64, 4), Config(64, 64, 4, "rows")), 1);
  EXPECT_DOUBLE_EQ(ConfigDistance(Config(0, 64, 4), Config(64, 64, 4)), 1);
}

TEST(Promise, IsOneWhereNothingWasMeasured) { EXPECT_DOUBLE_EQ(Promise(Config(64, 64, 4), {}), 1); }

TEST(Promise, FollowsTheNearestAndNeverBeatsTheBest) {
  const storage::TuneConfig fast = Config(16, 64, 4), slow = Config(128, 64, 4);
  const std::vector<MeasuredConfig> measured = {{&fast, 1e-3}, {&slow, 4e-3}};
  // One doubling from the fast one and two from the slow one: 4^(1 / 5) as long as the best.
  EXPECT_NEAR(Promise(Config(32, 64, 4), measured), std::pow(4, -2.0 / 5), 1e-12);
  EXPECT_NEAR(Promise(Config(64, 64, 4), measured), std::pow(4, -8.0 / 5), 1e-12);
  // As far from one as from the other.
  EXPECT_NEAR(Promise(Config(0, 64, 4), measured), 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(Promise(Config(16, 64, 8), {{&fast, 1e-3}}), 1);
}

TEST(Promise, OfWhatIsFarFromAllIsThatOfTheirMean) {
  const storage::TuneConfig fast = Config(1, 1, 1), slow = Config(2, 1, 1);
  const double promise = Promise(Config(1 << 30, 1 << 30, 1 << 30), {{&fast, 1}, {&slow, 2}});
  EXPECT_GT(promise, 0.25);
  EXPECT_LT(promise, 1);
}

}  // namespace
}  // namespace tessera::server
