// ScratchCopies in memory of the tuning executor.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "server/session/memory_copy.h"
#include "server/session/memory_import.h"
#include "server/tuning/host_window.h"
#include "server/tuning/scratch_copies.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

constexpr uint64_t kAlignment = 256;  // as ComparedRange wants it

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class DeviceCopies : public ScratchCopies {
 public:
  DeviceCopies(const std::vector<ScratchPiece>& pieces, const std::vector<ScratchView>& views,
               SessionRegistry* sessions, Device* device)
      : pieces_(pieces), views_(views), device_(device), window_(sessions) {
    for (const ScratchPiece& piece : pieces_) {
      slots_.push_back({end_, end_ + Aligned(piece.size())});
      end_ += 2 * Aligned(piece.size());
      poison_bytes_ = std::max(poison_bytes_, piece.bytes);
    }
    poison_ = end_;
    end_ += Aligned(poison_bytes_);
    sums_.resize(views_.size());
  }

  absl::Status Make(DeviceComparison::Parts parts, Session* session) {
    ASSIGN_OR_RETURN(vault_, AllocateMemory(parts.sessions, session, device_, end_));
    // First: its compiles go on meanwhile.
    ASSIGN_OR_RETURN(comparison_, DeviceComparison::Create(parts, session, device_, AllRanges()));
    for (size_t i = 0; i < pieces_.size(); ++i) RETURN_IF_ERROR(TakeSnapshot(i));
    return absl::OkStatus();
  }

  absl::Status Restore(const std::vector<size_t>& pieces) override {
    std::vector<MemoryCopy> copies;
    for (size_t i : pieces) {
      const ScratchPiece& piece = pieces_[i];
      const uint64_t snapshot = slots_[i].snapshot;
      if (!piece.poisoned) {
        copies.push_back({{vault_, snapshot}, {piece.ours, 0}, piece.size()});
        continue;
      }
      RETURN_IF_ERROR(MakePoison());
      copies.push_back({{vault_, snapshot}, {piece.ours, 0}, piece.lead});
      copies.push_back({{vault_, poison_}, {piece.ours, piece.lead}, piece.bytes});
      copies.push_back(
          {{vault_, snapshot + piece.end()}, {piece.ours, piece.end()}, kScratchMargin});
    }
    return CopyMemory(copies, device_);
  }

  absl::Status KeepReference() override {
    std::vector<MemoryCopy> copies;
    for (size_t i = 0; i < pieces_.size(); ++i)
      copies.push_back({{pieces_[i].ours, 0}, {vault_, slots_[i].reference}, pieces_[i].size()});
    RETURN_IF_ERROR(CopyMemory(copies, device_));
    // With itself: what its sums are.
    std::vector<ComparedRange> ranges;
    for (size_t i = 0; i < views_.size(); ++i) {
      ranges.push_back(RangeOf(i));
      ranges.back().got = ranges.back().want;
    }
    absl::StatusOr<std::vector<DifferenceSums>> sums = Compare(ranges);
    if (sums.ok()) sums_ = *std::move(sums);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<size_t>> Suspects() override {
    const std::vector<ComparedRange> ranges = AllRanges();
    absl::StatusOr<std::vector<DifferenceSums>> sums = Compare(ranges);
    std::vector<size_t> suspects;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      bool agrees = sums.ok();
      for (size_t at = 0; agrees && at < ranges.size(); ++at)
        if (ranges[at].got.region == pieces_[i].ours)
          agrees = ranges[at].floats ? SumsAgree(*ranges[at].floats, (*sums)[at])
                                     : (*sums)[at].wrong == 0;
      if (!agrees) suspects.push_back(i);
    }
    return suspects;
  }
  bool suspects_differ() const override {
    for (size_t i = 0; i < views_.size(); ++i)
      if (IsFloat(views_[i].dtype) && !RangeOf(i).floats) return false;
    return works_;
  }
  bool exposed() const override { return true; }

  absl::StatusOr<std::string> Contents(size_t piece) override {
    std::string contents(pieces_[piece].size(), '\0');
    RETURN_IF_ERROR(window_.Read({pieces_[piece].ours, 0}, contents.size(), contents.data()));
    return contents;
  }
  absl::StatusOr<std::string> Reference(size_t piece) override {
    std::string reference(pieces_[piece].bytes, '\0');
    RETURN_IF_ERROR(window_.Read({vault_, slots_[piece].reference + pieces_[piece].lead},
                                 reference.size(), reference.data()));
    return reference;
  }

 private:
  struct Slot {
    uint64_t snapshot, reference;  // bytes into the vault; pieces with their margins
  };

  absl::Status TakeSnapshot(size_t i) {
    const ScratchPiece& piece = pieces_[i];
    const uint64_t at = slots_[i].snapshot;
    RETURN_IF_ERROR(window_.Fill(kMarginByte, piece.lead, {vault_, at}));
    RETURN_IF_ERROR(window_.Fill(kMarginByte, kScratchMargin, {vault_, at + piece.end()}));
    if (piece.zeroed) return absl::OkStatus();  // as new memory is
    return window_.Copy({piece.theirs, piece.begin}, {vault_, at + piece.lead}, piece.bytes);
  }

  absl::Status MakePoison() {
    if (poison_made_) return absl::OkStatus();
    RETURN_IF_ERROR(window_.Fill(kPoisonByte, poison_bytes_, {vault_, poison_}));
    poison_made_ = true;
    return absl::OkStatus();
  }

  ComparedRange RangeOf(size_t index) const {
    const ScratchView& view = views_[index];
    const ScratchPiece& piece = pieces_[view.piece];
    ComparedRange range;
    range.want = {vault_, slots_[view.piece].reference};
    range.got = {piece.ours, 0};
    range.begin = piece.lead + view.offset;
    range.end = range.begin + view.bytes;
    const uint64_t element = static_cast<uint64_t>(ByteSize(view.dtype));
    const double norm = sums_[index].norm;
    if (!DeviceComparison::Covers(view.dtype) || range.begin % element != 0 ||
        range.end % element != 0 || !std::isfinite(norm))
      return range;
    range.floats = view.dtype;
    range.begin /= element;
    range.end /= element;
    if (view.bytes > 0)
      range.root_mean_square = std::sqrt(norm / static_cast<double>(view.bytes / element));
    return range;
  }

  // The views, which cover their pieces; and the margins, as they were made.
  std::vector<ComparedRange> AllRanges() const {
    std::vector<ComparedRange> ranges;
    for (size_t i = 0; i < views_.size(); ++i) ranges.push_back(RangeOf(i));
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const ScratchPiece& piece = pieces_[i];
      const RegionPlace made = {vault_, slots_[i].snapshot}, now = {piece.ours, 0};
      ranges.push_back({made, now, 0, piece.lead});
      ranges.push_back({made, now, piece.end(), piece.size()});
    }
    return ranges;
  }

  absl::StatusOr<std::vector<DifferenceSums>> Compare(const std::vector<ComparedRange>& ranges) {
    if (!works_) return absl::UnavailableError("results are compared on the host");
    absl::StatusOr<std::vector<DifferenceSums>> sums = comparison_->Run(ranges);
    if (!sums.ok()) {
      works_ = false;
      spdlog::warn("tuning on {}: results are compared on the host: {}", device_->name(),
                   sums.status().ToString());
    }
    return sums;
  }

  const std::vector<ScratchPiece>& pieces_;
  const std::vector<ScratchView>& views_;
  Device* const device_;
  HostWindow window_;
  std::vector<Slot> slots_;  // by piece
  uint64_t end_ = 0, poison_ = 0, poison_bytes_ = 0;
  std::shared_ptr<Region> vault_;
  std::unique_ptr<DeviceComparison> comparison_;
  std::vector<DifferenceSums> sums_;  // of the reference, by view
  bool poison_made_ = false, works_ = true;
};

}  // namespace

// The copy, the snapshot and the reference of each; the poison, and, where a candidate is wrong,
// what the host fetches to say how: of one at a time.
uint64_t DeviceCopiesBytes(const std::vector<ScratchPiece>& pieces) {
  uint64_t bytes = 0, largest = 0;
  for (const ScratchPiece& piece : pieces) {
    bytes += 3 * piece.bytes;
    largest = std::max(largest, piece.bytes);
  }
  return bytes + 3 * largest;
}

absl::StatusOr<std::unique_ptr<ScratchCopies>> MakeDeviceCopies(
    const std::vector<ScratchPiece>& pieces, const std::vector<ScratchView>& views,
    DeviceComparison::Parts parts, Session* session, Device* device) {
  auto copies = std::make_unique<DeviceCopies>(pieces, views, parts.sessions, device);
  RETURN_IF_ERROR(copies->Make(parts, session));
  return copies;
}

}  // namespace tessera::server
