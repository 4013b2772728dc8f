#include "server/tuning/scratch_launch.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"
#include "server/tuning/result_check.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

constexpr uint64_t kAlignment = 256;  // an address keeps its place relative to this

// On a CPU from here on: below it the host compares in less time than it takes to ask.
constexpr uint64_t kLarge = 1 << 20;

constexpr char kOutOfBounds[] = "out of bounds: ";

}  // namespace

void ScratchLaunch::Collect(api::Argument* wire, const BoundArgument& bound,
                            const std::string& name, Session* client,
                            std::vector<Placed>* tensors) {
  if (wire->has_tuple()) {
    for (int i = 0; i < wire->tuple().items_size() && i < static_cast<int>(bound.items.size()); ++i)
      Collect(wire->mutable_tuple()->mutable_items(i), bound.items[i],
              absl::StrCat(name, "[", i, "]"), client, tensors);
    return;
  }
  const BoundArgument* pointer = &bound;
  api::TensorRef* tensor = nullptr;
  if (wire->has_tensor()) tensor = wire->mutable_tensor();
  if (wire->has_tensor_descriptor() && !bound.items.empty()) {
    tensor = wire->mutable_tensor_descriptor()->mutable_base();
    pointer = &bound.items[0];
  }
  if (tensor == nullptr || pointer->region == 0) return;
  tensors->push_back({tensor, name, pointer->element, client->FindRegionOrNull(pointer->region),
                      pointer->byte_offset, pointer->extent_bytes});
}

absl::StatusOr<std::unique_ptr<ScratchLaunch>> ScratchLaunch::Create(
    const api::LaunchRequest& launch, const KernelModel& kernel, DeviceComparison::Parts parts,
    Device* device, uint64_t max_bytes) {
  SessionRegistry* sessions = parts.sessions;
  ASSIGN_OR_RETURN(std::shared_ptr<Session> client, sessions->Find(launch.session()));
  BoundLaunch bound;
  RETURN_IF_ERROR(BindArguments(launch.arguments(), kernel, client.get(), &bound));
  std::unique_ptr<ScratchLaunch> scratch(new ScratchLaunch(sessions, device));
  // A peer keeps the session alive without a lease; it is ours.
  ASSIGN_OR_RETURN(scratch->session_, sessions->Open("tuner", Peer{getpid(), getuid(), getgid()}));
  // Nothing of the client's is to be touched, its events and streams included.
  api::LaunchRequest& request = scratch->request_;
  request.set_session(scratch->session_->token());
  request.set_module(launch.module());
  request.set_kernel(launch.kernel());
  request.set_device(launch.device());
  *request.mutable_grid() = launch.grid();
  *request.mutable_grid_expressions() = launch.grid_expressions();
  *request.mutable_arguments() = launch.arguments();
  *request.mutable_options() = launch.options();
  std::vector<Placed> tensors;
  for (api::Argument& argument : *request.mutable_arguments()) {
    int parameter = kernel.FindParameter(argument.name());
    if (parameter >= 0)
      Collect(&argument, bound.arguments[parameter], argument.name(), client.get(), &tensors);
  }
  RETURN_IF_ERROR(scratch->MakePieces(std::move(tensors), kernel));
  RETURN_IF_ERROR(scratch->MakeCopies(parts, max_bytes));
  RETURN_IF_ERROR(scratch->Restore());
  return scratch;
}

absl::Status ScratchLaunch::MakePieces(std::vector<Placed> tensors, const KernelModel& kernel) {
  std::sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    if (a.region != b.region) return a.region < b.region;
    return a.begin < b.begin;
  });
  const storage::KernelDescription& description = kernel.description();
  auto named = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const Placed& tensor : tensors) {
    if (tensor.region == nullptr) return absl::NotFoundError("the launch's memory was released");
    bool joins = !pieces_.empty() && pieces_.back().theirs == tensor.region &&
                 tensor.begin < pieces_.back().begin + pieces_.back().bytes;
    if (!joins) {
      ScratchPiece piece;
      piece.theirs = tensor.region;
      piece.begin = tensor.begin;
      piece.lead = kScratchMargin + tensor.begin % kAlignment;
      pieces_.push_back(std::move(piece));
    }
    ScratchPiece& piece = pieces_.back();
    const uint64_t offset = tensor.begin - piece.begin;
    piece.bytes = std::max(piece.bytes, offset + tensor.bytes);
    piece.zeroed |= named(description.reset_to_zero(), tensor.name);
    piece.restored |= named(description.restore_value(), tensor.name);
    views_.push_back({tensor.name, tensor.dtype, pieces_.size() - 1, offset, tensor.bytes});
    on_wire_.push_back(tensor.tensor);
  }
  return absl::OkStatus();
}

absl::Status ScratchLaunch::MakeCopies(DeviceComparison::Parts parts, uint64_t max_bytes) {
  uint64_t bytes = 0;
  for (const ScratchPiece& piece : pieces_) bytes += piece.bytes;
  const uint64_t on_host = HostCopiesBytes(pieces_);
  if (on_host > max_bytes)
    return Error(absl::StatusCode::kResourceExhausted, "SCRATCH_LIMIT",
                 absl::StrCat("tuning needs ", on_host, " bytes for scratch copies; the limit is ",
                              max_bytes));
  for (ScratchPiece& piece : pieces_) {
    ASSIGN_OR_RETURN(piece.ours, AllocateMemory(sessions_, session_.get(), device_, piece.size()));
  }
  for (size_t i = 0; i < views_.size(); ++i) {
    const ScratchPiece& piece = pieces_[views_[i].piece];
    on_wire_[i]->set_region(piece.ours->id());
    on_wire_[i]->set_byte_offset(piece.lead + views_[i].offset);
  }
  if ((device_->description().is_gpu() || bytes > kLarge) &&
      DeviceCopiesBytes(pieces_) <= max_bytes) {
    absl::StatusOr<std::unique_ptr<ScratchCopies>> copies =
        MakeDeviceCopies(pieces_, views_, parts, session_.get(), device_);
    if (copies.ok())
      copies_ = *std::move(copies);
    else  // of memory of the device there may be too little
      spdlog::info("tuning {}: copies are kept on the host: {}", request_.kernel(),
                   copies.status().ToString());
  }
  if (copies_ == nullptr) {
    ASSIGN_OR_RETURN(copies_, MakeHostCopies(pieces_, sessions_));
  }
  bytes_ = std::max(on_host, DeviceCopiesBytes(pieces_));
  for (ScratchPiece& piece : pieces_) piece.theirs.reset();
  return absl::OkStatus();
}

bool ScratchLaunch::MayPoison(int tensor) const {
  const ScratchView& view = views_[tensor];
  int in_piece = 0;
  for (const ScratchView& other : views_) in_piece += other.piece == view.piece;
  const ScratchPiece& piece = pieces_[view.piece];
  return IsFloat(view.dtype) && in_piece == 1 && !piece.zeroed && !piece.restored;
}

ScratchLaunch::~ScratchLaunch() {
  if (session_ != nullptr) sessions_->Close(session_->token());
}

absl::Status ScratchLaunch::Restore() {
  std::vector<size_t> all;
  for (size_t i = 0; i < pieces_.size(); ++i) all.push_back(i);
  return copies_->Restore(all);
}

bool ScratchLaunch::prepares_timed_runs() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const ScratchPiece& piece) { return piece.zeroed || piece.restored; });
}

absl::Status ScratchLaunch::PrepareTimedRun() {
  std::vector<size_t> some;
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (pieces_[i].zeroed || pieces_[i].restored) some.push_back(i);
  return copies_->Restore(some);
}

absl::StatusOr<bool> ScratchLaunch::Agrees() {
  ASSIGN_OR_RETURN(const std::vector<size_t> suspects, copies_->Suspects());
  if (suspects.empty() || copies_->suspects_differ()) return suspects.empty();
  ASSIGN_OR_RETURN(const std::string difference, Describe(suspects));
  return difference.empty();
}

absl::StatusOr<std::string> ScratchLaunch::Compare() {
  ASSIGN_OR_RETURN(const std::vector<size_t> suspects, copies_->Suspects());
  ASSIGN_OR_RETURN(std::string difference, Describe(suspects));
  if (!suspects.empty() && copies_->suspects_differ() && difference.empty())
    spdlog::info("tuning {}: a result at the edge of the tolerance was accepted on the host",
                 request_.kernel());
  return difference;
}

// A touched margin says more than a wrong result.
absl::StatusOr<std::string> ScratchLaunch::Describe(const std::vector<size_t>& pieces) {
  std::string first;
  for (size_t i : pieces) {
    ASSIGN_OR_RETURN(std::string difference, DescribePiece(i));
    if (absl::StartsWith(difference, kOutOfBounds)) return difference;
    if (first.empty()) first = std::move(difference);
  }
  return first;
}

absl::StatusOr<std::string> ScratchLaunch::DescribePiece(size_t i) {
  const ScratchPiece& piece = pieces_[i];
  ASSIGN_OR_RETURN(const std::string contents, copies_->Contents(i));
  std::string name = "?";
  for (const ScratchView& view : views_)
    if (view.piece == i && name == "?") name = view.name;
  const absl::string_view all = contents;
  const absl::string_view before = all.substr(0, piece.lead), behind = all.substr(piece.end());
  if (size_t last = behind.find_last_not_of(kMarginByte); last != absl::string_view::npos)
    return absl::StrCat(kOutOfBounds, "wrote up to ", last + 1, " bytes behind the end of tensor '",
                        name, "'");
  if (size_t first = before.find_first_not_of(kMarginByte); first != absl::string_view::npos)
    return absl::StrCat(kOutOfBounds, "wrote up to ", before.size() - first,
                        " bytes before the begin of tensor '", name, "'");
  ASSIGN_OR_RETURN(const std::string reference, copies_->Reference(i));
  for (const ScratchView& view : views_) {
    if (view.piece != i) continue;
    auto part = [&](absl::string_view content) {
      return absl::MakeConstSpan(content.data() + view.offset, static_cast<size_t>(view.bytes));
    };
    std::string difference =
        DescribeDifference(view.dtype, part(reference), part(all.substr(piece.lead)));
    if (!difference.empty())
      return absl::StrCat("wrong result in tensor '", view.name, "': ", difference);
  }
  return std::string();
}

}  // namespace tessera::server
