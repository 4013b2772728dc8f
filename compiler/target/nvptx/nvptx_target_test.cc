#include "compiler/target/nvptx/nvptx_target.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/dialect/simt/simt.h"
#include "compiler/target/nvptx/assembler.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

constexpr char kScale[] = R"(
func.func @scale(%p: i64, %f: f32) attributes {simt.kernel, simt.threads = 64 : i32} {
  %t = simt.thread_id : i32
  %t64 = arith.extui %t : i32 to i64
  %four = arith.constant 4 : i64
  %offset = arith.muli %t64, %four : i64
  %a = arith.addi %p, %offset : i64
  %x = simt.load %a : f32
  %y = arith.mulf %x, %f : f32
  simt.store %a, %y : f32
  return
})";

constexpr char kLogarithm[] = R"(
func.func @logarithm(%p: i64, %f: f32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %y = math.log %f : f32
  simt.store %p, %y : f32
  return
})";

absl::StatusOr<GpuCode> Compile(const char* text, const char* target, bool assemble, bool fp_fusion = true) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect, mlir::scf::SCFDialect, simt::SimtDialect, tile::TileDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  NvptxOptions options;
  options.arch = *ParseGpuArch(target);
  options.fp_fusion = fp_fusion;
  options.assemble = assemble;
  return CompileSimt(*module, options);
}

bool Contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(NvptxTarget, EqualJobsGiveEqualBytes) {
  auto first = Compile(kScale, "sm_90a", false), second = Compile(kScale, "sm_90a", false);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->ptx, second->ptx);
  EXPECT_EQ(first->entry_symbol, "scale");
  EXPECT_EQ(first->threads, 64);
}

TEST(NvptxTarget, AssemblesForEachGpuThatItsAssemblerKnows) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"}) {
    auto code = Compile(kScale, target, true);
    if (absl::IsFailedPrecondition(code.status())) continue;  // a toolkit older than the GPU
    ASSERT_TRUE(code.ok()) << target << ": " << code.status();
    EXPECT_EQ(code->cubin.substr(1, 3), "ELF") << target;
    EXPECT_GT(code->registers, 0) << target;
    EXPECT_EQ(code->spill_bytes, 0) << target;
  }
}

TEST(NvptxTarget, ProductsAndSumsFuseOnlyWhereAllowed) {
  const char* text = R"(
func.func @fused(%p: i64, %a: f32, %b: f32, %c: f32) attributes {simt.kernel, simt.threads = 32 : i32} {
  %0 = arith.mulf %a, %b : f32
  %1 = arith.addf %0, %c : f32
  simt.store %p, %1 : f32
  return
})";
  EXPECT_TRUE(Contains(Compile(text, "sm_80", false, true)->ptx, "fma.rn.f32"));
  EXPECT_FALSE(Contains(Compile(text, "sm_80", false, false)->ptx, "fma.rn.f32"));
  EXPECT_TRUE(Contains(Compile(text, "sm_80", false, false)->ptx, "add.rn.f32"));
}

TEST(NvptxTarget, MissingLibdeviceIsNamedWithItsRemedy) {
  setenv("TESSERA_LIBDEVICE", "/nonexistent/libdevice.10.bc", 1);
  const absl::Status missing = Compile(kLogarithm, "sm_80", false).status();
  unsetenv("TESSERA_LIBDEVICE");
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(std::string(missing.message()), "/nonexistent/libdevice.10.bc")) << missing;
  EXPECT_TRUE(Contains(std::string(missing.message()), "CUDA_HOME")) << missing;
}

TEST(NvptxTarget, FaultyPtxComesBackWithTheAssemblersWords) {
  if (!WhyNoAssembler().empty()) GTEST_SKIP() << WhyNoAssembler();
  const absl::Status status = Assemble(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nbogus;\n}\n", "k", *ParseGpuArch("sm_80")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Contains(std::string(status.message()), "line 6")) << status;
}

}  // namespace
}  // namespace tessera::compiler
