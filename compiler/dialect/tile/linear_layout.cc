#include "compiler/dialect/tile/linear_layout.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace tessera::tile {

using llvm::ArrayRef;

namespace {

int64_t StrideOf(ArrayRef<int64_t> shape, int dim) {
  int64_t stride = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d > dim; --d) stride *= shape[d];
  return stride;
}

// Hands out basis vectors along each dimension, smallest step first; 0 once a dimension is covered.
class Cursor {
 public:
  explicit Cursor(ArrayRef<int64_t> shape) : shape_(shape), next_(shape.size(), 1) {}
  void Take(int dim, int64_t extent, LinearLayout::Bases* bases) {
    for (int64_t taken = 1; taken < extent; taken *= 2) {
      bases->push_back(next_[dim] < shape_[dim] ? static_cast<int32_t>(next_[dim] * StrideOf(shape_, dim)) : 0);
      next_[dim] *= 2;
    }
  }
  // Starts behind an extent that was covered elsewhere.
  void Skip(int dim, int64_t extent) { next_[dim] = extent; }
  void TakeRest(int dim, LinearLayout::Bases* bases) {
    if (next_[dim] < shape_[dim]) Take(dim, shape_[dim] / next_[dim], bases);
  }

 private:
  ArrayRef<int64_t> shape_;
  llvm::SmallVector<int64_t, 4> next_;
};

}  // namespace

int32_t BitSpace::Reduce(int32_t vector) const {
  for (int32_t v : vectors_) vector = std::min<uint32_t>(vector, vector ^ v);
  return vector;
}

bool BitSpace::Add(int32_t vector) {
  vector = Reduce(vector);
  if (vector == 0) return false;
  int32_t lead = static_cast<int32_t>(llvm::bit_floor(static_cast<uint32_t>(vector)));
  for (int32_t& v : vectors_)
    if (v & lead) v ^= vector;
  vectors_.push_back(vector);
  return true;
}

LinearLayout::LinearLayout(ArrayRef<int64_t> shape, std::array<Bases, kInputs> bases)
    : shape_(shape.begin(), shape.end()), bases_(std::move(bases)) {
  BitSpace space;
  Bases independent;
  for (int32_t basis : bases_[kRegister])
    if (space.Add(basis)) independent.push_back(basis);
  bases_[kRegister] = std::move(independent);
}

LinearLayout LinearLayout::Blocked(ArrayRef<int64_t> shape, ArrayRef<int64_t> per_thread, ArrayRef<int64_t> lanes,
                                   ArrayRef<int64_t> warps, ArrayRef<int32_t> order) {
  std::array<Bases, kInputs> bases;
  Cursor cursor(shape);
  for (int d : order) cursor.Take(d, per_thread[d], &bases[kRegister]);
  for (int d : order) cursor.Take(d, lanes[d], &bases[kLane]);
  for (int d : order) cursor.Take(d, warps[d], &bases[kWarp]);
  for (int d : order) cursor.TakeRest(d, &bases[kRegister]);
  return LinearLayout(shape, std::move(bases));
}

LinearLayout LinearLayout::Coalesced(ArrayRef<int64_t> shape, int64_t run, int num_warps, ArrayRef<int32_t> order) {
  int rank = static_cast<int>(shape.size());
  Coordinates per_thread(rank, 1), lanes(rank, 1), warps(rank, 1);
  if (rank == 0) return LinearLayout(shape, {Bases(), Bases(5, 0), Bases(llvm::Log2_64(num_warps), 0), Bases()});
  // Rather all threads busy with short runs than few with long ones.
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  run = std::min(run, std::max<int64_t>(1, elements / (32 * num_warps)));
  per_thread[order[0]] = std::min(run, shape[order[0]]);
  int64_t lanes_left = 32, warps_left = num_warps;
  for (int d : order) {
    lanes[d] = std::min(lanes_left, shape[d] / per_thread[d]);
    lanes_left /= lanes[d];
  }
  lanes[order[rank - 1]] *= lanes_left;
  for (int i = rank - 1; i >= 0; --i) {
    int d = order[i];
    warps[d] = std::min(warps_left, std::max<int64_t>(1, shape[d] / (per_thread[d] * lanes[d])));
    warps_left /= warps[d];
  }
  warps[order[rank - 1]] *= warps_left;
  return Blocked(shape, per_thread, lanes, warps, order);
}

LinearLayout LinearLayout::Tiled(const LinearLayout& fragment, ArrayRef<int64_t> shape, ArrayRef<int64_t> warps, ArrayRef<int32_t> order) {
  std::array<Bases, kInputs> bases;
  Cursor cursor(shape);
  for (Input input : {kRegister, kLane}) {
    for (int32_t basis : fragment.bases(input)) {
      Coordinates at = fragment.CoordinatesOf(basis);
      int64_t flat = 0;
      for (int d = 0; d < fragment.rank(); ++d)
        if (at[d] < shape[d]) flat += at[d] * StrideOf(shape, d);
      bases[input].push_back(static_cast<int32_t>(flat));
    }
  }
  for (int d = 0; d < fragment.rank(); ++d) cursor.Skip(d, fragment.shape()[d]);
  for (int d : order) cursor.Take(d, warps[d], &bases[kWarp]);
  for (int d : order) cursor.TakeRest(d, &bases[kRegister]);
  return LinearLayout(shape, std::move(bases));
}

LinearLayout LinearLayout::Swizzled(ArrayRef<int64_t> shape, int64_t vector, int64_t per_phase, int64_t max_phase) {
  int64_t columns = shape.back(), elements = 1;
  for (int64_t extent : shape) elements *= extent;
  std::array<Bases, kInputs> bases;
  for (int64_t step = 1; step < elements; step *= 2) {
    int64_t flat = step;
    if (step >= columns) flat ^= ((step / columns / per_phase) % max_phase * vector) % columns;
    bases[kRegister].push_back(static_cast<int32_t>(flat));
  }
  return LinearLayout(shape, std::move(bases));
}

int64_t LinearLayout::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape_) n *= extent;
  return n;
}

int32_t LinearLayout::ApplyTo(Input input, int32_t value) const {
  int32_t flat = 0;
  for (auto [i, basis] : llvm::enumerate(bases_[input]))
    if (value >> i & 1) flat ^= basis;
  return flat;
}

int32_t LinearLayout::Apply(int32_t reg, int32_t lane, int32_t warp, int32_t block) const {
  return ApplyTo(kRegister, reg) ^ ApplyTo(kLane, lane) ^ ApplyTo(kWarp, warp) ^ ApplyTo(kBlock, block);
}

int64_t LinearLayout::Stride(int dim) const { return StrideOf(shape_, dim); }

LinearLayout::Coordinates LinearLayout::CoordinatesOf(int32_t flat) const {
  Coordinates at(rank());
  for (int d = rank() - 1; d >= 0; --d) {
    at[d] = flat % shape_[d];
    flat = static_cast<int32_t>(flat / shape_[d]);
  }
  return at;
}

int32_t LinearLayout::FlatOf(ArrayRef<int64_t> coordinates) const {
  int64_t flat = 0;
  for (int d = 0; d < rank(); ++d) flat = flat * shape_[d] + coordinates[d];
  return static_cast<int32_t>(flat);
}

bool LinearLayout::IsSurjective() const {
  BitSpace space;
  for (const Bases& bases : bases_)
    for (int32_t basis : bases) space.Add(basis);
  return int64_t{1} << space.rank() == elements();
}

int32_t LinearLayout::FreeBits(Input input) const {
  BitSpace space;
  for (int other = 0; other < input; ++other)
    for (int32_t basis : bases_[other]) space.Add(basis);
  int32_t free = 0;
  for (auto [i, basis] : llvm::enumerate(bases_[input]))
    if (!space.Add(basis)) free |= 1 << i;
  return free;
}

bool LinearLayout::IsDisjoint() const {
  int32_t seen = 0;
  for (const Bases& bases : bases_) {
    for (int32_t basis : bases) {
      if (seen & basis) return false;
      seen |= basis;
    }
  }
  return true;
}

std::optional<int32_t> LinearLayout::FindRegister(int32_t flat) const {
  // Elimination over the register bases, which are independent.
  llvm::SmallVector<std::pair<int32_t, int32_t>, 8> reduced;  // vector, registers that make it
  for (auto [i, basis] : llvm::enumerate(bases_[kRegister])) {
    int32_t vector = basis, made_of = 1 << i;
    for (auto [v, m] : reduced) {
      if (static_cast<uint32_t>(vector ^ v) < static_cast<uint32_t>(vector)) {
        vector ^= v;
        made_of ^= m;
      }
    }
    int32_t lead = static_cast<int32_t>(llvm::bit_floor(static_cast<uint32_t>(vector)));
    for (auto& [v, m] : reduced) {
      if (v & lead) {
        v ^= vector;
        m ^= made_of;
      }
    }
    reduced.push_back({vector, made_of});
  }
  int32_t reg = 0;
  for (auto [v, m] : reduced) {
    if (static_cast<uint32_t>(flat ^ v) < static_cast<uint32_t>(flat)) {
      flat ^= v;
      reg ^= m;
    }
  }
  if (flat != 0) return std::nullopt;
  return reg;
}

int32_t LinearLayout::Vector::Register(int32_t first, int64_t i) const {
  for (auto [bit, reg] : llvm::enumerate(register_bits))
    if (i >> bit & 1) first ^= 1 << reg;
  return first;
}

int32_t LinearLayout::Vector::Mask() const {
  int32_t mask = 0;
  for (int32_t bit : register_bits) mask |= 1 << bit;
  return mask;
}

LinearLayout::Vector LinearLayout::VectorAlong(int dim, int64_t limit) const {
  Vector vector;
  if (rank() == 0) return vector;
  int64_t stride = Stride(dim);
  while (vector.size * 2 <= std::min(limit, shape_[dim])) {
    int32_t step = static_cast<int32_t>(vector.size * stride);
    const auto* found = llvm::find(bases_[kRegister], step);
    if (found == bases_[kRegister].end()) break;
    // No other basis may move inside the vector.
    bool alone = true;
    for (const Bases& bases : bases_)
      for (const int32_t& basis : bases) alone &= &basis == found || !(basis & step);
    if (!alone) break;
    vector.register_bits.push_back(static_cast<int32_t>(found - bases_[kRegister].begin()));
    vector.size *= 2;
  }
  return vector;
}

namespace {

template <typename F>
std::array<LinearLayout::Bases, LinearLayout::kInputs> MapBases(const LinearLayout& layout, F map) {
  std::array<LinearLayout::Bases, LinearLayout::kInputs> bases;
  for (int input = 0; input < LinearLayout::kInputs; ++input)
    for (int32_t basis : layout.bases(static_cast<LinearLayout::Input>(input))) bases[input].push_back(map(basis));
  return bases;
}

}  // namespace

LinearLayout LinearLayout::Reshaped(ArrayRef<int64_t> shape) const { return LinearLayout(shape, bases_); }

LinearLayout LinearLayout::Transposed(ArrayRef<int32_t> order) const {
  LinearLayout result;
  for (int32_t d : order) result.shape_.push_back(shape_[d]);
  return LinearLayout(result.shape_, MapBases(*this, [&](int32_t basis) {
                        Coordinates from = CoordinatesOf(basis), to(order.size());
                        for (auto [i, d] : llvm::enumerate(order)) to[i] = from[d];
                        return result.FlatOf(to);
                      }));
}

LinearLayout LinearLayout::Sliced(int axis) const {
  LinearLayout result;
  result.shape_ = shape_;
  result.shape_.erase(result.shape_.begin() + axis);
  return Collapsed(axis).Reshaped(result.shape_);
}

LinearLayout LinearLayout::Collapsed(int axis) const {
  LinearLayout result;
  result.shape_ = shape_;
  result.shape_[axis] = 1;
  return LinearLayout(result.shape_, MapBases(*this, [&](int32_t basis) {
                        Coordinates at = CoordinatesOf(basis);
                        at[axis] = 0;
                        return result.FlatOf(at);
                      }));
}

LinearLayout LinearLayout::Expanded(int axis) const {
  llvm::SmallVector<int64_t, 4> shape = shape_;
  shape.insert(shape.begin() + axis, 1);
  return Reshaped(shape);
}

LinearLayout LinearLayout::CollapsedTo(ArrayRef<int64_t> shape) const {
  LinearLayout result = *this;
  for (int d = 0; d < rank(); ++d)
    if (shape[d] != result.shape_[d]) result = result.Collapsed(d);
  return result;
}

LinearLayout LinearLayout::Joined() const {
  llvm::SmallVector<int64_t, 4> shape = shape_;
  shape.push_back(2);
  auto bases = MapBases(*this, [](int32_t basis) { return basis * 2; });
  bases[kRegister].insert(bases[kRegister].begin(), 1);
  return LinearLayout(shape, std::move(bases));
}

std::optional<LinearLayout> LinearLayout::Split() const {
  if (rank() == 0 || shape_.back() != 2) return std::nullopt;
  for (int input = 0; input < kInputs; ++input)
    for (int32_t basis : bases_[input])
      if ((basis & 1) && (input != kRegister || basis != 1)) return std::nullopt;
  if (!llvm::is_contained(bases_[kRegister], 1)) return std::nullopt;
  return LinearLayout(ArrayRef<int64_t>(shape_).drop_back(), MapBases(*this, [](int32_t basis) { return basis >> 1; }));
}

LinearLayout LinearLayout::Concatenated() const {
  auto bases = bases_;
  bases[kRegister].push_back(static_cast<int32_t>(shape_[0]));
  return LinearLayout({shape_[0] * 2}, std::move(bases));
}

llvm::raw_ostream& operator<<(llvm::raw_ostream& out, const LinearLayout& layout) {
  static constexpr const char* kNames[] = {"register", "lane", "warp", "block"};
  for (int input = 0; input < LinearLayout::kInputs; ++input) {
    out << (input ? ", " : "") << kNames[input] << " = [";
    llvm::interleaveComma(layout.bases(static_cast<LinearLayout::Input>(input)), out);
    out << "]";
  }
  return out;
}

}  // namespace tessera::tile
