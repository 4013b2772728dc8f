#include "server/tuning/scratch_launch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/shared_memory.h"
#include "server/session/memory_copy.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"
#include "server/tuning/result_check.h"

namespace tessera::server {
namespace {

constexpr uint64_t kMargin = 4096;
constexpr uint64_t kAlignment = 256;  // an address keeps its place relative to this
constexpr char kMarginByte = '\x5a';
constexpr char kPoisonByte = '\x4b';  // finite in every float type

// The copy itself, the snapshot, the reference, and what is compared with it.
constexpr uint64_t kCopies = 4;

// By read and write, not by mapping: a client that truncates its memory meanwhile gives us a short
// read, not a fault.
absl::Status ReadAll(const Region& region, uint64_t offset, char* to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    ssize_t got = pread(region.fd(), to + done, bytes - done,
                        static_cast<off_t>(region.description().offset + offset + done));
    if (got <= 0)
      return absl::ErrnoToStatus(got == 0 ? EIO : errno, "reading memory of a launch");
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const Region& region, uint64_t offset, const char* from, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    ssize_t put = pwrite(region.fd(), from + done, bytes - done,
                         static_cast<off_t>(region.description().offset + offset + done));
    if (put <= 0) return absl::ErrnoToStatus(errno, "writing scratch memory");
    done += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

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
    const api::LaunchRequest& launch, const KernelModel& kernel, SessionRegistry* sessions,
    Device* device, uint64_t max_bytes) {
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
  RETURN_IF_ERROR(scratch->MakePieces(std::move(tensors), kernel, max_bytes));
  RETURN_IF_ERROR(scratch->Restore());
  return scratch;
}

absl::Status ScratchLaunch::MakePieces(std::vector<Placed> tensors, const KernelModel& kernel,
                                       uint64_t max_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    if (a.region != b.region) return a.region < b.region;
    return a.begin < b.begin;
  });
  std::vector<uint64_t> ends;
  std::vector<size_t> piece_of;
  for (const Placed& tensor : tensors) {
    if (tensor.region == nullptr) return absl::NotFoundError("the launch's memory was released");
    bool joins =
        !pieces_.empty() && pieces_.back().theirs == tensor.region && tensor.begin < ends.back();
    if (!joins) {
      Piece piece;
      piece.theirs = tensor.region;
      piece.begin = tensor.begin;
      pieces_.push_back(std::move(piece));
      ends.push_back(tensor.begin);
    }
    ends.back() = std::max(ends.back(), tensor.begin + tensor.bytes);
    piece_of.push_back(pieces_.size() - 1);
  }
  uint64_t all = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) all += kCopies * (ends[i] - pieces_[i].begin);
  if (all > max_bytes)
    return Error(absl::StatusCode::kResourceExhausted, "SCRATCH_LIMIT",
                 absl::StrCat("tuning needs ", all, " bytes for scratch copies; the limit is ",
                              max_bytes));
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    uint64_t bytes = ends[i] - piece.begin;
    piece.lead = kMargin + piece.begin % kAlignment;
    uint64_t size = piece.lead + bytes + kMargin;
    ASSIGN_OR_RETURN(piece.ours, AllocateMemory(sessions_, session_.get(), device_, size));
    piece.mirror = piece.ours;
    if (device_->description().is_gpu()) {
      ASSIGN_OR_RETURN(runtime::UniqueFd fd, runtime::CreateSealedMemory("tessera-tuner", size));
      RegionDescription description;
      description.size = size;
      description.kind = "allocated";
      piece.mirror = sessions_->MakeRegion(std::move(description), std::move(fd));
    }
    RETURN_IF_ERROR(TakeSnapshot(&piece, bytes));
  }
  const storage::KernelDescription& description = kernel.description();
  auto named = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    Piece& piece = pieces_[piece_of[i]];
    uint64_t offset = tensors[i].begin - piece.begin;
    tensors[i].tensor->set_region(piece.ours->id());
    tensors[i].tensor->set_byte_offset(piece.lead + offset);
    views_.push_back(
        {tensors[i].name, tensors[i].dtype, piece_of[i], offset, tensors[i].bytes});
    piece.zeroed |= named(description.reset_to_zero(), tensors[i].name);
    piece.restored |= named(description.restore_value(), tensors[i].name);
  }
  return absl::OkStatus();
}

absl::Status ScratchLaunch::TakeSnapshot(Piece* piece, uint64_t bytes) {
  piece->snapshot.resize(bytes);
  std::shared_ptr<Region> theirs = std::move(piece->theirs);
  if (theirs->description().home == nullptr)
    return ReadAll(*theirs, piece->begin, piece->snapshot.data(), bytes);
  // Its own executor copies it out: ours never sees the client's memory.
  RETURN_IF_ERROR(CopyMemory({theirs, piece->begin}, {piece->mirror, 0}, bytes,
                             theirs->description().home));
  return ReadAll(*piece->mirror, 0, piece->snapshot.data(), bytes);
}

bool ScratchLaunch::MayPoison(int tensor) const {
  const View& view = views_[tensor];
  int in_piece = 0;
  for (const View& other : views_) in_piece += other.piece == view.piece;
  const Piece& piece = pieces_[view.piece];
  return IsFloat(view.dtype) && in_piece == 1 && !piece.zeroed && !piece.restored;
}

ScratchLaunch::~ScratchLaunch() {
  if (session_ != nullptr) sessions_->Close(session_->token());
}

absl::Status ScratchLaunch::Write(const Piece& piece, bool zeros) {
  std::string margin(std::max(piece.lead, kMargin), kMarginByte), zero;
  RETURN_IF_ERROR(WriteAll(*piece.mirror, 0, margin.data(), piece.lead));
  RETURN_IF_ERROR(
      WriteAll(*piece.mirror, piece.lead + piece.snapshot.size(), margin.data(), kMargin));
  if (zeros) zero.resize(piece.snapshot.size());
  const std::string& content = zeros ? zero : piece.snapshot;
  RETURN_IF_ERROR(WriteAll(*piece.mirror, piece.lead, content.data(), content.size()));
  for (const View& view : views_) {
    if (!view.poisoned || &pieces_[view.piece] != &piece) continue;
    std::string pattern(view.bytes, kPoisonByte);
    RETURN_IF_ERROR(
        WriteAll(*piece.mirror, piece.lead + view.offset, pattern.data(), pattern.size()));
  }
  if (piece.mirror == piece.ours) return absl::OkStatus();
  return CopyMemory({piece.mirror, 0}, {piece.ours, 0}, piece.ours->size(), device_);
}

absl::Status ScratchLaunch::Pull(const Piece& piece) const {
  if (piece.mirror == piece.ours) return absl::OkStatus();
  return CopyMemory({piece.ours, 0}, {piece.mirror, 0}, piece.ours->size(), device_);
}

absl::Status ScratchLaunch::Restore() {
  for (const Piece& piece : pieces_) RETURN_IF_ERROR(Write(piece, piece.zeroed));
  return absl::OkStatus();
}

absl::Status ScratchLaunch::PrepareTimedRun() {
  for (const Piece& piece : pieces_)
    if (piece.zeroed || piece.restored) RETURN_IF_ERROR(Write(piece, piece.zeroed));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ScratchLaunch::Read() const {
  std::vector<std::string> contents;
  for (const Piece& piece : pieces_) {
    RETURN_IF_ERROR(Pull(piece));
    std::string content(piece.snapshot.size(), '\0');
    RETURN_IF_ERROR(ReadAll(*piece.mirror, piece.lead, content.data(), content.size()));
    contents.push_back(std::move(content));
  }
  return contents;
}

absl::StatusOr<std::string> ScratchLaunch::Compare(
    const std::vector<std::string>& reference) const {
  ASSIGN_OR_RETURN(std::vector<std::string> contents, Read());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    auto name = [&] {
      for (const View& view : views_)
        if (view.piece == i) return view.name;
      return std::string("?");
    };
    std::string before(piece.lead, '\0'), behind(kMargin, '\0');
    RETURN_IF_ERROR(ReadAll(*piece.mirror, 0, before.data(), before.size()));
    RETURN_IF_ERROR(
        ReadAll(*piece.mirror, piece.lead + piece.snapshot.size(), behind.data(), kMargin));
    if (size_t last = behind.find_last_not_of(kMarginByte); last != std::string::npos)
      return absl::StrCat("out of bounds: wrote up to ", last + 1,
                          " bytes behind the end of tensor '", name(), "'");
    if (size_t first = before.find_first_not_of(kMarginByte); first != std::string::npos)
      return absl::StrCat("out of bounds: wrote up to ", before.size() - first,
                          " bytes before the begin of tensor '", name(), "'");
  }
  for (const View& view : views_) {
    auto part = [&](const std::string& content) {
      return absl::MakeConstSpan(content.data() + view.offset, static_cast<size_t>(view.bytes));
    };
    std::string difference =
        DescribeDifference(view.dtype, part(reference[view.piece]), part(contents[view.piece]));
    if (!difference.empty())
      return absl::StrCat("wrong result in tensor '", view.name, "': ", difference);
  }
  return std::string();
}

}  // namespace tessera::server
