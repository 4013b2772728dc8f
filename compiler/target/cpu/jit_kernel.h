// For tests and benchmarks: textual tile IR -> a kernel that runs in this process, on one thread.
#ifndef TESSERA_COMPILER_TARGET_CPU_JIT_KERNEL_H_
#define TESSERA_COMPILER_TARGET_CPU_JIT_KERNEL_H_

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "base/kernel_abi.h"
#include "compiler/target/cpu/cpu_target.h"
#include "mlir/IR/MLIRContext.h"

namespace llvm::orc {
class LLJIT;
}

namespace tessera::compiler {

class JitKernel {
 public:
  // `text`: a module with one function that carries "tile.kernel". The kernel's failure flag is checked by Run.
  static absl::StatusOr<std::unique_ptr<JitKernel>> Compile(const std::string& text, const CpuTargetOptions& options = {});
  ~JitKernel();

  // Runs all program instances. INTERNAL with the message of a failed tile.assert.
  absl::Status Run(const std::vector<uint64_t>& params, uint32_t x, uint32_t y = 1, uint32_t z = 1);

  const CpuObject& object() const { return object_; }
  KernelContext& context() { return context_; }

 private:
  JitKernel() = default;
  CpuObject object_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  KernelEntry entry_ = nullptr;
  KernelContext context_{};
  void* scratch_ = nullptr;
};

// The slot of a parameter.
template <typename T>
uint64_t Slot(T value) {
  uint64_t slot = 0;
  if constexpr (std::is_pointer_v<T>) {
    slot = reinterpret_cast<uint64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    slot = static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    std::memcpy(&slot, &value, sizeof(value));
  }
  return slot;
}

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_CPU_JIT_KERNEL_H_
