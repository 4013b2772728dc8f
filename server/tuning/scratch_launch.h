// A launch redirected to scratch copies of its memory, so that candidates run without the client noticing.
//
// The tensors' declared extents are copied once (a snapshot: the client goes on), each with a margin
// before and behind that tells whether a candidate wrote outside. Tensors that overlap share a copy.
#ifndef TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_
#define TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/device/device_table.h"
#include "server/launch/bound_launch.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// Owns a session of its own; its regions go with it.
class ScratchLaunch {
 public:
  // Copies are made on `device`, a Device::tuning(). RESOURCE_EXHAUSTED beyond `max_bytes` of all
  // copies; NOT_FOUND or UNAUTHENTICATED when the client's memory has gone meanwhile.
  static absl::StatusOr<std::unique_ptr<ScratchLaunch>> Create(const api::LaunchRequest& launch,
                                                               const KernelModel& kernel,
                                                               SessionRegistry* sessions,
                                                               Device* device, uint64_t max_bytes);
  ~ScratchLaunch();

  // The launch on the copies.
  const api::LaunchRequest& request() const { return request_; }

  // The snapshot again, margins included.
  absl::Status Restore();
  // What Triton's autotuner does before every timed run: zeroes what reset_to_zero names, restores
  // what restore_value names.
  absl::Status PrepareTimedRun();

  // Tensors that a launch overwrites without reading are filled with a pattern by Restore, once
  // they are known to be such: what a candidate leaves out would else be there already, from the
  // client's launches. Tried with one float tensor after another.
  int tensors() const { return static_cast<int>(views_.size()); }
  bool MayPoison(int tensor) const;  // no integers: they may be addresses
  void Poison(int tensor, bool poison) { views_[tensor].poisoned = poison; }

  // The contents now, for Compare.
  absl::StatusOr<std::vector<std::string>> Read() const;
  // Empty: as `reference` up to rounding, and no margin was touched. Else what is wrong, with the
  // tensor's name.
  absl::StatusOr<std::string> Compare(const std::vector<std::string>& reference) const;

 private:
  struct Piece {
    std::shared_ptr<Region> theirs, ours;
    std::shared_ptr<Region> mirror;  // of `ours`, in host memory; `ours` itself where it is that
    uint64_t begin = 0;              // in `theirs`
    uint64_t lead = 0;   // bytes of the margin before it in `ours`
    std::string snapshot;
    bool zeroed = false, restored = false;  // before every timed run
  };
  struct View {
    std::string name;
    DType dtype;
    size_t piece;
    uint64_t offset, bytes;  // in the piece
    bool poisoned = false;
  };
  struct Placed {
    api::TensorRef* tensor;
    std::string name;
    DType dtype;
    std::shared_ptr<Region> region;
    uint64_t begin, bytes;
  };

  ScratchLaunch(SessionRegistry* sessions, Device* device) : sessions_(sessions), device_(device) {}
  static void Collect(api::Argument* wire, const BoundArgument& bound, const std::string& name,
                      Session* client, std::vector<Placed>* tensors);
  absl::Status MakePieces(std::vector<Placed> tensors, const KernelModel& kernel,
                          uint64_t max_bytes);
  absl::Status TakeSnapshot(Piece* piece, uint64_t bytes);
  absl::Status Write(const Piece& piece, bool zeros);
  // Brings the mirror up to date.
  absl::Status Pull(const Piece& piece) const;

  SessionRegistry* const sessions_;
  Device* const device_;
  std::shared_ptr<Session> session_;
  std::vector<Piece> pieces_;
  std::vector<View> views_;
  uint64_t bytes_ = 0;
  api::LaunchRequest request_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_
