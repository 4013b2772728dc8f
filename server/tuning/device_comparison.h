// Compares memory of a tuning executor where it lies, by kernels of our own (kernels/comparison.py)
// that are registered, compiled, cached and launched like any other.
#ifndef TESSERA_SERVER_TUNING_DEVICE_COMPARISON_H_
#define TESSERA_SERVER_TUNING_DEVICE_COMPARISON_H_

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "server/compile/module_table.h"
#include "server/launch/launcher.h"
#include "server/session/memory_copy.h"
#include "server/session/session_registry.h"
#include "server/tuning/result_check.h"

namespace tessera::server {

// Elements `begin` to `end`, counted from both places. The places' offsets are multiples of 256, so
// that no variant is needed for other alignments.
struct ComparedRange {
  RegionPlace want, got;
  uint64_t begin = 0, end = 0;
  std::optional<DType> floats;  // one that DeviceComparison::Covers; else they are bits
  bool words = false;           // of 8 bytes; else bytes
  double root_mean_square = 0;  // of the whole reference tensor
};

// Not thread-safe.
class DeviceComparison {
 public:
  struct Parts {
    Launcher* launcher;
    ModuleTable* modules;
    SessionRegistry* sessions;
    bool background;  // priority of the compiles
  };
  // Starts to compile what `ranges` need, and returns. `session` holds the regions and
  // must outlive this object.
  static absl::StatusOr<std::unique_ptr<DeviceComparison>> Create(
      Parts parts, Session* session, Device* device, const std::vector<ComparedRange>& ranges);

  // Whether elements of the type can be compared but for equality.
  static bool Covers(DType dtype);

  // Sums by range; of bits only `wrong`, 0 where they are equal. At most as many as Create was
  // given. Waits for the compiles. An error: nothing was compared.
  absl::StatusOr<std::vector<DifferenceSums>> Run(const std::vector<ComparedRange>& ranges);

 private:
  struct Preparation;
  DeviceComparison(Parts parts, Session* session, Device* device)
      : parts_(parts), session_(session), device_(device) {}
  LaunchWait Wait() const;
  absl::Status AwaitPreparation();

  const Parts parts_;
  Session* const session_;
  Device* const device_;
  std::shared_ptr<Preparation> preparation_;
  std::shared_ptr<Region> sums_;  // host memory, by range and program
  size_t max_ranges_ = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_DEVICE_COMPARISON_H_
