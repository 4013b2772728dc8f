#include "compiler/target/cpu/object_compiler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kMultiplyAdd[] = R"(
llvm.func @k(%p: !llvm.ptr) {
  %a = llvm.load %p : !llvm.ptr -> vector<16xf32>
  %1 = llvm.fmul %a, %a : vector<16xf32>
  %2 = llvm.fadd %1, %a : vector<16xf32>
  llvm.store %2, %p : vector<16xf32>, !llvm.ptr
  llvm.return
})";

class ObjectCompilerTest : public ::testing::Test {
 protected:
  ObjectCompilerTest() : context_(MakeRegistry()) { context_.loadAllAvailableDialects(); }

  static mlir::DialectRegistry MakeRegistry() {
    mlir::DialectRegistry registry;
    registry.insert<mlir::LLVM::LLVMDialect>();
    RegisterObjectCompilerDialects(&registry);
    return registry;
  }

  absl::StatusOr<CompiledObject> Compile(const char* text, const ObjectOptions& options) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    return CompileObject(*module, options);
  }

  mlir::MLIRContext context_;
};

ObjectOptions HostOptions() {
  ObjectOptions options;
  options.cpu = DetectHostCpu();
  return options;
}

TEST_F(ObjectCompilerTest, GivesAnElfObjectWithTheTextsThatWereAskedFor) {
  ObjectOptions options = HostOptions();
  absl::StatusOr<CompiledObject> plain = Compile(kMultiplyAdd, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(plain->object, StartsWith("\x7f" "ELF"));
  EXPECT_EQ(plain->llvm, "");
  EXPECT_EQ(plain->assembly, "");
  options.want_llvm = options.want_asm = true;
  absl::StatusOr<CompiledObject> with_texts = Compile(kMultiplyAdd, options);
  ASSERT_TRUE(with_texts.ok()) << with_texts.status();
  EXPECT_THAT(with_texts->llvm, HasSubstr("define dso_local void @k("));
  EXPECT_THAT(with_texts->assembly, HasSubstr("k:"));
  EXPECT_EQ(with_texts->object, plain->object);
}

TEST_F(ObjectCompilerTest, GivesEqualBytesEachTime) {
  absl::StatusOr<CompiledObject> first = Compile(kMultiplyAdd, HostOptions());
  absl::StatusOr<CompiledObject> second = Compile(kMultiplyAdd, HostOptions());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->object, second->object);
}

TEST_F(ObjectCompilerTest, FusesMultiplyAddOnlyWhenAllowed) {
  ObjectOptions options = HostOptions();
#if defined(__x86_64__)
  options.cpu = *ParseCpuDescription("skylake-avx512:+avx512f,+fma");
  const char* fused = "vfmadd";
#else
  const char* fused = "fmla";
#endif
  options.want_asm = true;
  EXPECT_THAT(Compile(kMultiplyAdd, options)->assembly, HasSubstr(fused));
  options.contract_fp = false;
  EXPECT_THAT(Compile(kMultiplyAdd, options)->assembly, Not(HasSubstr(fused)));
}

#if defined(__x86_64__)
TEST_F(ObjectCompilerTest, UsesTheVectorWidthOfTheCpu) {
  ObjectOptions options;
  options.want_asm = true;
  options.cpu = *ParseCpuDescription("skylake-avx512:+avx512f,+avx2");
  EXPECT_EQ(options.cpu.VectorBits(), 512);
  EXPECT_THAT(Compile(kMultiplyAdd, options)->assembly, HasSubstr("zmm"));
  options.cpu = *ParseCpuDescription("haswell:+avx2");
  EXPECT_EQ(options.cpu.VectorBits(), 256);
  EXPECT_THAT(Compile(kMultiplyAdd, options)->assembly, Not(HasSubstr("zmm")));
}

TEST_F(ObjectCompilerTest, UsesNoFeatureThatIsSwitchedOff) {
  ObjectOptions options;
  options.want_asm = true;
  options.cpu = *ParseCpuDescription("znver4:-avx512f,-fma,-fma4");
  EXPECT_THAT(Compile(kMultiplyAdd, options)->assembly, Not(HasSubstr("zmm")));
}
#endif

TEST_F(ObjectCompilerTest, ReportsWhatLlvmCannotCompile) {
  const char* unknown_asm = R"(
llvm.func @k() {
  llvm.inline_asm has_side_effects "not_an_instruction", "" : () -> ()
  llvm.return
})";
  EXPECT_EQ(Compile(unknown_asm, HostOptions()).status().code(), absl::StatusCode::kInternal);
}

TEST(CpuDescriptionTest, ReadsBackTheHostsDescription) {
  const CpuDescription host = DetectHostCpu();
  absl::StatusOr<CpuDescription> parsed = ParseCpuDescription(host.ToString());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->ToString(), host.ToString());
  EXPECT_GE(host.VectorBits(), 128);
}

TEST(CpuDescriptionTest, RefusesUnknownNamesAndFeatures) {
  for (const char* text : {"", ":", "znver4", "nosuchcpu:+avx", "znver4:+nosuchfeature", "znver4:avx", "znver4:+avx,"})
    EXPECT_EQ(ParseCpuDescription(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
}

TEST(CpuDescriptionTest, HasOnlyWhatIsSwitchedOn) {
  const CpuDescription cpu{"x", "+avx2,-avx512f,+fma"};
  EXPECT_TRUE(cpu.Has("avx2"));
  EXPECT_TRUE(cpu.Has("fma"));
  EXPECT_FALSE(cpu.Has("avx512f"));
  EXPECT_FALSE(cpu.Has("avx"));
}

}  // namespace
}  // namespace tessera::compiler
