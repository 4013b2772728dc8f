// A kernel compiled for the interpreter target, ready to run. No MLIR in this header.
#ifndef TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_
#define TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

// Memory that a launch may touch.
struct Extent {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool read_only = false;
  std::string name;  // of the parameter, for messages
};

struct InterpretOptions {
  std::vector<Extent> extents;  // accesses outside all of them fail the launch; empty: no checks
  uint64_t program_order_seed = 0;  // 0: in order; else programs run in a random order
  std::function<void(const std::string&)> print;  // lines of device_print
};

class InterpretedKernel {
 public:
  static absl::StatusOr<std::unique_ptr<InterpretedKernel>> Load(const storage::Artifact& artifact);
  ~InterpretedKernel();

  // `params` as in base/kernel_abi.h. OUT_OF_RANGE: an access outside the extents; the message names kernel, line,
  // program id, lane and address. ABORTED: a device_assert failed. Thread-safe.
  absl::Status Run(const uint64_t* params, const uint32_t grid[3], const InterpretOptions& options) const;

 private:
  struct Impl;
  explicit InterpretedKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_INTERPRETED_KERNEL_H_
