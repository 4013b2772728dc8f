// What the suite needs of a target. A new one is one file: a class, and one line that registers it.
#ifndef TESSERA_TESTS_CONFORMANCE_TARGET_H_
#define TESSERA_TESTS_CONFORMANCE_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::conformance {

// Host memory of one pointer parameter. A target with a memory of its own copies it in and out.
struct Region {
  uint64_t address;
  uint64_t bytes;
  std::string name;
};

class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  // `params` as in base/kernel_abi.h.
  virtual absl::Status Run(const std::vector<uint64_t>& params, const std::vector<Region>& regions, const uint32_t grid[3]) = 0;

  std::string printed;  // by the last run
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;  // as CompileJob.target
  virtual std::string cpu_features() const { return ""; }
  // Why a test ("Family.Name") cannot run on this target; empty: it runs.
  virtual std::string WhySkipped(const std::string& test) const { return ""; }
  virtual absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const storage::Artifact& artifact) = 0;
};

// In the order of their names.
std::vector<Target*> Targets();

struct RegisterTarget {
  explicit RegisterTarget(std::unique_ptr<Target> target);
};

}  // namespace tessera::conformance

#endif  // TESSERA_TESTS_CONFORMANCE_TARGET_H_
