// ScratchCopies in the daemon's own memory.
#include <utility>

#include "base/status_macros.h"
#include "server/tuning/host_window.h"
#include "server/tuning/scratch_copies.h"

namespace tessera::server {
namespace {

// The copy itself, the snapshot, the reference, and what is compared with it.
constexpr uint64_t kCopies = 4;

class HostCopies : public ScratchCopies {
 public:
  HostCopies(const std::vector<ScratchPiece>& pieces, SessionRegistry* sessions)
      : pieces_(pieces), window_(sessions), snapshots_(pieces.size()), references_(pieces.size()) {}

  absl::Status TakeSnapshot() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      snapshots_[i].resize(pieces_[i].bytes);
      RETURN_IF_ERROR(window_.Read({pieces_[i].theirs, pieces_[i].begin}, pieces_[i].bytes,
                                   snapshots_[i].data()));
    }
    return absl::OkStatus();
  }

  absl::Status Restore(const std::vector<size_t>& pieces) override {
    for (size_t i : pieces) {
      const ScratchPiece& piece = pieces_[i];
      std::string content(piece.lead, kMarginByte);
      if (piece.zeroed || piece.poisoned)
        content.append(piece.bytes, piece.zeroed ? '\0' : kPoisonByte);
      else
        content += snapshots_[i];
      content.append(kScratchMargin, kMarginByte);
      RETURN_IF_ERROR(window_.Write(content.data(), content.size(), {piece.ours, 0}));
    }
    return absl::OkStatus();
  }

  absl::Status KeepReference() override {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      references_[i].resize(pieces_[i].bytes);
      RETURN_IF_ERROR(window_.Read({pieces_[i].ours, pieces_[i].lead}, pieces_[i].bytes,
                                   references_[i].data()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<size_t>> Suspects() override {
    std::vector<size_t> all;
    for (size_t i = 0; i < pieces_.size(); ++i) all.push_back(i);
    return all;
  }
  bool MarginsIntact() override { return false; }
  bool suspects_differ() const override { return false; }
  bool exposed() const override { return false; }

  absl::StatusOr<std::string> Contents(size_t piece) override {
    std::string contents(pieces_[piece].size(), '\0');
    RETURN_IF_ERROR(window_.Read({pieces_[piece].ours, 0}, contents.size(), contents.data()));
    return contents;
  }
  absl::StatusOr<std::string> Reference(size_t piece) override { return references_[piece]; }

 private:
  const std::vector<ScratchPiece>& pieces_;
  HostWindow window_;
  std::vector<std::string> snapshots_, references_;
};

}  // namespace

uint64_t HostCopiesBytes(const std::vector<ScratchPiece>& pieces) {
  uint64_t bytes = 0;
  for (const ScratchPiece& piece : pieces) bytes += kCopies * piece.bytes;
  return bytes;
}

absl::StatusOr<std::unique_ptr<ScratchCopies>> MakeHostCopies(
    const std::vector<ScratchPiece>& pieces, SessionRegistry* sessions) {
  auto copies = std::make_unique<HostCopies>(pieces, sessions);
  RETURN_IF_ERROR(copies->TakeSnapshot());
  return copies;
}

}  // namespace tessera::server
