// From source text to results, through the driver and the interpreter.
#include "compiler/driver/driver.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/driver/test_compile.h"
#include "compiler/target/cpu/jit_kernel.h"

namespace tessera::compiler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char kAdd[] = R"py(
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    y = tl.load(y_ptr + i, mask=mask)
    tl.store(out_ptr + i, x + y, mask=mask)
)py";

const char kSoftmax[] = R"py(
import triton
import triton.language as tl

@triton.jit
def softmax(out_ptr, in_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(in_ptr + row * row_stride + cols, mask=mask, other=-float('inf'))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    tl.store(out_ptr + row * row_stride + cols, e / tl.sum(e, axis=0), mask=mask)
)py";

const char kMatmul[] = R"py(
import triton
import triton.language as tl

@triton.jit
def gelu(x):
    return x * tl.sigmoid(1.702 * x)

@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, bias_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACT: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0)[None, :]
    if ACT == "gelu":
        acc = gelu(acc)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))
)py";

std::vector<float> Normal(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

TEST(Driver, AddsVectorsOfEveryLength) {
  auto kernel = CompileKernel(kAdd, "add_kernel", "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32", "BLOCK=128");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (int n : {1, 2, 16, 127, 128, 129, 1000}) {
    std::vector<float> x = Normal(n, 1), y = Normal(n, 2), out(n);
    absl::Status status = Arguments().Buffer(x).Buffer(y).Buffer(out).Integer(n).Run(**kernel, (n + 127) / 128);
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] + y[i]);
  }
}

TEST(Driver, SoftmaxRowsSumToOne) {
  auto kernel = CompileKernel(kSoftmax, "softmax", "out_ptr=*fp32,in_ptr=*fp32,row_stride=i32,n_cols=i32", "BLOCK=256");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const int rows = 5, columns = 200;
  std::vector<float> in = Normal(rows * columns, 3), out(rows * columns);
  absl::Status status = Arguments().Buffer(out).Buffer(in).Integer(columns).Integer(columns).Run(**kernel, rows);
  ASSERT_TRUE(status.ok()) << status;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += std::exp(double(in[r * columns + c]));
    for (int c = 0; c < columns; ++c) EXPECT_NEAR(out[r * columns + c], std::exp(double(in[r * columns + c])) / sum, 1e-7);
  }
}

TEST(Driver, MatmulWithBiasAndGeluMatchesADoubleReference) {
  const int M = 33, N = 40, K = 70;
  auto kernel = CompileKernel(kMatmul, "matmul", "a_ptr=*fp32,b_ptr=*fp32,c_ptr=*fp32,bias_ptr=*fp32,M=i32,N=i32,K=i32", "BM=16,BN=32,BK=16,ACT=gelu");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> a = Normal(M * K, 1), b = Normal(K * N, 2), c(M * N), bias = Normal(N, 3);
  absl::Status status = Arguments().Buffer(a).Buffer(b).Buffer(c).Buffer(bias).Integer(M).Integer(N).Integer(K).Run(**kernel, 3, 2);
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double want = bias[j];
      for (int k = 0; k < K; ++k) want += double(a[i * K + k]) * b[k * N + j];
      want = want / (1 + std::exp(-1.702 * want));
      EXPECT_NEAR(c[i * N + j], want, 1e-4);
    }
}

TEST(Driver, NoneArgumentsVanish) {
  auto kernel = CompileKernel(kMatmul, "matmul", "a_ptr=*fp32,b_ptr=*fp32,c_ptr=*fp32,bias_ptr=None,M=1,N=i32,K=i32", "BM=16,BN=16,BK=16,ACT=none");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> a = Normal(4, 1), b = Normal(4, 2), c(1);
  absl::Status status = Arguments().Buffer(a).Buffer(b).Buffer(c).Integer(1).Integer(4).Run(**kernel, 1);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_NEAR(c[0], double(a[0]) * b[0] + double(a[1]) * b[1] + double(a[2]) * b[2] + double(a[3]) * b[3], 1e-6);
}

TEST(Driver, ReplaysHundredsOfProgramsOf64x64BlocksWellBelowASecond) {
  const int n = 1024;  // 256 programs, each 16 steps of 64 x 64 x 64
  auto kernel = CompileKernel(kMatmul, "matmul", "a_ptr=*fp32,b_ptr=*fp32,c_ptr=*fp32,bias_ptr=None,M=i32,N=i32,K=i32", "BM=64,BN=64,BK=64,ACT=gelu");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> a = Normal(n * n, 1), b = Normal(n * n, 2), c(n * n);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Arguments().Buffer(a).Buffer(b).Buffer(c).Integer(n).Integer(n).Integer(n).Run(**kernel, n / 64, n / 64).ok());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds", int(1000 * seconds));
  EXPECT_LT(seconds, 30) << "twenty times slower than it should be";
}

TEST(Driver, MetadataDescribesTheEntryAndEqualJobsGiveEqualCode) {
  auto job = MakeJob(kAdd, "add_kernel", "x_ptr=*fp16:16,y_ptr=*fp16,out_ptr=*fp16,n=i32:16", "BLOCK=64");
  ASSERT_TRUE(job.ok()) << job.status();
  job->add_emit("ast");
  job->add_emit("tile");
  job->mutable_options()->set_num_warps(8);
  std::vector<storage::Diagnostic> diagnostics;
  auto first = Compiler().Compile(*job, &diagnostics), second = Compiler().Compile(*job, &diagnostics);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status();
  EXPECT_EQ(first->code(), second->code());
  const storage::KernelMetadata& metadata = first->metadata();
  EXPECT_EQ(metadata.kernel(), "add_kernel");
  EXPECT_EQ(metadata.entry_symbol(), "add_kernel");
  EXPECT_EQ(metadata.options().num_warps(), 8u);
  ASSERT_EQ(metadata.parameters_size(), 4);
  EXPECT_EQ(metadata.parameters(0).type(), "*fp16");
  EXPECT_EQ(metadata.parameters(3).name(), "n");
  EXPECT_EQ(metadata.parameters(3).source_index(), 3u);
  EXPECT_GE(metadata.stage_times_size(), 3);
  EXPECT_THAT(first->stages().at("ast"), HasSubstr("tl.load"));
  EXPECT_THAT(first->stages().at("tile"), AllOf(HasSubstr("tile.load"), HasSubstr("tile.kernel"), HasSubstr("kernel.py")));
}

TEST(Driver, AnEditedTileStageReplacesTheEmittedOne) {
  auto job = MakeJob(kAdd, "add_kernel", "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32", "BLOCK=16");
  ASSERT_TRUE(job.ok());
  job->add_emit("tile");
  std::vector<storage::Diagnostic> diagnostics;
  auto artifact = Compiler().Compile(*job, &diagnostics);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  std::string text = artifact->stages().at("tile");
  ASSERT_NE(text.find("arith.addf"), std::string::npos);
  text.replace(text.find("arith.addf"), 10, "arith.mulf");
  (*job->mutable_override_stages())["tile"] = text;
  artifact = Compiler().Compile(*job, &diagnostics);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  auto kernel = InterpretedKernel::Load(*artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> x = {3}, y = {5}, out(1);
  ASSERT_TRUE(Arguments().Buffer(x).Buffer(y).Buffer(out).Integer(1).Run(**kernel, 1).ok());
  EXPECT_EQ(out[0], 15.0f);

  (*job->mutable_override_stages())["tile"] = "func.func @add_kernel( {";
  absl::Status status = Compiler().Compile(*job, &diagnostics).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not parse"));
}

TEST(Driver, BadSourceIsAnInvalidArgumentWithItsPlaceAndCaret) {
  storage::CompileJob job;
  job.add_files()->set_path("bad.py");
  job.mutable_files(0)->set_text("import triton\nimport triton.language as tl\n@triton.jit\ndef f(p):\n    tl.store(p, nothing)\n");
  job.set_kernel("f");
  job.set_target("interpreter");
  job.add_parameters()->set_name("p");
  job.mutable_parameters(0)->set_type("*fp32");
  std::vector<storage::Diagnostic> diagnostics;
  absl::Status status = Compiler().Compile(job, &diagnostics).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("bad.py:5:17: error:"), HasSubstr("nothing"), HasSubstr("^")));
  ASSERT_FALSE(diagnostics.empty());
  EXPECT_EQ(diagnostics[0].severity(), "error");
  EXPECT_EQ(diagnostics[0].file(), "bad.py");
  EXPECT_EQ(diagnostics[0].line(), 5u);
  EXPECT_EQ(diagnostics[0].source_line(), "    tl.store(p, nothing)");
}

TEST(Driver, UnknownTargetsAndKernelsAreNamed) {
  storage::CompileJob job;
  job.add_files()->set_text(kAdd);
  job.set_kernel("add_kernel");
  std::vector<storage::Diagnostic> diagnostics;
  job.set_target("tpu");
  EXPECT_EQ(Compiler().Compile(job, &diagnostics).status().code(), absl::StatusCode::kInvalidArgument);
  job.set_target("interpreter");
  job.set_kernel("subtract_kernel");
  absl::Status status = Compiler().Compile(job, &diagnostics).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("subtract_kernel"));
}

TEST(Driver, DescribesModulesAndRefusesTextThatDoesNotParse) {
  std::vector<storage::Diagnostic> diagnostics;
  storage::SourceFile file;
  file.set_text(kMatmul);
  auto module = Compiler().Describe({file}, &diagnostics);
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_EQ(module->kernels_size(), 2);
  file.set_text("@triton.jit\ndef f(x:\n    pass\n");
  EXPECT_EQ(Compiler().Describe({file}, &diagnostics).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Driver, AccessesOutsideABufferNameTheSourceLine) {
  auto kernel = CompileKernel(kAdd, "add_kernel", "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32", "BLOCK=16");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> x(16), y(8), out(16);
  absl::Status status = Arguments().Buffer(x, "x_ptr").Buffer(y, "y_ptr").Buffer(out, "out_ptr").Integer(16).Run(**kernel, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("kernel.py:11"), HasSubstr("lane [8]"), HasSubstr("'y_ptr'")));
}

TEST(Driver, ArgumentsKeepThePromisesOfTheirVariant) {
  auto kernel = CompileKernel(kAdd, "add_kernel", "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32:16", "BLOCK=16");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> x(16), y(16), out(16);
  EXPECT_TRUE(Arguments().Buffer(x).Buffer(y).Buffer(out).Integer(16).Run(**kernel, 1).ok());
  EXPECT_EQ(Arguments().Buffer(x).Buffer(y).Buffer(out).Integer(15).Run(**kernel, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Driver, TheCpuTargetYieldsAnObjectAndItsStages) {
  auto job = MakeJob(kSoftmax, "softmax", "out_ptr=*fp32,in_ptr=*fp32,row_stride=i32,n_cols=i32", "BLOCK=256", "cpu");
  ASSERT_TRUE(job.ok()) << job.status();
  for (const char* stage : {"tile", "llvm", "asm"}) job->add_emit(stage);
  std::vector<storage::Diagnostic> diagnostics;
  auto artifact = Compiler().Compile(*job, &diagnostics);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_THAT(artifact->code(), StartsWith("\x7f" "ELF"));
  EXPECT_FALSE(artifact->metadata().entry_symbol().empty());
  EXPECT_EQ(artifact->metadata().parameters_size(), 4);
  EXPECT_GE(artifact->metadata().scratch_align(), 64u);
  EXPECT_THAT(artifact->stages().at("llvm"), HasSubstr("define"));
  EXPECT_THAT(artifact->stages().at("asm"), HasSubstr(artifact->metadata().entry_symbol()));
  auto again = Compiler().Compile(*job, &diagnostics);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->code(), artifact->code());
}

// The same tile IR on both targets. Tolerance: the targets may sum in another order and approximate exp.
TEST(Driver, TheTargetsAgree) {
  struct Case { const char *source, *kernel, *signature, *constants; } cases[] = {
      {kAdd, "add_kernel", "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32", "BLOCK=64"},
      {kSoftmax, "softmax", "out_ptr=*fp32,in_ptr=*fp32,row_stride=i32,n_cols=i32", "BLOCK=64"},
      {kMatmul, "matmul", "a_ptr=*fp32,b_ptr=*fp32,c_ptr=*fp32,bias_ptr=*fp32,M=i32,N=i32,K=i32", "BM=16,BN=16,BK=32,ACT=gelu"}};
  for (const Case& c : cases) {
    auto job = MakeJob(c.source, c.kernel, c.signature, c.constants);
    ASSERT_TRUE(job.ok()) << job.status();
    job->add_emit("tile");
    std::vector<storage::Diagnostic> diagnostics;
    auto artifact = Compiler().Compile(*job, &diagnostics);
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    auto oracle = InterpretedKernel::Load(*artifact);
    auto compiled = JitKernel::Compile(artifact->stages().at("tile"));
    ASSERT_TRUE(oracle.ok() && compiled.ok()) << oracle.status() << compiled.status();
    std::vector<std::vector<float>> memory, copy;
    Arguments arguments;
    std::vector<uint64_t> params;
    for (const storage::EntryParameter& parameter : artifact->metadata().parameters()) {
      if (parameter.type()[0] != '*') {
        arguments.Integer(50);
        params.push_back(50);
        continue;
      }
      memory.push_back(Normal(50 * 50, unsigned(memory.size())));
      copy.push_back(memory.back());
      arguments.Buffer(memory.back(), parameter.name());
      params.push_back(reinterpret_cast<uint64_t>(copy.back().data()));
    }
    absl::Status on_oracle = arguments.Run(**oracle, 4, 4), on_cpu = (*compiled)->Run(params, 4, 4);
    ASSERT_TRUE(on_oracle.ok() && on_cpu.ok()) << c.kernel << ": " << on_oracle << on_cpu;
    for (size_t b = 0; b < memory.size(); ++b)
      for (size_t i = 0; i < memory[b].size(); ++i) ASSERT_NEAR(copy[b][i], memory[b][i], 1e-5 * (1 + std::fabs(memory[b][i]))) << c.kernel;
  }
}

TEST(Driver, NamesItsBuildAndTheHostCpu) {
  EXPECT_THAT(CompilerBuild(), AllOf(StartsWith("tessera-"), HasSubstr("-llvm-19")));
  EXPECT_EQ(CompilerBuild(), CompilerBuild());
  EXPECT_THAT(HostCpuFeatures(), HasSubstr(":"));
}

}  // namespace
}  // namespace tessera::compiler
