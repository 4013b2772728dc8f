#include "server/device/measurement_gate.h"

#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TEST(MeasurementGate, MeasuresOnlyWhileTheDeviceIsIdle) {
  MeasurementGate gate;
  gate.Enter();
  EXPECT_FALSE(gate.TryBegin(absl::Seconds(1)));
  gate.Leave();
  ASSERT_TRUE(gate.TryBegin(absl::Seconds(1)));
  EXPECT_FALSE(gate.TryBegin(absl::Seconds(1))) << "one at a time";
  EXPECT_TRUE(gate.End());
  EXPECT_EQ(gate.held_up(), 0u);
}

TEST(MeasurementGate, ALaunchWaitsForTheEnd) {
  MeasurementGate gate;
  ASSERT_TRUE(gate.TryBegin(absl::Seconds(30)));
  std::atomic<bool> entered{false};
  std::thread launch([&] {
    gate.Enter();
    entered = true;
    gate.Leave();
  });
  while (gate.held_up() == 0) std::this_thread::yield();
  EXPECT_FALSE(entered);
  EXPECT_TRUE(gate.End()) << "nobody went on before the end";
  launch.join();
  EXPECT_EQ(gate.overruns(), 0u);
  EXPECT_GT(gate.held_up_seconds(), 0);
}

TEST(MeasurementGate, ALaunchWaitsNoLongerThanTheBoundAndVoidsTheMeasurement) {
  MeasurementGate gate;
  ASSERT_TRUE(gate.TryBegin(absl::Milliseconds(1)));
  gate.Enter();  // returns although nobody ends the measurement
  EXPECT_EQ(gate.overruns(), 1u);
  gate.Enter();  // nor does the next wait for a measurement that has had its time
  EXPECT_EQ(gate.held_up(), 1u);
  EXPECT_EQ(gate.overruns(), 1u);
  gate.Leave();
  gate.Leave();
  EXPECT_FALSE(gate.End());
  ASSERT_TRUE(gate.TryBegin(absl::Seconds(1)));
  EXPECT_TRUE(gate.End());
}

TEST(MeasurementGate, TheLastLaunchHandsTheDeviceOver) {
  MeasurementGate gate;
  gate.Enter();
  EXPECT_FALSE(gate.Begin(absl::Seconds(1), absl::Seconds(1), absl::Milliseconds(1))) << "it does not end";
  std::atomic<bool> begun{false};
  std::thread begin([&] {
    EXPECT_TRUE(gate.Begin(absl::Seconds(30), absl::Seconds(30), absl::Seconds(30)));
    begun = true;
  });
  std::atomic<bool> stop{false};
  std::thread next([&] {
    while (!stop) {
      gate.Enter();  // held up as soon as the device is wanted
      gate.Leave();
    }
  });
  while (gate.held_up() == 0) std::this_thread::yield();
  EXPECT_FALSE(begun);
  gate.Leave();
  begin.join();
  EXPECT_TRUE(gate.End());
  stop = true;
  next.join();
  EXPECT_EQ(gate.overruns(), 0u);
}

TEST(MeasurementGate, LaunchesAreLetThroughWhereTheDeviceDoesNotDrain) {
  MeasurementGate gate;
  gate.Enter();
  std::thread begin([&] {
    EXPECT_FALSE(gate.Begin(absl::Seconds(30), absl::Milliseconds(1), absl::Seconds(30)));
  });
  std::atomic<bool> entered{false};
  std::thread next([&] {
    while (!entered) {
      gate.Enter();
      if (gate.held_up() > 0) entered = true;
      gate.Leave();
    }
  });
  next.join();
  begin.join();
  gate.Leave();
  EXPECT_EQ(gate.overruns(), 0u);
}

TEST(MeasurementGate, WhoWasHeldUpComesBeforeTheNextMeasurement) {
  MeasurementGate gate;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(gate.TryBegin(absl::Seconds(30)));
    const uint64_t before = gate.held_up();
    std::atomic<bool> entered{false};
    std::thread launch([&] {
      gate.Enter();
      entered = true;
      gate.Leave();
    });
    while (gate.held_up() == before) std::this_thread::yield();
    gate.End();
    while (!gate.TryBegin(absl::Seconds(30))) std::this_thread::yield();
    EXPECT_TRUE(entered);
    EXPECT_TRUE(gate.End());
    launch.join();
  }
}

TEST(MeasurementGate, KnowsWhatLaunchesTypicallyTake) {
  MeasurementGate gate;
  for (int i = 0; i < 63; ++i) {
    gate.Enter();
    gate.Leave(i % 3 == 0 ? 1e-4 : 1e-3);
  }
  EXPECT_EQ(gate.TypicalSeconds(), 0) << "too few";
  gate.Enter();
  gate.Leave(5);
  EXPECT_NEAR(gate.TypicalSeconds(), 1e-3, 1e-9);
  for (int i = 0; i < 64; ++i) {
    gate.Enter();
    gate.Leave(i % 2 == 0 ? 2e-4 : 0);  // failures do not count
  }
  EXPECT_NEAR(gate.TypicalSeconds(), 2e-4, 1e-9) << "half of the latest ones";
}

TEST(MeasurementGate, UnderLoadNothingOverlaps) {
  MeasurementGate gate;
  std::atomic<int> launches{0};
  std::atomic<bool> stop{false}, overlap{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      while (!stop) {
        gate.Enter();
        launches.fetch_add(1);
        launches.fetch_sub(1);
        gate.Leave();
        std::this_thread::yield();
      }
    });
  int measured = 0;
  for (int i = 0; i < 200000 && measured < 200; ++i) {
    if (!gate.TryBegin(absl::Seconds(10))) continue;
    if (launches.load() != 0) overlap = true;
    if (launches.load() != 0) overlap = true;
    EXPECT_TRUE(gate.End());
    ++measured;
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_FALSE(overlap);
  EXPECT_GT(measured, 0);
}

}  // namespace
}  // namespace tessera::server
