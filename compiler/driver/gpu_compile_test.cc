// Source text to cubins, and what is refused. Needs no GPU; a toolkit's assembler for all that ends in a cubin.
#include <gtest/gtest.h>

#include "compiler/driver/explain.h"
#include "compiler/driver/test_compile.h"
#include "compiler/target/nvptx/assembler.h"

namespace tessera::compiler {
namespace {

constexpr char kAdd[] = R"(
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.device_assert(n >= 0, "n is negative")
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)
)";

storage::CompileJob AddJob(const std::string& target) {
  storage::CompileJob job = *MakeJob(kAdd, "add", "x=*fp32:16,y=*fp32:16,out=*fp32:16,n=i32:16", "BLOCK=1024", target);
  (*job.mutable_options()->mutable_extra())["debug"] = "1";  // device_assert is on
  for (const char* stage : {"layout", "simt", "llvm", "ptx"}) job.add_emit(stage);
  return job;
}

absl::StatusOr<storage::Artifact> Compile(const storage::CompileJob& job) {
  std::vector<storage::Diagnostic> diagnostics;
  return Compiler().Compile(job, &diagnostics);
}

TEST(GpuCompile, VectorAddBecomesACubinThatLoadsSixteenBytesAtATime) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  for (const char* target : {"sm_80", "sm_89", "sm_90a"}) {
    absl::StatusOr<storage::Artifact> artifact = Compile(AddJob(target));
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.status();
    EXPECT_EQ(artifact->code().substr(1, 3), "ELF");
    EXPECT_EQ(artifact->metadata().threads(), 128u);
    EXPECT_EQ(artifact->metadata().parameters_size(), 4);
    ASSERT_EQ(artifact->metadata().report_messages_size(), 1);
    EXPECT_EQ(artifact->metadata().report_messages(0).text(), "n is negative");
    EXPECT_EQ(artifact->metadata().report_messages(0).where(), "kernel.py:9");
    EXPECT_EQ(artifact->stages_size(), 4);
    EXPECT_NE(artifact->stages().at("ptx").find(std::string(".target ") + target), std::string::npos);

    absl::StatusOr<KernelExplanation> explanation = ExplainKernel(*artifact);
    ASSERT_TRUE(explanation.ok()) << explanation.status();
    EXPECT_EQ(explanation->accesses.at("load"), (std::map<int, int>{{16, 4}}));
    EXPECT_GT(explanation->registers, 0);
    EXPECT_EQ(explanation->spill_bytes, 0);
    EXPECT_GT(explanation->resident_warps, 0);
    EXPECT_NE(explanation->Json().find("\"registers\""), std::string::npos);
  }
}

TEST(GpuCompile, EditedPtxIsAssembledInPlaceOfOurs) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  storage::CompileJob job = AddJob("sm_90a");
  absl::StatusOr<storage::Artifact> plain = Compile(job);
  ASSERT_TRUE(plain.ok()) << plain.status();
  std::string ptx = plain->stages().at("ptx");
  for (size_t at = 0; (at = ptx.find("add.rn.f32", at)) != std::string::npos;) ptx.replace(at, 10, "mul.rn.f32");
  (*job.mutable_override_stages())["ptx"] = ptx;
  absl::StatusOr<storage::Artifact> edited = Compile(job);
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->stages().at("ptx"), ptx);
  EXPECT_NE(edited->code(), plain->code());
}

TEST(GpuCompile, EmulatedGpusStopAtSimt) {
  absl::StatusOr<storage::Artifact> artifact = Compile(AddJob("emulated:sm_80"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_NE(artifact->code().find("simt.load"), std::string::npos);
  EXPECT_EQ(artifact->metadata().entry_symbol(), "add");
}

TEST(GpuCompile, WhatAGpuCannotDoIsRefusedByName) {
  storage::CompileJob job = AddJob("sm_52");
  EXPECT_EQ(Compile(job).status().code(), absl::StatusCode::kInvalidArgument);
  job = AddJob("sm_90a");
  job.mutable_options()->set_num_warps(3);
  EXPECT_NE(Compile(job).status().message().find("num_warps=3"), absl::string_view::npos);
  job = AddJob("sm_90a");
  job.mutable_options()->set_num_ctas(2);
  EXPECT_EQ(Compile(job).status().code(), absl::StatusCode::kUnimplemented);
  job = AddJob("sm_90a");
  job.mutable_options()->set_maxnreg(300);
  EXPECT_EQ(Compile(job).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GpuCompile, SourceLinesAreInTheMachineCode) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  absl::StatusOr<storage::Artifact> artifact = Compile(AddJob("sm_90a"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  for (const char* part : {".debug_line", ".nv_debug_line_sass", "kernel.py"}) EXPECT_NE(artifact->code().find(part), std::string::npos) << part;
}

constexpr char kMatmul[] = R"(
import triton
import triton.language as tl

@triton.jit
def matmul(a, b, bias, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x = a + m[:, None] * sam + k[None, :]
    y = b + k[:, None] * sbk + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        p = tl.load(x, mask=k[None, :] < K - i * BK, other=0.0)
        q = tl.load(y, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(p, q, acc)
        x += BK
        y += BK * sbk
    acc += tl.load(bias + n)[None, :]
    acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.70710678118654752))
    tl.store(c + m[:, None] * scm + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
)";

// What each of the 128 elements of a thread costs after the product is written once.
TEST(GpuCompile, EpilogueOfALargeProductStaysSmall) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  storage::CompileJob job = *MakeJob(kMatmul, "matmul", "a=*fp16:16,b=*fp16:16,bias=*fp16:16,c=*fp16:16,M=i32:16,N=i32:16,K=i32:16,sam=i32:16,sbk=i32:16,scm=i32:16",
                                     "BM=128,BN=256,BK=64", "sm_90a");
  job.mutable_options()->set_num_warps(8);
  job.add_emit("ptx");
  absl::StatusOr<storage::Artifact> artifact = Compile(job);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_LT(artifact->stages().at("ptx").size(), 60000u);
  EXPECT_EQ(artifact->metadata().spills(), 0u);
}

TEST(GpuCompile, RegistersAreBoundedByMaxnreg) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  storage::CompileJob job = AddJob("sm_90a");
  job.mutable_options()->set_maxnreg(24);
  absl::StatusOr<storage::Artifact> artifact = Compile(job);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_LE(artifact->metadata().registers(), 24u);
}

}  // namespace
}  // namespace tessera::compiler
