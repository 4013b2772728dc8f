#include "server/tuning/candidate_order.h"

#include <algorithm>
#include <numeric>

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

}  // namespace
}  // namespace tessera::server
