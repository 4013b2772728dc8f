#include "compiler/driver/launch_estimate.h"

#include "compiler/driver/test_compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

constexpr char kKernels[] = R"(
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)

@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for at in range(0, K, BLOCK):
        inside = at + k < K
        a = tl.load(a_ptr + m[:, None] * K + (at + k)[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        b = tl.load(b_ptr + (at + k)[:, None] * N + n[None, :], mask=inside[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
)";

absl::StatusOr<LaunchEstimate> Estimate(const std::string& kernel, const std::string& signature, const std::string& constants,
                                        const std::map<std::string, int64_t>& scalars, std::vector<uint32_t> grid) {
  ASSIGN_OR_RETURN(storage::CompileJob job, MakeJob(kKernels, kernel, signature, constants));
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::Artifact artifact, Compiler().Compile(job, &diagnostics));
  grid.resize(3, 1);
  return EstimateLaunch(artifact.metadata(), scalars, grid.data());
}

TEST(LaunchEstimate, CountsBytesOperationsAndLanesMaskedOff) {
  // 3 programs of 1024 lanes for 2500 elements.
  auto estimate = Estimate("scale", "x_ptr=*fp32:16,out_ptr=*fp32:16,n=i32", "BLOCK=1024", {{"n", 2500}}, {3});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_NEAR(estimate->inside / estimate->lanes, 2500.0 / 3072, 0.02);
  EXPECT_NEAR(estimate->loaded_bytes, 10000, 250);
  EXPECT_NEAR(estimate->stored_bytes, 10000, 250);
  EXPECT_NEAR(estimate->distinct_bytes, 20000, 500);
  EXPECT_DOUBLE_EQ(estimate->vector_operations, 3072);
  EXPECT_DOUBLE_EQ(estimate->matrix_operations, 0);
}

TEST(LaunchEstimate, CountsProductsAndReadsOfTheSameBytesOnce) {
  const std::map<std::string, int64_t> scalars = {{"M", 256}, {"N", 128}, {"K", 192}};
  auto estimate = Estimate("product", "a_ptr=*fp16:16,b_ptr=*fp16:16,c_ptr=*fp32:16,M=i32:16,N=i32:16,K=i32:16", "BLOCK=64", scalars, {4, 2});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_NEAR(estimate->matrix_operations, 2.0 * 256 * 128 * 192, 1);
  EXPECT_NEAR(estimate->inside, estimate->lanes, 1);
  // Each element of a is read by both columns of programs, each of b by all four rows.
  EXPECT_NEAR(estimate->loaded_bytes, 2.0 * (2 * 256 * 192 + 4 * 192 * 128), 1);
  EXPECT_NEAR(estimate->distinct_bytes, 2.0 * (256 * 192 + 192 * 128) + 4.0 * 256 * 128, 1);
}

TEST(LaunchEstimate, NamesAValueThatIsMissing) {
  auto estimate = Estimate("scale", "x_ptr=*fp32:16,out_ptr=*fp32:16,n=i32", "BLOCK=1024", {}, {3});
  EXPECT_EQ(estimate.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(estimate.status().message()), testing::HasSubstr("--arg n=NUMBER"));
}

TEST(LaunchEstimate, TheRoofIsTheLargerOfTheTwoTimes) {
  LaunchEstimate estimate;
  estimate.roof = RoofOf("sm_90a");
  estimate.distinct_bytes = 4379e6;
  estimate.matrix_operations = 788e8;
  EXPECT_NEAR(estimate.memory_seconds(), 1e-3, 1e-9);
  EXPECT_NEAR(estimate.matrix_seconds(), 1e-4, 1e-9);
  EXPECT_THAT(estimate.Text(), testing::HasSubstr("bound by memory"));
  estimate.roof = RoofOf("sm_80");
  EXPECT_THAT(estimate.Text(), testing::HasSubstr("nothing was measured"));
}

}  // namespace
}  // namespace tessera::compiler
