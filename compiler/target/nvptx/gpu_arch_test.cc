#include "compiler/target/nvptx/gpu_arch.h"

#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

TEST(GpuArch, NamesAreLookedUpAndUnknownOnesListTheKnown) {
  EXPECT_TRUE(ParseGpuArch("sm_90a")->wgmma);
  EXPECT_FALSE(ParseGpuArch("sm_100a")->wgmma);
  EXPECT_EQ(ParseGpuArch("sm_120")->sm, 120);
  const absl::Status unknown = ParseGpuArch("sm_52").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(unknown.message()).find("sm_90a"), std::string::npos);
}

// The figures of NVIDIA's occupancy calculator.
TEST(GpuArch, OccupancyIsLimitedByWhatRunsOutFirst) {
  const GpuArch hopper = *ParseGpuArch("sm_90a");
  Occupancy light = ComputeOccupancy(hopper, 128, 32, 0);
  EXPECT_EQ(light.blocks, 16);
  EXPECT_EQ(light.warps, 64);
  EXPECT_EQ(light.limit, "threads");
  Occupancy registers = ComputeOccupancy(hopper, 256, 128, 0);
  EXPECT_EQ(registers.blocks, 2);
  EXPECT_EQ(registers.limit, "registers");
  Occupancy shared = ComputeOccupancy(hopper, 128, 32, 100 * 1024);
  EXPECT_EQ(shared.blocks, 2);
  EXPECT_EQ(shared.limit, "shared memory");
  EXPECT_EQ(ComputeOccupancy(hopper, 32, 16, 0).blocks, 32);
  EXPECT_EQ(ComputeOccupancy(hopper, 128, 255, 0).blocks, 2);
  EXPECT_EQ(ComputeOccupancy(*ParseGpuArch("sm_89"), 256, 40, 0).blocks, 6);
  EXPECT_EQ(ComputeOccupancy(hopper, 1024, 255, 0).blocks, 0);
}

}  // namespace
}  // namespace tessera::compiler
