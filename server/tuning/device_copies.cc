// ScratchCopies in memory of the tuning executor.
#include <algorithm>
#include <cmath>
#include <optional>
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
    std::vector<ComparedRange> ranges = ExactRanges();
    for (size_t i = 0; i < views_.size(); ++i)
      if (std::optional<ComparedRange> range = FloatRange(i)) ranges.push_back(*range);
    ASSIGN_OR_RETURN(comparison_, DeviceComparison::Create(parts, session, device_, ranges));
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
    std::fill(sums_.begin(), sums_.end(), std::nullopt);
    return CopyMemory(copies, device_);
  }

  absl::StatusOr<std::vector<size_t>> Suspects() override {
    const std::vector<ComparedRange> ranges = ExactRanges();
    absl::StatusOr<std::vector<DifferenceSums>> sums = Compare(ranges);
    // What differs in its bits may agree up to rounding.
    std::vector<size_t> rounded;
    for (size_t i = 0; sums.ok() && i < views_.size(); ++i)
      if ((*sums)[i].wrong != 0 && FloatRange(i)) rounded.push_back(i);
    absl::StatusOr<std::vector<bool>> agrees = AgreeAsFloats(rounded);
    std::vector<size_t> suspects;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      bool all = sums.ok() && agrees.ok();
      for (size_t at = 0; all && at < ranges.size(); ++at) {
        if (ranges[at].got.region != pieces_[i].ours || (*sums)[at].wrong == 0) continue;
        const auto as_float = std::find(rounded.begin(), rounded.end(), at);
        all = as_float != rounded.end() && (*agrees)[as_float - rounded.begin()];
      }
      if (!all) suspects.push_back(i);
    }
    return suspects;
  }
  bool MarginsIntact() override {
    std::vector<ComparedRange> ranges;
    AddMargins(&ranges);
    absl::StatusOr<std::vector<DifferenceSums>> sums = Compare(ranges);
    return sums.ok() && std::all_of(sums->begin(), sums->end(),
                                    [](const DifferenceSums& one) { return one.wrong == 0; });
  }
  bool suspects_differ() const override {
    for (size_t i = 0; i < views_.size(); ++i)
      if (IsFloat(views_[i].dtype) && !FloatRange(i)) return false;
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

  // The bits from `begin` to `end`, bytes into both.
  static ComparedRange ExactRange(RegionPlace want, RegionPlace got, uint64_t begin, uint64_t end) {
    ComparedRange range = {std::move(want), std::move(got), begin, end};
    range.words = begin % 8 == 0 && end % 8 == 0;
    if (range.words) range.begin /= 8, range.end /= 8;
    return range;
  }

  // The views, which cover their pieces, in their order; and the margins, as they were made.
  std::vector<ComparedRange> ExactRanges() const {
    std::vector<ComparedRange> ranges;
    for (const ScratchView& view : views_) {
      const ScratchPiece& piece = pieces_[view.piece];
      const uint64_t begin = piece.lead + view.offset;
      ranges.push_back(ExactRange({vault_, slots_[view.piece].reference}, {piece.ours, 0}, begin,
                                  begin + view.bytes));
    }
    AddMargins(&ranges);
    return ranges;
  }

  void AddMargins(std::vector<ComparedRange>* ranges) const {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const ScratchPiece& piece = pieces_[i];
      const RegionPlace made = {vault_, slots_[i].snapshot}, now = {piece.ours, 0};
      ranges->push_back(ExactRange(made, now, 0, piece.lead));
      ranges->push_back(ExactRange(made, now, piece.end(), piece.size()));
    }
  }

  // A view's elements; nothing where they cannot be compared but for equality.
  std::optional<ComparedRange> FloatRange(size_t index) const {
    const ScratchView& view = views_[index];
    const ScratchPiece& piece = pieces_[view.piece];
    const uint64_t element = static_cast<uint64_t>(ByteSize(view.dtype));
    const uint64_t begin = piece.lead + view.offset, end = begin + view.bytes;
    const double norm = sums_[index] ? sums_[index]->norm : 0;
    if (!DeviceComparison::Covers(view.dtype) || begin % element != 0 || end % element != 0 ||
        !std::isfinite(norm))
      return std::nullopt;
    ComparedRange range = {{vault_, slots_[view.piece].reference}, {piece.ours, 0}, begin / element,
                           end / element, view.dtype};
    if (view.bytes > 0)
      range.root_mean_square = std::sqrt(norm / static_cast<double>(view.bytes / element));
    return range;
  }

  // Of some views: whether they are the reference up to rounding.
  absl::StatusOr<std::vector<bool>> AgreeAsFloats(const std::vector<size_t>& views) {
    // The reference with itself: what its sums are.
    std::vector<size_t> unknown;
    std::vector<ComparedRange> ranges;
    for (size_t i : views) {
      if (sums_[i]) continue;
      unknown.push_back(i);
      ranges.push_back(*FloatRange(i));
      ranges.back().got = ranges.back().want;
    }
    if (!unknown.empty()) {
      ASSIGN_OR_RETURN(const std::vector<DifferenceSums> sums, Compare(ranges));
      for (size_t i = 0; i < unknown.size(); ++i) sums_[unknown[i]] = sums[i];
    }
    std::vector<bool> agree(views.size(), false);
    std::vector<size_t> compared;
    ranges.clear();
    for (size_t i = 0; i < views.size(); ++i) {
      std::optional<ComparedRange> range = FloatRange(views[i]);
      if (!range) continue;
      compared.push_back(i);
      ranges.push_back(*std::move(range));
    }
    if (ranges.empty()) return agree;
    ASSIGN_OR_RETURN(const std::vector<DifferenceSums> sums, Compare(ranges));
    for (size_t i = 0; i < compared.size(); ++i)
      agree[compared[i]] = SumsAgree(*ranges[i].floats, sums[i]);
    return agree;
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
  std::vector<std::optional<DifferenceSums>> sums_;  // of the reference, by view; once they are needed
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
