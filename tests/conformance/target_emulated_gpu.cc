// The nvptx pipeline up to simt IR, run on the host: proves layouts, masks, conversions and barriers without a GPU.
#include "compiler/driver/emulated_kernel.h"
#include "tests/conformance/target.h"

namespace tessera::conformance {
namespace {

class EmulatedProgram : public LoadedProgram {
 public:
  explicit EmulatedProgram(std::unique_ptr<compiler::EmulatedKernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Run(const std::vector<uint64_t>& params, const std::vector<Region>& regions, const uint32_t grid[3]) override {
    compiler::InterpretOptions options;
    options.program_order_seed = 1;
    for (const Region& region : regions) options.extents.push_back({region.address, region.bytes, false, region.name});
    return kernel_->Run(params.data(), grid, options);
  }

 private:
  std::unique_ptr<compiler::EmulatedKernel> kernel_;
};

class EmulatedGpuTarget : public Target {
 public:
  explicit EmulatedGpuTarget(std::string gpu) : name_("emulated:" + gpu) {}
  std::string name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const storage::Artifact& artifact) override {
    absl::StatusOr<std::unique_ptr<compiler::EmulatedKernel>> kernel = compiler::EmulatedKernel::Load(artifact);
    if (!kernel.ok()) return kernel.status();
    return std::make_unique<EmulatedProgram>(*std::move(kernel));
  }

 private:
  std::string name_;
};

const RegisterTarget kHopper(std::make_unique<EmulatedGpuTarget>("sm_90a"));
const RegisterTarget kAmpere(std::make_unique<EmulatedGpuTarget>("sm_80"));

}  // namespace
}  // namespace tessera::conformance
