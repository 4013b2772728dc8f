#include "server/launch/grid_share.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

struct Reduced {
  uint64_t programs;
  double ran;
};

Reduced Reduce(double wanted, uint32_t parallel, uint32_t x, uint32_t y = 1, uint32_t z = 1) {
  GridShare share;
  share.wanted = wanted;
  uint32_t grid[3] = {x, y, z};
  ReduceGrid(parallel, &share, grid);
  EXPECT_GE(x, grid[0]);
  EXPECT_GE(y, grid[1]);
  EXPECT_GE(z, grid[2]);
  return {uint64_t{grid[0]} * grid[1] * grid[2], share.ran};
}

TEST(ReduceGrid, KeepsWholeWaves) {
  Reduced reduced = Reduce(0.7, 2, 16);  // 11 would leave one of two processors idle
  EXPECT_EQ(reduced.programs, 10u);
  EXPECT_DOUBLE_EQ(reduced.ran, 10.0 / 16);
  reduced = Reduce(0.5, 132, 1000);
  EXPECT_EQ(reduced.programs, 396u);
  EXPECT_DOUBLE_EQ(reduced.ran, 3.0 / 8);  // the whole takes eight waves
}

TEST(ReduceGrid, RunsAtLeastAsManyAsTheDeviceAtOnce) {
  EXPECT_EQ(Reduce(0.001, 4, 1000).programs, 4u);
  EXPECT_EQ(Reduce(0.001, 4, 3).programs, 3u);
  EXPECT_DOUBLE_EQ(Reduce(0.001, 4, 3).ran, 1);
}

TEST(ReduceGrid, CutsTheLastDimensionFirst) {
  EXPECT_EQ(Reduce(0.5, 4, 64, 10).programs, 64u * 5);
  EXPECT_EQ(Reduce(0.5, 4, 7, 8, 10).programs, 7u * 8 * 5);
  EXPECT_EQ(Reduce(0.5, 2, 7, 10).programs, 7u * 4);  // five rows are no whole waves
  EXPECT_EQ(Reduce(0.5, 132, 7, 10).programs, 7u * 10);  // all run at once anyway
  EXPECT_EQ(Reduce(0.05, 4, 64, 10).programs, 32u);     // half of one step
  EXPECT_EQ(Reduce(0.01, 4, 8, 8, 8).programs, 4u);     // 5 programs: one wave
  EXPECT_DOUBLE_EQ(Reduce(0.01, 4, 8, 8, 8).ran, 1.0 / 128);
}

TEST(ReduceGrid, AllIsAll) {
  for (uint32_t parallel : {1u, 2u, 7u, 132u}) {
    Reduced reduced = Reduce(1, parallel, 33, 5, 3);
    EXPECT_EQ(reduced.programs, 33u * 5 * 3) << parallel;
    EXPECT_DOUBLE_EQ(reduced.ran, 1);
  }
}

}  // namespace
}  // namespace tessera::server
