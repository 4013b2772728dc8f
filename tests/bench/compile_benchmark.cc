// Time of cold compiles in one process: source text to tile IR, and the whole way to an artifact
// for each target.
//   matmul: the library's fused linear kernel                      goal 10 ms to tile IR
//   flash attention: compile_flash_attention.py, about 150 lines   goal 50 ms to tile IR
//
// usage: compile_benchmark [--rounds=N]     from the root of the source tree
// Each round has a new compiler, so that nothing is kept from the one before; rounds alternate
// between the jobs. Medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/driver/test_compile.h"
#include "compiler/target/nvptx/assembler.h"

namespace tessera {
namespace {

struct Subject {
  std::string name, path, kernel, signature, constants;
  double goal_ms;  // source text to tile IR
  uint32_t num_warps = 4;
};

std::vector<Subject> Subjects() {
  return {
      {"matmul", "compiler/library/kernels/linear.py", "linear",
       "x_ptr=*fp16:16,w_ptr=*fp16:16,bias_ptr=*fp16:16,out_ptr=*fp16:16,M=i32:16,N=i32:16,K=i32:"
       "16,stride_xm=i32:16,stride_xk=1,"
       "stride_wk=i32:16,stride_wn=1,stride_bias=1,stride_om=i32:16,stride_on=1",
       "ACTIVATION=gelu,PRECISION=ieee,BLOCK_M=64,BLOCK_N=64,BLOCK_K=32,GROUP_M=8", 10},
      {"large matmul", "compiler/library/kernels/linear.py", "linear",
       "x_ptr=*fp16:16,w_ptr=*fp16:16,bias_ptr=*fp16:16,out_ptr=*fp16:16,M=i32:16,N=i32:16,K=i32:"
       "16,stride_xm=i32:16,stride_xk=1,"
       "stride_wk=i32:16,stride_wn=1,stride_bias=1,stride_om=i32:16,stride_on=1",
       "ACTIVATION=gelu,PRECISION=ieee,BLOCK_M=128,BLOCK_N=256,BLOCK_K=64,GROUP_M=8", 10, 8},
      {"flash attention", "tests/bench/compile_flash_attention.py", "flash_attention",
       "q_ptr=*fp16:16,k_ptr=*fp16:16,v_ptr=*fp16:16,out_ptr=*fp16:16,lse_ptr=*fp32:16,bias_ptr=*"
       "fp16:16,alibi_ptr=*fp32:16,"
       "lengths_ptr=*i32:16,stride_qz=i32:16,stride_qh=i32:16,stride_qm=i32:16,stride_qd=1,stride_"
       "kz=i32:16,stride_kh=i32:16,"
       "stride_kn=i32:16,stride_kd=1,stride_vz=i32:16,stride_vh=i32:16,stride_vn=i32:16,stride_vd="
       "1,stride_oz=i32:16,"
       "stride_oh=i32:16,stride_om=i32:16,stride_od=1,stride_bz=i32:16,stride_bh=i32:16,stride_bm="
       "i32:16,stride_bn=1,"
       "stride_lz=i32:16,stride_lh=i32:16,HQ=i32:16,M=i32:16,N=i32:16,scale=fp32",
       "GROUP=4,D=64,BLOCK_M=64,BLOCK_N=64,BLOCK_D=64,CAUSAL=True,WINDOW=0,CAP=30.0,HAS_BIAS=True,"
       "HAS_ALIBI=True,HAS_LENGTHS=True",
       50},
  };
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  std::vector<double> to_tile_ms, whole_ms;
  std::vector<std::string> stages;  // in their order
  std::map<std::string, std::vector<double>> stage_ms;
  size_t code_bytes = 0;
};

absl::Status Measure(const storage::CompileJob& job, Times* times) {
  std::vector<storage::Diagnostic> diagnostics;
  const auto begin = std::chrono::steady_clock::now();
  compiler::Compiler compiler;
  ASSIGN_OR_RETURN(storage::Artifact artifact, compiler.Compile(job, &diagnostics));
  times->whole_ms.push_back(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  double to_tile = 0;
  for (const auto& stage : artifact.metadata().stage_times()) {
    std::vector<double>& times_of_stage = times->stage_ms[stage.stage()];
    if (times_of_stage.empty()) times->stages.push_back(stage.stage());
    times_of_stage.push_back(stage.seconds() * 1e3);
  }
  for (const auto& stage : artifact.metadata().stage_times())
    if (stage.stage() == "parse" || stage.stage() == "emit") to_tile += stage.seconds() * 1e3;
  times->to_tile_ms.push_back(to_tile);
  times->code_bytes = artifact.code().size();
  return absl::OkStatus();
}

absl::Status Run(int rounds) {
  struct Row {
    Subject subject;
    storage::CompileJob job;
    Times times;
  };
  std::vector<Row> rows;
  for (const Subject& subject : Subjects()) {
    std::ifstream file(subject.path);
    if (!file)
      return absl::NotFoundError(absl::StrCat("cannot read ", subject.path,
                                              ": run this from the root of the source tree"));
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::string> targets = {"interpreter", "cpu"};
    if (compiler::WhyNoAssembler().empty()) targets.push_back("sm_90a");
    if (subject.num_warps != 4) targets.erase(targets.begin(), targets.begin() + 2);  // for GPUs
    for (const std::string& target : targets) {
      ASSIGN_OR_RETURN(
          storage::CompileJob job,
          compiler::MakeJob(source, subject.kernel, subject.signature, subject.constants, target));
      job.mutable_files(0)->set_path(subject.path);
      job.mutable_options()->set_num_warps(subject.num_warps);
      rows.push_back({subject, std::move(job), {}});
    }
  }
  compiler::WarmUpAssembler();  // as a worker does
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) RETURN_IF_ERROR(Measure(row.job, &row.times));
  std::printf("cold compiles, medians of %d rounds\n%-16s %-12s %14s %14s %12s %10s\n", rounds,
              "kernel", "target", "to tile IR", "goal", "whole", "code");
  bool met = true;
  for (const Row& row : rows) {
    const double to_tile = Median(row.times.to_tile_ms);
    met &= to_tile < row.subject.goal_ms;
    std::printf("%-16s %-12s %11.2f ms %11.0f ms %9.1f ms %6zu KiB  %s\n", row.subject.name.c_str(),
                row.job.target().c_str(), to_tile, row.subject.goal_ms, Median(row.times.whole_ms),
                row.times.code_bytes / 1024, to_tile < row.subject.goal_ms ? "met" : "NOT MET");
  }
  for (const Row& row : rows) {
    if (!absl::StartsWith(row.job.target(), "sm_")) continue;
    std::printf("%s %s:", row.subject.name.c_str(), row.job.target().c_str());
    for (const std::string& stage : row.times.stages)
      std::printf(" %s %.1f", stage.c_str(), Median(row.times.stage_ms.at(stage)));
    std::printf(" ms\n");
  }
  if (!compiler::WhyNoAssembler().empty())
    std::printf("sm_90a is left out: %s\n", compiler::WhyNoAssembler().c_str());
  return met ? absl::OkStatus() : absl::DeadlineExceededError("a goal was not met");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  int rounds = 15;
  for (int i = 1; i < argc; ++i)
    if (absl::StartsWith(argv[i], "--rounds=")) rounds = std::max(1, std::atoi(argv[i] + 9));
  const absl::Status status = tessera::Run(rounds);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
