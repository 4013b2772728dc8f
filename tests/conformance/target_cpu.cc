#include "compiler/driver/driver.h"
#include "runtime/cpu/cpu_kernel_loader.h"
#include "tests/conformance/target.h"

namespace tessera::conformance {
namespace {

class CpuProgram : public LoadedProgram {
 public:
  explicit CpuProgram(std::unique_ptr<runtime::LoadedKernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Run(const std::vector<uint64_t>& params, const std::vector<Region>& regions, const uint32_t grid[3]) override {
    runtime::Launch launch;
    for (int i = 0; i < 3; ++i) launch.grid[i] = grid[i];
    launch.params = params;
    for (const Region& region : regions) launch.extents.push_back({region.address, region.bytes, false, region.name});
    printed.clear();
    launch.print = [this](const std::string& text) { printed += text + "\n"; };
    return kernel_->Run(launch);
  }

 private:
  std::unique_ptr<runtime::LoadedKernel> kernel_;
};

class CpuTarget : public Target {
 public:
  CpuTarget() : pool_(2), loader_(runtime::CreateCpuKernelLoader(&pool_)) {}
  std::string name() const override { return "cpu"; }
  std::string cpu_features() const override { return compiler::HostCpuFeatures(); }
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const storage::Artifact& artifact) override {
    absl::StatusOr<std::unique_ptr<runtime::LoadedKernel>> kernel = loader_->Load(artifact);
    if (!kernel.ok()) return kernel.status();
    return std::make_unique<CpuProgram>(*std::move(kernel));
  }

 private:
  runtime::ThreadPool pool_;
  std::unique_ptr<runtime::KernelLoader> loader_;
};

const RegisterTarget kRegistered(std::make_unique<CpuTarget>());

}  // namespace
}  // namespace tessera::conformance
