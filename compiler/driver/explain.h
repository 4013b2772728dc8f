// Why a kernel for a GPU is as fast as it is, as far as its code shows.
#ifndef TESSERA_COMPILER_DRIVER_EXPLAIN_H_
#define TESSERA_COMPILER_DRIVER_EXPLAIN_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/driver/launch_estimate.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

struct KernelExplanation {
  int threads = 0, registers = 0, spill_bytes = 0, local_bytes = 0, shared_bytes = 0;
  // On one multiprocessor.
  int resident_blocks = 0, resident_warps = 0, max_warps = 0;
  std::string occupancy_limit;  // "registers", "shared memory", "threads", "blocks"
  // Instructions in the code, not executions.
  std::map<std::string, std::map<int, int>> accesses;  // "load", "store", "copy to shared", "atomic" -> bytes of a thread's access -> instructions
  std::map<std::string, int> matrix_instructions;      // "wgmma m64n128k16 f16" -> instructions
  int barriers = 0;
  size_t code_bytes = 0;
  std::vector<std::string> hints;
  std::optional<LaunchEstimate> launch;  // where a launch's values are given

  std::string Text() const;
  std::string Json() const;
};

// Of an artifact for sm_*, compiled with "ptx" among the stages. FAILED_PRECONDITION: it is not.
absl::StatusOr<KernelExplanation> ExplainKernel(const storage::Artifact& artifact);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_EXPLAIN_H_
