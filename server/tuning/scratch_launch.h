// A launch redirected to scratch copies of its memory, so that candidates run without the client
// noticing.
//
// The tensors' declared extents are copied once (a snapshot: the client goes on), each with a
// margin before and behind that tells whether a candidate wrote outside. Tensors that overlap share
// a copy.
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
#include "server/tuning/device_comparison.h"
#include "server/tuning/scratch_copies.h"

namespace tessera::server {

// Owns a session of its own; its regions go with it.
class ScratchLaunch {
 public:
  // Copies are made on `device`, a Device::tuning(). RESOURCE_EXHAUSTED beyond `max_bytes` of all
  // copies; NOT_FOUND or UNAUTHENTICATED when the client's memory has gone meanwhile.
  static absl::StatusOr<std::unique_ptr<ScratchLaunch>> Create(const api::LaunchRequest& launch,
                                                               const KernelModel& kernel,
                                                               DeviceComparison::Parts parts,
                                                               Device* device, uint64_t max_bytes);
  ~ScratchLaunch();

  // The launch on the copies.
  const api::LaunchRequest& request() const { return request_; }

  // Of all copies.
  uint64_t bytes() const { return bytes_; }

  // The snapshot again, margins included.
  absl::Status Restore();
  // What Triton's autotuner does before every timed run: zeroes what reset_to_zero names, restores
  // what restore_value names.
  absl::Status PrepareTimedRun();
  // Whether there is anything for it to do.
  bool prepares_timed_runs() const;

  // Tensors that a launch overwrites without reading are filled with a pattern by Restore, once
  // they are known to be such: what a candidate leaves out would else be there already, from the
  // client's launches. Tried with one float tensor after another.
  int tensors() const { return static_cast<int>(views_.size()); }
  bool MayPoison(int tensor) const;  // no integers: they may be addresses
  void Poison(int tensor, bool poison) { pieces_[views_[tensor].piece].poisoned = poison; }

  // The contents now are what Agrees and Compare compare with.
  absl::Status KeepReference() { return copies_->KeepReference(); }
  // Whether the contents are the reference up to rounding, and no margin was touched. Quick, and
  // may deny what is at the edge.
  absl::StatusOr<bool> Agrees();
  // The same, empty; else what is wrong, with the tensor's name.
  absl::StatusOr<std::string> Compare();
  // Whether nothing outside the tensors was written, as far as their margins tell; see ScratchCopies.
  bool MarginsIntact() { return copies_->MarginsIntact(); }
  // Whether a candidate could damage the reference, or what Restore writes.
  bool exposed() const { return copies_->exposed(); }

 private:
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
  absl::Status MakePieces(std::vector<Placed> tensors, const KernelModel& kernel);
  absl::Status MakeCopies(DeviceComparison::Parts parts, uint64_t max_bytes);
  absl::StatusOr<std::string> Describe(const std::vector<size_t>& pieces);
  absl::StatusOr<std::string> DescribePiece(size_t piece);

  SessionRegistry* const sessions_;
  Device* const device_;
  std::shared_ptr<Session> session_;
  std::vector<ScratchPiece> pieces_;
  std::vector<ScratchView> views_;
  std::vector<api::TensorRef*> on_wire_;  // of the views, in `request_`
  std::unique_ptr<ScratchCopies> copies_;
  uint64_t bytes_ = 0;
  api::LaunchRequest request_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_SCRATCH_LAUNCH_H_
