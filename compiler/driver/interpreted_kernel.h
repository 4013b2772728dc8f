// A kernel compiled for the interpreter target, ready to run. No MLIR in this header.
#ifndef TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_
#define TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/target/interpreter/interpret_options.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

class InterpretedKernel {
 public:
  static absl::StatusOr<std::unique_ptr<InterpretedKernel>> Load(const storage::Artifact& artifact);
  ~InterpretedKernel();

  // `params` as in base/kernel_abi.h. OUT_OF_RANGE: an access outside the extents; the message names kernel, line,
  // program id, lane and address. ABORTED: a device_assert failed. FAILED_PRECONDITION: a promise (assume, hint,
  // divisibility of an argument) does not hold. Thread-safe.
  absl::Status Run(const uint64_t* params, const uint32_t grid[3], const InterpretOptions& options) const;

 private:
  struct Impl;
  explicit InterpretedKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_
