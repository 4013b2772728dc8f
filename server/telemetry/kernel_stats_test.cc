#include "server/telemetry/kernel_stats.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TEST(LatencyHistogram, GivesQuantilesWithinTenPercent) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Read().Quantile(0.5), 0);
  for (int i = 1; i <= 1000; ++i) histogram.Add(i * 1e-6);
  LatencyHistogram::Counts counts = histogram.Read();
  EXPECT_EQ(counts.total, 1000u);
  for (double share : {0.1, 0.5, 0.9, 0.99})
    EXPECT_NEAR(counts.Quantile(share) / (share * 1e-3), 1, 0.1) << share;
  histogram.Add(1e9);
  histogram.Add(-1);
  histogram.Add(0);
  EXPECT_EQ(histogram.Read().Since(counts).total, 3u);
}

TEST(KernelStatsTable, KeepsOneRecordAName) {
  KernelStatsTable table;
  EXPECT_EQ(table.Of("a"), table.Of("a"));
  table.Of("a")->CountLaunch(1e-3);
  table.Of("b")->CountLaunch(2e-3);
  ASSERT_EQ(table.Busiest(1).size(), 1u);
  EXPECT_EQ(table.Busiest(1)[0]->name, "b");
  for (int i = 0; i < 5000; ++i) table.Of("kernel_" + std::to_string(i));
  EXPECT_EQ(table.Of("one more"), table.Of("other"));
}

std::map<std::string, uint64_t> Launches(TopKernels& top, const KernelStatsTable& table) {
  std::map<std::string, uint64_t> launches;
  for (const TopKernels::Series& series : top.Sample(table))
    launches[series.kernel] = series.values.launches;
  return launches;
}

TEST(TopKernels, GivesTheBusiestTheirOwnSeriesAndNeverCountsBack) {
  KernelStatsTable table;
  TopKernels top(2);
  std::map<std::string, uint64_t> before;
  uint64_t total = 0;
  // Five phases, in each of which another kernel is the busiest.
  for (int phase = 0; phase < 5; ++phase)
    for (int scrape = 0; scrape < 60; ++scrape) {
      for (int kernel = 0; kernel < 5; ++kernel) {
        int launches = kernel == phase ? 100 : 1;
        for (int i = 0; i < launches; ++i)
          table.Of("k" + std::to_string(kernel))->CountLaunch(1e-3);
        total += launches;
      }
      std::map<std::string, uint64_t> now = Launches(top, table);
      ASSERT_EQ(now.size(), 3u);
      EXPECT_TRUE(now.count("other"));
      for (const auto& [kernel, launches] : now)
        if (before.count(kernel))
          EXPECT_GE(launches, before[kernel]) << kernel << " in phase " << phase;
      if (scrape == 59) EXPECT_TRUE(now.count("k" + std::to_string(phase))) << phase;
      before = now;
    }
  uint64_t shown = 0;
  for (const auto& [kernel, launches] : before) shown += launches;
  EXPECT_LT(shown, total) << "series that went take their counts along";
}

TEST(TopKernels, CountsEverythingWhileThereIsRoom) {
  KernelStatsTable table;
  TopKernels top(10);
  for (int i = 0; i < 7; ++i) table.Of("a")->CountLaunch(1e-6);
  std::map<std::string, uint64_t> now = Launches(top, table);
  EXPECT_EQ(now["a"], 7u);
  EXPECT_EQ(now["other"], 0u);
}

}  // namespace
}  // namespace tessera::server
