#include "compiler/target/interpreter/interpreter.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/dialect/tile/tile.h"
#include "compiler/target/interpreter/build_program.h"
#include "compiler/target/interpreter/program.h"
#include "compiler/transforms/transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::interpreter {

struct Interpreter::Impl {
  Program program;
};

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Interpreter::~Interpreter() = default;

size_t Interpreter::parameter_count() const { return impl_->program.parameters.size(); }

namespace {

// Loads whose value nobody uses are not made, as in Triton: kernels point them anywhere.
void DropUnusedLoads(mlir::func::FuncOp kernel) {
  std::vector<mlir::Operation*> found;
  kernel.walk([&](mlir::Operation* op) { found.push_back(op); });
  for (auto op = found.rbegin(); op != found.rend(); ++op) {
    auto load = mlir::dyn_cast<tile::LoadOp>(*op);
    bool arithmetic = mlir::isa<mlir::arith::ArithDialect, mlir::math::MathDialect>((*op)->getDialect());
    if ((*op)->use_empty() && ((load && !load.getIsVolatile()) || arithmetic)) (*op)->erase();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Create(mlir::ModuleOp module, absl::string_view kernel) {
  mlir::func::FuncOp found;
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    bool match = kernel.empty() ? function->hasAttr("tile.kernel")
                                : absl::string_view(function.getName().data(), function.getName().size()) == kernel;
    if (!match) continue;
    if (found) return absl::InvalidArgumentError("the module has several kernels: name one");
    found = function;
  }
  if (!found)
    return absl::NotFoundError(kernel.empty() ? std::string("the module has no function with the attribute tile.kernel")
                                              : absl::StrCat("the module has no function '", kernel, "'"));
  // The program is made of a copy in which sums and products are combined as on a GPU.
  mlir::OwningOpRef<mlir::ModuleOp> own = module.clone();
  mlir::PassManager passes(module.getContext());
  passes.addNestedPass<mlir::func::FuncOp>(compiler::CreateOrderSumsPass());
  passes.addNestedPass<mlir::func::FuncOp>(compiler::CreateContractMultiplyAddPass());
  if (mlir::failed(passes.run(*own))) return absl::InternalError(absl::StrCat(std::string(found.getName()), ": preparing the kernel failed"));
  auto kernel_copy = own->lookupSymbol<mlir::func::FuncOp>(found.getName());
  DropUnusedLoads(kernel_copy);
  absl::StatusOr<Program> program = BuildProgram(kernel_copy);
  if (!program.ok()) return program.status();
  auto impl = std::make_unique<Impl>();
  impl->program = *std::move(program);
  return std::unique_ptr<Interpreter>(new Interpreter(std::move(impl)));
}

namespace {

// Memory for the values of one program at a time.
class Arena {
 public:
  explicit Arena(int64_t bytes) : data_(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {}
  ~Arena() { std::free(data_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
};

absl::Status CheckPromises(const Program& program, const uint64_t* params) {
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Program::Parameter& parameter = program.parameters[i];
    if (parameter.divisibility > 1 && params[i] % uint64_t(parameter.divisibility) != 0)
      return absl::FailedPreconditionError(absl::StrCat(program.kernel, ": '", parameter.name, "' = ", params[i],
                                                        " is no multiple of ", parameter.divisibility,
                                                        ", which this variant was compiled for"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Interpreter::Run(const uint64_t* params, const uint32_t grid[3], const compiler::InterpretOptions& options) const {
  const Program& program = impl_->program;
  if (absl::Status promises = CheckPromises(program, params); !promises.ok()) return promises;

  Arena arena(program.arena_bytes);
  if (!arena.data()) return absl::ResourceExhaustedError(absl::StrCat(program.kernel, ": no memory for the blocks of one program (", program.arena_bytes, " bytes)"));
  Frame frame(options);
  frame.program = &program;
  frame.at.reserve(program.slots.size());
  for (const Program::Storage& storage : program.slots)
    frame.at.push_back(storage.constant ? storage.constant->data() : arena.data() + storage.offset);
  for (size_t i = 0; i < program.parameters.size(); ++i)
    std::memcpy(frame.at[program.parameters[i].use.slot], &params[i], Bytes(program.parameters[i].use.kind));
  std::copy(grid, grid + 3, frame.grid);

  const uint64_t programs = uint64_t(grid[0]) * grid[1] * grid[2];
  std::vector<uint64_t> order;
  if (options.program_order_seed != 0) {
    order.resize(programs);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(options.program_order_seed));
  }
  for (uint64_t i = 0; i < programs; ++i) {
    const uint64_t index = order.empty() ? i : order[i];
    frame.pid[0] = uint32_t(index % grid[0]);
    frame.pid[1] = uint32_t(index / grid[0] % grid[1]);
    frame.pid[2] = uint32_t(index / grid[0] / grid[1]);
    if (!RunCode(program.code, frame)) return frame.failure;
  }
  return absl::OkStatus();
}

}  // namespace tessera::interpreter
