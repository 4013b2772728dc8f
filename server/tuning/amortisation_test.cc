#include "server/tuning/amortisation.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TuningEconomics Common() {
  TuningEconomics e;
  e.calls = 1000;
  e.observed = 10;
  e.call_seconds = 2e-3;
  e.gain = 0.3;
  e.candidates = 24;
  e.to_compile = 0;
  e.compile_seconds = 0.05;
  e.runs = 8;
  e.horizon = 3600;
  return e;
}

TEST(WeighTuning, TunesWhenTheExpectedSavingExceedsTheCost) {
  AmortisationVerdict verdict = WeighTuning(Common());  // 1000 * 2 ms * 0.3 = 0.6 s > 24 * 8 * 2 ms = 0.384 s
  EXPECT_TRUE(verdict.tune);
  EXPECT_DOUBLE_EQ(verdict.saving, 0.6);
  EXPECT_DOUBLE_EQ(verdict.cost, 0.384);
}

TEST(WeighTuning, CompilesCount) {
  TuningEconomics e = Common();
  e.to_compile = 24;
  EXPECT_FALSE(WeighTuning(e).tune);
}

TEST(WeighTuning, OtherBucketsShareTheCompiles) {
  TuningEconomics e = Common();
  e.to_compile = 24;  // 1.2 s beside 0.384 s of measuring; 0.6 s saved here
  e.others = 2;
  e.others_saving = 0.9;
  EXPECT_FALSE(WeighTuning(e).tune);
  e.others_saving = 1;
  AmortisationVerdict verdict = WeighTuning(e);
  EXPECT_TRUE(verdict.tune);
  EXPECT_NE(verdict.reason.find("2 other buckets"), std::string::npos) << verdict.reason;
}

TEST(WeighTuning, WhatOthersSaveDoesNotRepayMeasuringHere) {
  TuningEconomics e = Common();
  e.others = 1;
  e.others_saving = 100;
  e.gain = 0.1;
  EXPECT_FALSE(WeighTuning(e).tune);
}

TEST(WeighTuning, AShapeSeenTwiceAbstains) {
  TuningEconomics e = Common();
  e.calls = 2;
  EXPECT_FALSE(WeighTuning(e).tune);
}

TEST(WeighTuning, TheHorizonBoundsWhatARateMayPromise) {
  TuningEconomics e = Common();
  e.observed = 1e7;  // a call every three hours
  AmortisationVerdict verdict = WeighTuning(e);
  EXPECT_LT(verdict.expected_calls, 1);
  EXPECT_FALSE(verdict.tune);
}

TEST(WeighTuning, NothingToMeasureNothingToDo) {
  TuningEconomics e = Common();
  e.candidates = 0;
  EXPECT_FALSE(WeighTuning(e).tune);
}

TEST(WeighTuning, TheReasonHoldsTheFigures) {
  std::string reason = WeighTuning(Common()).reason;
  for (const char* part : {"repays", "1000 calls", "30 %", "24 candidates", "assumed"})
    EXPECT_NE(reason.find(part), std::string::npos) << part << " in " << reason;
}

TEST(CallsToTune, IsWhereTheVerdictTurns) {
  TuningEconomics e = Common();
  e.observed = 0;
  e.calls = CallsToTune(e);
  EXPECT_TRUE(WeighTuning(e).tune);
  e.calls -= 2;
  EXPECT_FALSE(WeighTuning(e).tune);
  e.to_compile = 24;
  uint64_t alone = CallsToTune(e);
  e.others_saving = 1;
  EXPECT_LT(CallsToTune(e), alone);
  e.gain = 0;
  EXPECT_EQ(CallsToTune(e), UINT64_MAX);
}

TEST(GainOfMore, FollowsTheSpreadAndFadesWithWhatWasMeasured) {
  EXPECT_EQ(GainOfMore({}, 4), 0);
  EXPECT_EQ(GainOfMore({1}, 4), 0);
  EXPECT_EQ(GainOfMore({2, 2, 2}, 4), 0);
  // Five whose logarithms span 1: a width of 1.5, of which 1/6 - 1/10 lie between the smallest of five and of nine.
  EXPECT_NEAR(GainOfMore({1, 1.5, 2, 2.5, 2.718281828}, 4), 1 - std::exp(-0.1), 1e-9);
  EXPECT_LT(GainOfMore({1, 1.2, 1.5, 1.8, 2, 2.2, 2.3, 2.5, 2.718281828}, 4), 0.05);
  EXPECT_GT(GainOfMore({1, 8}, 4), GainOfMore({1, 2}, 4));
  EXPECT_EQ(GainOfMore({1, 2}, 0), 0);
}

}  // namespace
}  // namespace tessera::server
