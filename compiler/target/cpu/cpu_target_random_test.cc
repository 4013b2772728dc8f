// Random kernels give the same memory on the CPU as on the interpreter. TESSERA_RANDOM_KERNELS=first:count runs others.
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/target/cpu/jit_kernel.h"
#include "compiler/target/cpu/random_kernel.h"
#include "compiler/target/interpreter/interpreter.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

struct Memory {
  std::vector<int32_t> p0, p1, p2;

  Memory() : p0(RandomKernel::kInputElements + 16), p1(RandomKernel::kOutputElements), p2(RandomKernel::kOutputElements) {
    std::mt19937 random(5);
    for (auto* buffer : {&p0, &p1, &p2})
      for (int32_t& v : *buffer) v = static_cast<int32_t>(random()) >> (random() % 31);
  }
  std::vector<uint64_t> Params(int n) { return {Slot(p0.data()), Slot(p1.data()), Slot(p2.data()), Slot(n)}; }
};

// Whether the interpreter runs the kernel; compares if so.
void Compare(uint32_t seed) {
  std::string text = RandomKernel(seed).Text();
  mlir::DialectRegistry registry;
  RegisterCpuTargetDialects(&registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  auto interpreter = interpreter::Interpreter::Create(*module);
  ASSERT_TRUE(interpreter.ok()) << interpreter.status();
  CpuTargetOptions options;
#if defined(__x86_64__)
  // Every other kernel for a CPU with short vectors and few masked accesses.
  if (seed % 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    options.cpu_features = "haswell:+avx,+avx2,+f16c,+fma";
#endif
  auto kernel = JitKernel::Compile(text, options);
  ASSERT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  for (int n : {0, 1, 3}) {
    Memory want, got;
    const uint32_t grid[3] = {1, 1, 1};
    ASSERT_TRUE((*interpreter)->Run(want.Params(n).data(), grid, InterpretOptions()).ok());
    ASSERT_TRUE((*kernel)->Run(got.Params(n), 1).ok());
    for (size_t i = 0; i < want.p1.size(); ++i) {
      ASSERT_EQ(got.p1[i], want.p1[i]) << "p1[" << i << "], n = " << n << "\n" << text;
      ASSERT_EQ(got.p2[i], want.p2[i]) << "p2[" << i << "], n = " << n << "\n" << text;
    }
  }
}

TEST(CpuTargetRandom, AgreesWithTheInterpreter) {
  unsigned first = 0, count = 100;
  if (const char* range = std::getenv("TESSERA_RANDOM_KERNELS")) ASSERT_EQ(std::sscanf(range, "%u:%u", &first, &count), 2);
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(seed);
    Compare(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::compiler
