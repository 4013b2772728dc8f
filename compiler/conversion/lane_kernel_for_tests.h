// Compiles a function of lanes and runs it in this process, for tests and benchmarks of the conversions.
#ifndef TESSERA_COMPILER_CONVERSION_LANE_KERNEL_FOR_TESTS_H_
#define TESSERA_COMPILER_CONVERSION_LANE_KERNEL_FOR_TESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Value.h"

namespace tessera::compiler {

class LaneKernel {
 public:
  // Gives the value of the lanes of `a` and `b`, of the types that the constructor names.
  using Function = std::function<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::Value a, mlir::Value b)>;

  struct Shape {
    std::string in = "f32";  // element types as MLIR spells them
    std::string out = "f32";
    int lanes = 16;  // 0: scalars
    bool contract_fp = true;
    std::string cpu;  // "name:features"; empty: the host
  };

  // Ends the process where anything fails: the caller is a test.
  LaneKernel(const Shape& shape, const Function& function);
  ~LaneKernel();

  // out[i] = function(a[i], b[i]) for i < count, which is a multiple of the lanes.
  void Run(const void* a, const void* b, void* out, int64_t count) const { entry_(a, b, out, count); }

  const std::string& assembly() const { return assembly_; }

 private:
  using Entry = void (*)(const void*, const void*, void*, int64_t);
  struct Jit;
  std::unique_ptr<Jit> jit_;
  Entry entry_ = nullptr;
  std::string assembly_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_CONVERSION_LANE_KERNEL_FOR_TESTS_H_
