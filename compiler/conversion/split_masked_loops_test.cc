#include "compiler/conversion/split_masked_loops.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compiler/target/cpu/object_compiler.h"
#include "gtest/gtest.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {
namespace {

class SplitMaskedLoopsTest : public ::testing::Test {
 protected:
  SplitMaskedLoopsTest() : context_(MakeRegistry(), mlir::MLIRContext::Threading::DISABLED) { context_.loadAllAvailableDialects(); }

  static mlir::DialectRegistry MakeRegistry() {
    mlir::DialectRegistry registry;
    registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                    mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
    RegisterObjectCompilerDialects(&registry);
    return registry;
  }

  mlir::OwningOpRef<mlir::ModuleOp> Parse(const std::string& text, bool split) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    mlir::PassManager passes(&context_);
    if (split) passes.addNestedPass<mlir::func::FuncOp>(CreateSplitMaskedLoopsPass());
    EXPECT_TRUE(module && mlir::succeeded(passes.run(*module)));
    return module;
  }

  template <typename Op>
  int Count(mlir::ModuleOp module) {
    int count = 0;
    module.walk([&](Op) { ++count; });
    return count;
  }

  using Entry = void (*)(const float* in, float* out, int64_t base, int64_t bound);
  Entry Compile(mlir::ModuleOp module) {
    mlir::PassManager passes(&context_);
    passes.addPass(mlir::createConvertVectorToLLVMPass());
    passes.addPass(mlir::createConvertSCFToCFPass());
    passes.addPass(mlir::createArithToLLVMConversionPass());
    passes.addPass(mlir::createConvertControlFlowToLLVMPass());
    passes.addPass(mlir::createConvertFuncToLLVMPass());
    passes.addPass(mlir::createReconcileUnrealizedCastsPass());
    EXPECT_TRUE(mlir::succeeded(passes.run(module)));
    ObjectOptions options;
    options.cpu = DetectHostCpu();
    absl::StatusOr<CompiledObject> object = CompileObject(module, options);
    EXPECT_TRUE(object.ok()) << object.status();
    jits_.push_back(llvm::cantFail(llvm::orc::LLJITBuilder().create()));
    llvm::cantFail(jits_.back()->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object->object, "k")));
    return llvm::cantFail(jits_.back()->lookup("k")).toPtr<Entry>();
  }

  mlir::MLIRContext context_;
  std::vector<std::unique_ptr<llvm::orc::LLJIT>> jits_;
};

// out[i] = in[i] where base + i < bound, 7 elsewhere, for i < 256; the second result adds up what was read.
std::string Loop(const std::string& bits, const std::string& index) {
  return R"(
func.func @k(%in: !llvm.ptr, %out: !llvm.ptr, %base64: i64, %bound64: i64) {
  %base = arith.trunci %base64 : i64 to i32
  %bound = arith.trunci %bound64 : i64 to i32
  %c0 = arith.constant 0 : i64
  %c256 = arith.constant 256 : i64
  %c32 = arith.constant 32 : i64
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %seven = arith.constant dense<7.0> : vector<16xf32>
  %lanes = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi)" + bits + R"(>
  %limit = vector.broadcast %bound)" + (bits == "64" ? "64" : "") + " : i" + bits + " to vector<16xi" + bits + R"(>
  %sums:2 = scf.for %i = %c0 to %c256 step %c32 iter_args(%s0 = %zero, %s1 = %zero) -> (vector<16xf32>, vector<16xf32>) : i64 {
)" + index + R"(
    %splat0 = vector.broadcast %index0 : iBITS to vector<16xiBITS>
    %at0 = arith.addi %splat0, %lanes : vector<16xiBITS>
    %mask0 = arith.cmpi slt, %at0, %limit : vector<16xiBITS>
    %p0 = llvm.getelementptr %in[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v0 = llvm.intr.masked.load %p0, %mask0, %seven {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
    %q0 = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %v0, %q0 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    %n0 = arith.addf %s0, %v0 : vector<16xf32>
    %c16 = arith.constant 16 : iBITS
    %index1 = arith.addi %index0, %c16 : iBITS
    %splat1 = vector.broadcast %index1 : iBITS to vector<16xiBITS>
    %at1 = arith.addi %lanes, %splat1 : vector<16xiBITS>
    %mask1 = arith.cmpi sgt, %limit, %at1 : vector<16xiBITS>
    %p1 = llvm.getelementptr %p0[16] : (!llvm.ptr) -> !llvm.ptr, f32
    %v1 = llvm.intr.masked.load %p1, %mask1, %seven {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
    %q1 = llvm.getelementptr %q0[16] : (!llvm.ptr) -> !llvm.ptr, f32
    llvm.store %v1, %q1 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    %n1 = arith.addf %s1, %v1 : vector<16xf32>
    scf.yield %n0, %n1 : vector<16xf32>, vector<16xf32>
  }
  %sum = arith.addf %sums#0, %sums#1 : vector<16xf32>
  %end = llvm.getelementptr %out[256] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %sum, %end {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
  return
})";
}

std::string WithBits(std::string text, const std::string& bits) {
  for (size_t at; (at = text.find("BITS")) != std::string::npos;) text.replace(at, 4, bits);
  return text;
}

const std::string kLoop32 = WithBits(Loop("32", R"(
    %t = arith.trunci %i : i64 to i32
    %index0 = arith.addi %base, %t : i32)"), "32");
const std::string kLoop64 = WithBits(Loop("64", R"(
    %t = arith.trunci %i : i64 to i32
    %e = arith.extsi %t : i32 to i64
    %index0 = arith.addi %base64, %e : i64)"), "64");

TEST_F(SplitMaskedLoopsTest, RunsAFirstLoopWithoutComparisons) {
  auto plain = Parse(kLoop32, false);
  auto split = Parse(kLoop32, true);
  EXPECT_EQ(Count<mlir::scf::ForOp>(*plain), 1);
  ASSERT_EQ(Count<mlir::scf::ForOp>(*split), 2);
  std::vector<int> comparisons;
  split->walk([&](mlir::scf::ForOp loop) {
    comparisons.push_back(0);
    loop.walk([&](mlir::arith::CmpIOp) { ++comparisons.back(); });
  });
  EXPECT_EQ(comparisons, (std::vector<int>{0, 2}));
}

TEST_F(SplitMaskedLoopsTest, GivesTheSameForEveryBound) {
  constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max(), kMin32 = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max(), kMin64 = std::numeric_limits<int64_t>::min();
  std::vector<float> in(256);
  for (int i = 0; i < 256; ++i) in[i] = static_cast<float>(i + 100);
  for (bool wide : {false, true}) {
    const Entry plain = Compile(*Parse(wide ? kLoop64 : kLoop32, false));
    const Entry split = Compile(*Parse(wide ? kLoop64 : kLoop32, true));
    auto check = [&](int64_t base, int64_t bound) {
      std::vector<float> expected(272, -1), got(272, -1);
      plain(in.data(), expected.data(), base, bound);
      split(in.data(), got.data(), base, bound);
      ASSERT_EQ(got, expected) << base << " " << bound;
    };
    for (int64_t bound = -3; bound < 300; ++bound)
      for (int64_t base : {0, 5, 100, -20}) check(base, bound);
    // Where the sum wraps around, as it does in the language.
    std::vector<int64_t> extremes = {kMax32, kMax32 - 1, kMax32 - 100, kMax32 - 255, kMax32 - 256, kMin32, kMin32 + 1, kMin32 + 100, 0, -1};
    if (wide) extremes.insert(extremes.end(), {kMax64, kMax64 - 1, kMax64 - 100, kMax64 - 256, kMin64, kMin64 + 1, kMin64 + 100});
    for (int64_t base : extremes)
      for (int64_t bound : extremes) check(base, bound);
  }
}

TEST_F(SplitMaskedLoopsTest, LeavesShortLoopsAndOtherComparisons) {
  auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
    return text;
  };
  // Two iterations.
  EXPECT_EQ(Count<mlir::scf::ForOp>(*Parse(replaced(kLoop32, "%c256 = arith.constant 256", "%c256 = arith.constant 64"), true)), 1);
  // Lanes that count down, so that the first of them is the largest index.
  EXPECT_EQ(Count<mlir::scf::ForOp>(*Parse(replaced(kLoop32, "dense<[0, 1,", "dense<[0, -1,"), true)), 1);
  // A bound from inside of the loop, and the other direction.
  EXPECT_EQ(Count<mlir::scf::ForOp>(*Parse(replaced(replaced(kLoop32, "cmpi slt", "cmpi sge"), "cmpi sgt", "cmpi sle"), true)), 1);
}

}  // namespace
}  // namespace tessera::compiler
