#include "server/tuning/config_selector.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

using Trial = storage::TuningRecord::Trial;

Trial Of(std::vector<double> seconds) {
  Trial trial;
  Summarise(std::move(seconds), &trial);
  return trial;
}

Trial Failed() {
  Trial trial;
  trial.set_failure("does not fit");
  return trial;
}

TEST(ConfigSelector, SummarisesByQuantiles) {
  Trial trial = Of({5, 1, 4, 2, 3});
  EXPECT_EQ(trial.median_seconds(), 3);
  EXPECT_EQ(trial.low_seconds(), 2);
  EXPECT_EQ(trial.high_seconds(), 4);
  EXPECT_EQ(trial.samples(), 5u);
}

TEST(ConfigSelector, TakesTheLowestMedianOfThoseThatRan) {
  EXPECT_EQ(
      SelectConfig({Failed(), Of({3, 3, 3}), Of({2, 2, 9}), Of({4, 4, 4})}, std::nullopt).chosen,
      2);
  EXPECT_EQ(SelectConfig({Failed(), Failed()}, std::nullopt).chosen, -1);
}

TEST(ConfigSelector, KeepsTheIncumbentInsideTheNoise) {
  Trial incumbent = Of({10, 10, 10, 10, 10});
  EXPECT_EQ(SelectConfig({incumbent, Of({8, 9, 9, 11, 12})}, 0).chosen, 0);
  EXPECT_EQ(SelectConfig({incumbent, Of({8, 8, 9, 9, 9})}, 0).chosen, 1);
}

TEST(ConfigSelector, ReplacesAnIncumbentThatFailed) {
  EXPECT_EQ(SelectConfig({Failed(), Of({8, 9, 9, 11, 12})}, 0).chosen, 1);
}

}  // namespace
}  // namespace tessera::server
