#include "server/telemetry/history.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TEST(History, TurnsCountersIntoRates) {
  History history;
  HistoryCounters counters;
  counters.monotonic_seconds = 100;
  counters.launches = 50;
  history.Add(counters);
  EXPECT_TRUE(history.Points(100).empty()) << "one reading gives no rate";
  LatencyHistogram latency;
  latency.Add(1e-3);
  counters.monotonic_seconds = 102;
  counters.launches = 250;
  counters.compile_requests = 4;
  counters.compile_hits = 3;
  counters.launch_latency = latency.Read();
  history.Add(counters);
  counters.monotonic_seconds = 104;
  history.Add(counters);
  std::vector<HistoryPoint> points = history.Points(105);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].age_seconds, 3);
  EXPECT_EQ(points[0].launches, 100);
  EXPECT_EQ(points[0].hit_ratio, 0.75);
  EXPECT_NEAR(points[0].p50_seconds, 1e-3, 1e-4);
  EXPECT_EQ(points[1].launches, 0);
  EXPECT_EQ(points[1].hit_ratio, -1) << "nothing was looked up";
  EXPECT_EQ(points[1].p50_seconds, 0);
}

TEST(History, ForgetsTheOldest) {
  History history(3);
  for (int i = 0; i < 10; ++i) {
    HistoryCounters counters;
    counters.monotonic_seconds = i + 1;
    history.Add(counters);
  }
  EXPECT_EQ(history.Points(10).size(), 3u);
}

}  // namespace
}  // namespace tessera::server
