// The copies of a launch's memory: those that candidates run on, what they are restored from, and
// the reference result.
//
// Two kinds. On the host: slow, for any launch. On the device: everything stays in memory of the
// tuning executor, and results are compared by DeviceComparison.
#ifndef TESSERA_SERVER_TUNING_SCRATCH_COPIES_H_
#define TESSERA_SERVER_TUNING_SCRATCH_COPIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "server/device/device_table.h"
#include "server/session/region.h"
#include "server/session/session_registry.h"
#include "server/tuning/device_comparison.h"

namespace tessera::server {

constexpr uint64_t kScratchMargin = 4096;
constexpr char kMarginByte = '\x5a';
constexpr char kPoisonByte = '\x4b';  // finite in every float type

// Tensors that overlap, and the margins around them.
struct ScratchPiece {
  std::shared_ptr<Region> theirs;  // the client's memory; null once the snapshot is taken
  uint64_t begin = 0, bytes = 0;   // in `theirs`
  uint64_t lead = 0;               // bytes of the margin before it in `ours`
  std::shared_ptr<Region> ours;
  bool zeroed = false, restored = false;  // before every timed run
  bool poisoned = false;                  // overwritten by every launch: see ScratchLaunch::Poison

  uint64_t end() const { return lead + bytes; }
  uint64_t size() const { return end() + kScratchMargin; }
};

struct ScratchView {
  std::string name;
  DType dtype;
  size_t piece;
  uint64_t offset, bytes;  // in the piece
};

// Not thread-safe; blocks. Pieces and views must outlive it; pieces' flags may change meanwhile.
class ScratchCopies {
 public:
  virtual ~ScratchCopies() = default;

  // Writes pieces anew, margins included: zeros, the poison or the snapshot, as their flags say.
  virtual absl::Status Restore(const std::vector<size_t>& pieces) = 0;
  // What is there now is what others are compared with.
  virtual absl::Status KeepReference() = 0;
  // Pieces that are not known to be as the reference up to rounding, with their margins untouched.
  virtual absl::StatusOr<std::vector<size_t>> Suspects() = 0;
  // Whether all margins are as they were made, where that is quick to tell; else false.
  virtual bool MarginsIntact() = 0;
  // Whether suspects do differ, but for a hair's breadth. Else nobody has looked at them.
  virtual bool suspects_differ() const = 0;
  // Whether candidates could reach what they are restored from and compared with.
  virtual bool exposed() const = 0;

  // Whole pieces, for those who look themselves; without the margins the reference.
  virtual absl::StatusOr<std::string> Contents(size_t piece) = 0;
  virtual absl::StatusOr<std::string> Reference(size_t piece) = 0;
};

// Both take the snapshot. Bytes that the kind needs at most, all copies together:
uint64_t HostCopiesBytes(const std::vector<ScratchPiece>& pieces);
uint64_t DeviceCopiesBytes(const std::vector<ScratchPiece>& pieces);
absl::StatusOr<std::unique_ptr<ScratchCopies>> MakeHostCopies(
    const std::vector<ScratchPiece>& pieces, SessionRegistry* sessions);
absl::StatusOr<std::unique_ptr<ScratchCopies>> MakeDeviceCopies(
    const std::vector<ScratchPiece>& pieces, const std::vector<ScratchView>& views,
    DeviceComparison::Parts parts, Session* session, Device* device);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_SCRATCH_COPIES_H_
