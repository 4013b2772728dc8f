#include "server/launch/guard_policy.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

using Mode = GuardPolicy::Mode;

TEST(GuardPolicyTest, TheDefaultGuardsFirstLaunchesUnderMpsAndOfOtherUsers) {
  EXPECT_EQ(GuardInForce({}, true, true).mode, Mode::kFirst);
  EXPECT_EQ(GuardInForce({}, true, false).mode, Mode::kFirst);
  EXPECT_EQ(GuardInForce({}, false, false).mode, Mode::kFirst);
  EXPECT_EQ(GuardInForce({}, false, true).mode, Mode::kNever);
}

TEST(GuardPolicyTest, WhatASessionAsksForHoldsEverywhere) {
  EXPECT_EQ(GuardInForce({Mode::kNever, 1}, true, false).mode, Mode::kNever);
  EXPECT_EQ(GuardInForce({Mode::kAlways, 1}, false, true).mode, Mode::kAlways);
  EXPECT_EQ(GuardInForce({Mode::kEveryNth, 7}, true, true).n, 7u);
}

TEST(GuardPolicyTest, FirstGuardsUntilALaunchWentThrough) {
  GuardRecord record;
  EXPECT_TRUE(record.Due({Mode::kFirst, 1}));
  EXPECT_TRUE(record.Due({Mode::kFirst, 1}));
  record.SetProven();
  EXPECT_FALSE(record.Due({Mode::kFirst, 1}));
  EXPECT_TRUE(record.Due({Mode::kAlways, 1}));
  EXPECT_FALSE(record.Due({Mode::kNever, 1}));
}

TEST(GuardPolicyTest, EveryNthGuardsTheFirstAndThenOneInN) {
  GuardRecord record;
  const GuardPolicy third = {Mode::kEveryNth, 3};
  EXPECT_TRUE(record.Due(third));
  EXPECT_TRUE(record.Due(third)) << "nothing is known of it yet";
  record.SetProven();
  int guarded = 0;
  for (int i = 0; i < 30; ++i) guarded += record.Due(third);
  EXPECT_EQ(guarded, 10);
}

}  // namespace
}  // namespace tessera::server
