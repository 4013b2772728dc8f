#include "server/tuning/pace.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

Pace::Clock::time_point Soon() { return Pace::Clock::now() + std::chrono::seconds(30); }

PaceOptions Unlimited() {
  PaceOptions options;
  options.device_share = 1;
  options.latency_bound = absl::Milliseconds(10);
  return options;
}

// So many that their time is known as what launches typically take.
void Launch(double seconds, MeasurementGate* gate) {
  for (int i = 0; i < 64; ++i) {
    gate->Enter();
    gate->Leave(seconds);
  }
}

TEST(Pace, CutsDownWhatIsLongerThanTheBoundWhileClientsAreBusy) {
  MeasurementGate gate;
  Pace pace(&gate, Unlimited());
  EXPECT_EQ(pace.FittingShare(1), 1) << "nobody is there";
  gate.Enter();
  EXPECT_EQ(pace.FittingShare(0.001), 1);
  EXPECT_NEAR(pace.FittingShare(0.095), 0.1, 1e-9) << "some of the bound is for the way";
  gate.Leave();
}

TEST(Pace, TheBoundGrowsWithLaunchesThatAreLongerThanIt) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.latency_bound = absl::Milliseconds(2);
  options.bound_in_launches = 4;
  Pace pace(&gate, options);
  pace.FitBound();
  EXPECT_EQ(pace.latency_bound(), absl::Milliseconds(2)) << "of launches nothing is known";
  Launch(0.0015, &gate);
  pace.FitBound();
  EXPECT_EQ(pace.latency_bound(), absl::Milliseconds(2)) << "short ones keep the bound";
  gate.Enter();
  EXPECT_NEAR(pace.FittingShare(0.015), 0.1, 1e-3);
  Launch(0.003, &gate);
  pace.FitBound();
  EXPECT_NEAR(absl::ToDoubleSeconds(pace.latency_bound()), 0.012, 1e-6);
  EXPECT_EQ(pace.FittingShare(0.0114), 1) << "all but the way";
  Launch(0.001, &gate);
  pace.FitBound();
  EXPECT_EQ(pace.latency_bound(), absl::Milliseconds(2));
  gate.Leave();
}

TEST(Pace, WhatYieldsIsTimedInSmallPartsAllTheSame) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.latency_bound = absl::Milliseconds(1);
  options.bound_in_launches = 4;
  options.yields = true;
  Pace pace(&gate, options);
  Launch(0.003, &gate);
  pace.FitBound();
  gate.Enter();
  EXPECT_TRUE(pace.Fits(0.011)) << "whole, in a turn";
  EXPECT_FALSE(pace.Fits(0.012)) << "beside launches";
  EXPECT_NEAR(pace.FittingShare(0.005), 0.075, 1e-9) << "an eighth of a launch";
  EXPECT_EQ(pace.FittingShare(0.0003), 1);
  gate.Leave();
}

TEST(Pace, AmongShortLaunchesPartsFitTwiceIntoTheBound) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.latency_bound = absl::Milliseconds(1);
  options.bound_in_launches = 4;
  options.yields = true;
  Launch(0.0005, &gate);
  gate.Enter();
  EXPECT_NEAR(Pace(&gate, options).FittingShare(0.001), 1.0 / 6, 1e-6);
  EXPECT_EQ(Pace(&gate, options).FittingShare(0.00016), 1);
  options.latency_bound = absl::Microseconds(10);
  options.bound_in_launches = 0;
  EXPECT_NEAR(Pace(&gate, options).FittingShare(0.001), 0.1, 1e-9) << "not so small that overhead is most of it";
  gate.Leave();
}

TEST(Pace, MeasuresAgainWhatALaunchRanBeside) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.latency_bound = absl::Microseconds(1);
  Pace pace(&gate, options);
  int runs = 0;
  absl::StatusOr<double> seconds = pace.Measure(Soon(), [&]() -> absl::StatusOr<double> {
    if (++runs == 1) {
      gate.Enter();  // goes on after the bound
      gate.Leave();
    }
    return runs;
  });
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(*seconds, 2);
  EXPECT_EQ(gate.overruns(), 1u);
}

TEST(Pace, TakesTheNextTurnWhereOneLaunchFollowsAnother) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.latency_bound = absl::Seconds(1);
  Pace pace(&gate, options);
  std::atomic<bool> stop{false};
  std::atomic<int> launched{0};
  std::thread client([&] {
    while (!stop) {
      gate.Enter();
      auto end = Pace::Clock::now() + std::chrono::milliseconds(3);
      while (Pace::Clock::now() < end) {
      }
      gate.Leave();
      ++launched;
    }
  });
  while (launched == 0) std::this_thread::yield();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(pace.Measure(Soon(), []() -> absl::StatusOr<double> { return 1; }).ok());
  stop = true;
  client.join();
  EXPECT_LT(launched, 400) << "a turn comes after a pause and one launch";
  EXPECT_EQ(gate.overruns(), 0u);
}

TEST(Pace, GivesUpOnADeviceThatIsNeverFree) {
  MeasurementGate gate;
  gate.Enter();
  PaceOptions options = Unlimited();
  options.patience = absl::Milliseconds(30);
  Pace pace(&gate, options);
  bool ran = false;
  auto run = [&]() -> absl::StatusOr<double> {
    ran = true;
    return 1;
  };
  EXPECT_EQ(pace.Measure(Soon(), run).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(pace.RunOnce(Soon(), 0, run).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(ran);
}

TEST(Pace, WhatIsLongWaitsForAnIdleDevice) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.idle_window = absl::Hours(1);
  options.patience = absl::Milliseconds(30);
  Pace pace(&gate, options);
  gate.Enter();
  gate.Leave();  // just now
  auto run = []() -> absl::StatusOr<double> { return 1; };
  EXPECT_TRUE(pace.RunOnce(Soon(), 0.001, run).ok()) << "short ones do not";
  EXPECT_EQ(pace.RunOnce(Soon(), 1, run).status().code(), absl::StatusCode::kDeadlineExceeded);
  options.patience_for_idle = absl::Milliseconds(1);
  Pace hurried(&gate, options);
  EXPECT_TRUE(hurried.RunOnce(Soon(), 1, run).ok());
  options.yields = true;
  options.patience_for_idle = absl::InfiniteDuration();
  Pace yielding(&gate, options);
  gate.Enter();
  EXPECT_TRUE(yielding.RunOnce(Soon(), 1, run).ok()) << "beside launches";
  gate.Leave();
}

TEST(Pace, SpendsNoMoreThanItsShare) {
  MeasurementGate gate;
  PaceOptions options = Unlimited();
  options.device_share = 0.2;
  options.burst = absl::ZeroDuration();
  Pace pace(&gate, options);
  auto start = Pace::Clock::now();
  double before_the_last = 0;
  for (int i = 0; i < 5; ++i) {
    before_the_last = pace.spent_seconds();
    ASSERT_TRUE(pace.Measure(Soon(), []() -> absl::StatusOr<double> {
                      auto end = Pace::Clock::now() + std::chrono::milliseconds(4);
                      while (Pace::Clock::now() < end) {
                      }
                      return 1;
                    })
                    .ok());
  }
  double seconds = std::chrono::duration<double>(Pace::Clock::now() - start).count();
  EXPECT_GE(seconds, before_the_last / 0.2);
  EXPECT_GE(pace.spent_seconds(), 0.02);
}

}  // namespace
}  // namespace tessera::server
