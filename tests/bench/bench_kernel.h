// What the benchmarks of kernels share: compiling one from source text, memory, medians.
#ifndef TESSERA_TESTS_BENCH_BENCH_KERNEL_H_
#define TESSERA_TESTS_BENCH_BENCH_KERNEL_H_

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/signature/signature.h"
#include "runtime/cpu/cpu_kernel_loader.h"

namespace tessera {

using Clock = std::chrono::steady_clock;

inline double Seconds(const std::function<void()>& work) {
  auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Kernel {
  std::unique_ptr<runtime::LoadedKernel> loaded;
  runtime::Launch launch;
  void Run() {
    absl::Status status = loaded->Run(launch);
    if (!status.ok()) {
      std::fprintf(stderr, "launch failed: %s\n", status.ToString().c_str());
      std::exit(1);
    }
  }
};

// Compiles `kernel` of `source` with the signature's parameters; names in `constants` are constexprs.
inline absl::StatusOr<storage::Artifact> CompileFor(const std::string& target, const std::string& source, const std::string& kernel,
                                                   const std::string& signature, const std::map<std::string, storage::ConstantValue>& constants) {
  compiler::Compiler compiler;
  std::vector<storage::Diagnostic> diagnostics;
  storage::CompileJob job;
  job.add_files()->set_text(source);
  job.set_kernel(kernel);
  job.set_target(target);
  if (target == "cpu") job.set_cpu_features(compiler::HostCpuFeatures());
  ASSIGN_OR_RETURN(storage::ModuleDescription module, compiler.Describe({job.files(0)}, &diagnostics));
  ASSIGN_OR_RETURN(std::vector<storage::ParameterSpec> specs, compiler::ParseSignature(signature));
  for (const auto& description : module.kernels()) {
    if (description.name() != kernel) continue;
    for (const auto& parameter : description.parameters()) {
      storage::ParameterSpec* spec = job.add_parameters();
      for (const auto& given : specs)
        if (given.name() == parameter.name()) *spec = given;
      auto constant = constants.find(parameter.name());
      if (constant != constants.end()) *spec->mutable_constant() = constant->second;
      spec->set_name(parameter.name());
    }
  }
  return compiler.Compile(job, &diagnostics);
}

inline absl::StatusOr<Kernel> Compile(runtime::KernelLoader& loader, const std::string& source, const std::string& kernel, const std::string& signature,
                                      const std::map<std::string, storage::ConstantValue>& constants) {
  ASSIGN_OR_RETURN(storage::Artifact artifact, CompileFor("cpu", source, kernel, signature, constants));
  Kernel result;
  ASSIGN_OR_RETURN(result.loaded, loader.Load(artifact));
  return result;
}

inline storage::ConstantValue Int(int64_t value) {
  storage::ConstantValue constant;
  constant.set_integer(value);
  return constant;
}
inline storage::ConstantValue Text(const std::string& value) {
  storage::ConstantValue constant;
  constant.set_text(value);
  return constant;
}
inline uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Page-aligned, touched memory.
struct Buffer {
  explicit Buffer(size_t count) : data(static_cast<float*>(std::aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096))), count(count) {
    static std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> some(4099);
    for (float& value : some) value = normal(random);
    for (size_t i = 0; i < count; ++i) data[i] = some[i % some.size()];
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  float* data;
  size_t count;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_BENCH_BENCH_KERNEL_H_
