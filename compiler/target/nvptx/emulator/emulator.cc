#include "compiler/target/nvptx/emulator/emulator.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/target/nvptx/emulator/build_simt.h"
#include "compiler/target/nvptx/emulator/machine.h"
#include "mlir/IR/BuiltinOps.h"

namespace tessera::emulator {

struct Emulator::Impl {
  SimtProgram simt;
};

Emulator::Emulator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Emulator::~Emulator() = default;

size_t Emulator::parameter_count() const { return impl_->simt.program.parameters.size(); }

absl::StatusOr<std::unique_ptr<Emulator>> Emulator::Create(mlir::ModuleOp module, absl::string_view kernel) {
  mlir::func::FuncOp found;
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    const bool match = kernel.empty() ? function->hasAttr("simt.kernel")
                                      : absl::string_view(function.getName().data(), function.getName().size()) == kernel;
    if (!match) continue;
    if (found) return absl::InvalidArgumentError("the module has several kernels: name one");
    found = function;
  }
  if (!found)
    return absl::NotFoundError(kernel.empty() ? std::string("the module has no function with the attribute simt.kernel")
                                              : absl::StrCat("the module has no function '", kernel, "'"));
  absl::StatusOr<SimtProgram> simt = BuildSimt(found);
  if (!simt.ok()) return simt.status();
  auto impl = std::make_unique<Impl>();
  impl->simt = *std::move(simt);
  return std::unique_ptr<Emulator>(new Emulator(std::move(impl)));
}

absl::Status Emulator::Run(const uint64_t* params, const uint32_t grid[3], const compiler::InterpretOptions& options) const {
  const SimtProgram& simt = impl_->simt;
  const interpreter::Program& program = simt.program;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const interpreter::Program::Parameter& parameter = program.parameters[i];
    if (parameter.divisibility > 1 && params[i] % uint64_t(parameter.divisibility) != 0)
      return absl::FailedPreconditionError(absl::StrCat(program.kernel, ": '", parameter.name, "' = ", params[i], " is no multiple of ",
                                                        parameter.divisibility, ", which this variant was compiled for"));
  }
  std::vector<uint64_t> arena((program.arena_bytes + 127) / 8);
  Machine machine(options, simt.threads, simt.shared_bytes, simt.buffers, program.places);
  machine.program = &program;
  for (const interpreter::Program::Storage& storage : program.slots)
    machine.at.push_back(storage.constant ? storage.constant->data() : reinterpret_cast<uint8_t*>(arena.data()) + storage.offset);
  std::copy(grid, grid + 3, machine.grid);

  std::vector<uint64_t> order(uint64_t(grid[0]) * grid[1] * grid[2]);
  std::iota(order.begin(), order.end(), uint64_t{0});
  if (options.program_order_seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(options.program_order_seed));
  for (uint64_t index : order) {
    machine.pid[0] = uint32_t(index % grid[0]);
    machine.pid[1] = uint32_t(index / grid[0] % grid[1]);
    machine.pid[2] = uint32_t(index / grid[0] / grid[1]);
    machine.ResetBlock();
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      const int bytes = interpreter::Bytes(program.parameters[i].use.kind);
      for (int t = 0; t < simt.threads; ++t) std::memcpy(machine.at[program.parameters[i].use.slot] + t * bytes, &params[i], bytes);
    }
    if (!interpreter::RunCode(program.code, machine)) return machine.failure;
  }
  return absl::OkStatus();
}

}  // namespace tessera::emulator
