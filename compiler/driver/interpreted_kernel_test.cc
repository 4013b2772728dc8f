#include "compiler/driver/interpreted_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

storage::Artifact ArtifactOf(const std::string& code, int parameters) {
  storage::Artifact artifact;
  artifact.mutable_metadata()->set_kernel("k");
  artifact.mutable_metadata()->set_target("interpreter");
  artifact.mutable_metadata()->set_entry_symbol("k");
  for (int i = 0; i < parameters; ++i) artifact.mutable_metadata()->add_parameters();
  artifact.set_code(code);
  return artifact;
}

// Artifacts hold bytecode; text is read by the same parser.
const char kStore[] = R"(func.func @k(%p: !tile.ptr<i32>, %v: i32) attributes {tile.kernel} { tile.store %p, %v : !tile.ptr<i32>, i32 return })";

TEST(InterpretedKernel, RunsWithoutItsArtifact) {
  absl::StatusOr<std::unique_ptr<InterpretedKernel>> kernel;
  {
    storage::Artifact artifact = ArtifactOf(kStore, 2);
    kernel = InterpretedKernel::Load(artifact);
  }
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  int32_t target = 0;
  const uint64_t params[] = {reinterpret_cast<uint64_t>(&target), 0xffffffff00000007u};
  const uint32_t grid[3] = {1, 1, 1};
  ASSERT_TRUE((*kernel)->Run(params, grid, {}).ok());
  EXPECT_EQ(target, 7) << "the low four bytes are the value";
}

TEST(InterpretedKernel, DamagedArtifactsAreRefused) {
  EXPECT_EQ(InterpretedKernel::Load(ArtifactOf("ML\xefR nonsense", 0)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(InterpretedKernel::Load(ArtifactOf("", 0)).status().code(), absl::StatusCode::kNotFound);
  absl::Status mismatch = InterpretedKernel::Load(ArtifactOf(kStore, 3)).status();
  EXPECT_EQ(mismatch.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(mismatch.message()), HasSubstr("2 parameters"));
  storage::Artifact cpu = ArtifactOf(kStore, 2);
  cpu.mutable_metadata()->set_target("cpu");
  EXPECT_EQ(InterpretedKernel::Load(cpu).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::compiler
