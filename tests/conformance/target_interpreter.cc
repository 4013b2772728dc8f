#include "compiler/driver/interpreted_kernel.h"
#include "tests/conformance/target.h"

namespace tessera::conformance {
namespace {

class InterpretedProgram : public LoadedProgram {
 public:
  explicit InterpretedProgram(std::unique_ptr<compiler::InterpretedKernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Run(const std::vector<uint64_t>& params, const std::vector<Region>& regions, const uint32_t grid[3]) override {
    compiler::InterpretOptions options;
    for (const Region& region : regions) options.extents.push_back({region.address, region.bytes, false, region.name});
    printed.clear();
    options.print = [this](const std::string& text) { printed += text + "\n"; };
    return kernel_->Run(params.data(), grid, options);
  }

 private:
  std::unique_ptr<compiler::InterpretedKernel> kernel_;
};

class InterpreterTarget : public Target {
 public:
  std::string name() const override { return "interpreter"; }
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const storage::Artifact& artifact) override {
    absl::StatusOr<std::unique_ptr<compiler::InterpretedKernel>> kernel = compiler::InterpretedKernel::Load(artifact);
    if (!kernel.ok()) return kernel.status();
    return std::make_unique<InterpretedProgram>(*std::move(kernel));
  }
};

const RegisterTarget kRegistered(std::make_unique<InterpreterTarget>());

}  // namespace
}  // namespace tessera::conformance
