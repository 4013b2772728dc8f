// What a launch asks of the machine, from its kernel's launch facts and its values: bytes, operations, lanes masked off.
//
// Counted over program instances, iterations and lanes drawn at random, the same ones each time; accesses whose addresses
// or masks depend on memory are not counted.
#ifndef TESSERA_COMPILER_DRIVER_LAUNCH_ESTIMATE_H_
#define TESSERA_COMPILER_DRIVER_LAUNCH_ESTIMATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::compiler {

// The best rates that were measured on a GPU, by large copies and large products.
struct MeasuredRoof {
  std::string gpu;  // empty: nothing was measured for the target
  double bytes_per_second = 0;
  double matrix_operations_per_second = 0;  // fp16 and bf16
};
MeasuredRoof RoofOf(const std::string& target);

struct LaunchEstimate {
  struct Access {
    std::string place, kind;  // "load", "store", "atomic"
    double lanes = 0, inside = 0;
  };
  std::vector<Access> accesses;
  double lanes = 0, inside = 0;            // of all accesses
  double loaded_bytes = 0, stored_bytes = 0;  // by lanes inside
  double distinct_bytes = 0;               // at most: each buffer from the first to the last address
  double matrix_operations = 0, vector_operations = 0;

  MeasuredRoof roof;
  // Seconds that the roof allows at the least; 0: no roof.
  double memory_seconds() const { return roof.bytes_per_second > 0 ? distinct_bytes / roof.bytes_per_second : 0; }
  double matrix_seconds() const {
    return roof.matrix_operations_per_second > 0 ? matrix_operations / roof.matrix_operations_per_second : 0;
  }

  std::string Text() const;
};

// `scalars`: integers by parameter name. INVALID_ARGUMENT names one that is missing.
absl::StatusOr<LaunchEstimate> EstimateLaunch(const storage::KernelMetadata& metadata, const std::map<std::string, int64_t>& scalars,
                                              const uint32_t grid[3]);

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_LAUNCH_ESTIMATE_H_
