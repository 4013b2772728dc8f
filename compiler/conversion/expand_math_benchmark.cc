// Expanded functions against glibc's vector library, 2048 f32 elements that stay in the first-level cache.
#include <benchmark/benchmark.h>

#include <string>
#include <type_traits>
#include <vector>

#include "compiler/conversion/lane_kernel_for_tests.h"
#include "mlir/Dialect/Math/IR/Math.h"

#if defined(__x86_64__)
#include <immintrin.h>
extern "C" {
__m512 _ZGVeN16v_expf(__m512);
__m512 _ZGVeN16v_logf(__m512);
__m512 _ZGVeN16v_sinf(__m512);
__m512 _ZGVeN16v_tanhf(__m512);
__m512 _ZGVeN16v_erff(__m512);
__m512 _ZGVeN16v_exp2f(__m512);
__m512 _ZGVeN16v_log1pf(__m512);
}
#endif

namespace tessera::compiler {
namespace {

constexpr int64_t kCount = 2048;

std::vector<float> Inputs(float low, float high) {
  std::vector<float> inputs(kCount);
  for (int64_t i = 0; i < kCount; ++i) inputs[i] = low + (high - low) * static_cast<float>((i * 37) % kCount) / kCount;
  return inputs;
}

template <typename Op>
void BM_Expanded(benchmark::State& state, float low, float high) {
  const LaneKernel kernel({}, [](mlir::OpBuilder& b, mlir::Location loc, mlir::Value a, mlir::Value other) -> mlir::Value {
    if constexpr (std::is_same_v<Op, mlir::math::PowFOp>) return b.create<Op>(loc, a, other);
    else return b.create<Op>(loc, a);
  });
  const std::vector<float> inputs = Inputs(low, high);
  std::vector<float> outputs(kCount);
  for (auto _ : state) {
    kernel.Run(inputs.data(), inputs.data(), outputs.data(), kCount);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCount);
}

#if defined(__x86_64__)
template <__m512 (*function)(__m512)>
__attribute__((target("avx512f"))) void BM_Libmvec(benchmark::State& state, float low, float high) {
  if (!__builtin_cpu_supports("avx512f")) return state.SkipWithError("no AVX-512");
  const std::vector<float> inputs = Inputs(low, high);
  std::vector<float> outputs(kCount);
  for (auto _ : state) {
    for (int64_t i = 0; i < kCount; i += 16) _mm512_storeu_ps(&outputs[i], function(_mm512_loadu_ps(&inputs[i])));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCount);
}
#endif

template <typename Op>
void RegisterExpanded(const std::string& name, float low, float high) {
  benchmark::RegisterBenchmark((name + "/expanded").c_str(), [=](benchmark::State& state) { BM_Expanded<Op>(state, low, high); });
}

void RegisterAll() {
#if defined(__x86_64__)
#define TESSERA_COMPARE(Op, name, low, high)                                                                    \
  RegisterExpanded<mlir::math::Op>(#name, low, high);                                                           \
  benchmark::RegisterBenchmark(#name "/libmvec", [](benchmark::State& state) {                                  \
    BM_Libmvec<_ZGVeN16v_##name##f>(state, low, high);                                                          \
  })
#else
#define TESSERA_COMPARE(Op, name, low, high) RegisterExpanded<mlir::math::Op>(#name, low, high)
#endif
  TESSERA_COMPARE(ExpOp, exp, -20, 0);
  TESSERA_COMPARE(Exp2Op, exp2, -20, 0);
  TESSERA_COMPARE(LogOp, log, 0.001, 100);
  TESSERA_COMPARE(Log1pOp, log1p, 0.001, 100);
  TESSERA_COMPARE(SinOp, sin, -10, 10);
  TESSERA_COMPARE(TanhOp, tanh, -5, 5);
  TESSERA_COMPARE(ErfOp, erf, -4, 4);
#undef TESSERA_COMPARE
  RegisterExpanded<mlir::math::PowFOp>("pow", 0.1, 10);
  RegisterExpanded<mlir::math::RsqrtOp>("rsqrt", 0.1, 10);
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  tessera::compiler::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
