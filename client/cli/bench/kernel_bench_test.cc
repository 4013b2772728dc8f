// What `tessera bench kernel` counts and computes without a daemon.
#include "client/cli/bench/kernel_bench.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

TEST(KernelBench, RepeatsByTimeAndAtLeastTenTimes) {
  KernelBenchOptions options;
  EXPECT_EQ(CountsFor(1e-3, options).warmup, 25);
  EXPECT_EQ(CountsFor(1e-3, options).repeats, 100);
  EXPECT_EQ(CountsFor(10, options).warmup, 1);
  EXPECT_EQ(CountsFor(10, options).repeats, 10);
  EXPECT_EQ(CountsFor(0, options).repeats, 100000);
  options.repeats = 7;
  EXPECT_EQ(CountsFor(1e-3, options).repeats, 7);
}

TEST(KernelBench, QuantilesLieBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(QuantileOf({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(QuantileOf({1, 2}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(QuantileOf({1, 2, 3, 4, 5}, 0.2), 1.8);
  EXPECT_DOUBLE_EQ(QuantileOf({4}, 0.99), 4);
}

TEST(KernelBench, CountsTensorsOnTheSameBytesOnce) {
  v1::LaunchRequest launch;
  *launch.add_arguments() = RegionArgument("x", 1, DType::kFp16, {10, 20});
  *launch.add_arguments() = RegionArgument("y", 1, DType::kFp16, {10, 20});
  *launch.add_arguments() = RegionArgument("z", 2, DType::kFp32, {5});
  *launch.add_arguments() = IntArgument("n", 5);
  EXPECT_EQ(TensorBytes(launch), 400u + 20u);
}

}  // namespace
}  // namespace tessera::cli
