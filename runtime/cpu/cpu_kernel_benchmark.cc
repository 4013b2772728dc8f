// What a launch costs beside its instances: a kernel that does nothing, over grids of several sizes.
#include <benchmark/benchmark.h>

#include "runtime/cpu/cpu_kernel.h"

namespace tessera::runtime {
namespace {

void Nop(const uint64_t*, const uint32_t*, uint64_t first, uint64_t last, KernelContext*) {
  for (uint64_t i = first; i < last; ++i) benchmark::DoNotOptimize(i);
}

void Busy(const uint64_t* params, const uint32_t*, uint64_t first, uint64_t last, KernelContext*) {
  for (uint64_t i = first; i < last; ++i)
    for (uint64_t step = 0; step < params[0]; ++step) benchmark::DoNotOptimize(step);
}

Launch MakeLaunch(uint32_t grid, uint64_t steps) {
  Launch launch;
  launch.grid[0] = grid;
  launch.params = {steps};
  return launch;
}

storage::KernelMetadata Metadata() {
  storage::KernelMetadata metadata;
  metadata.add_parameters();
  return metadata;
}

void BM_NopLaunch(benchmark::State& state) {
  ThreadPool pool(DefaultCpuThreads());
  CpuKernel kernel(Nop, Metadata(), &pool, nullptr);
  const Launch launch = MakeLaunch(static_cast<uint32_t>(state.range(0)), 0);
  for (auto _ : state) benchmark::DoNotOptimize(kernel.Run(launch).ok());
}
BENCHMARK(BM_NopLaunch)->Arg(1)->Arg(64)->Arg(4096)->UseRealTime();

void BM_BusyLaunch(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(2)));
  CpuKernel kernel(Busy, Metadata(), &pool, nullptr);
  const Launch launch = MakeLaunch(static_cast<uint32_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(kernel.Run(launch).ok());
}
BENCHMARK(BM_BusyLaunch)->ArgNames({"grid", "steps", "threads"})
    ->ArgsProduct({{64}, {100, 1000, 10000, 100000}, {1, 2}})->UseRealTime();

}  // namespace
}  // namespace tessera::runtime

BENCHMARK_MAIN();
