// Where the elements of a block live: a linear map over F2 from the bits of (register, lane, warp, block) to elements.
//
// Extents are powers of two, so an element is the bits of its row-major index, and the element at (r, l, w, b) is the XOR
// of one basis vector for each bit set in r, l, w and b. A basis vector is itself a row-major index ("flat"). A zero or
// dependent basis means replication: several places hold the same element. Reshaping keeps the bases as they are.
//
// For shared memory `register` stands for the offset in elements and the other inputs are empty.
//
// Layouts are canonical: register bases are independent of one another, so no thread holds an element twice. Follows "Linear Layouts" (arXiv 2505.23819).
#ifndef TESSERA_COMPILER_DIALECT_TILE_LINEAR_LAYOUT_H_
#define TESSERA_COMPILER_DIALECT_TILE_LINEAR_LAYOUT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera::tile {

class LinearLayout {
 public:
  enum Input : int { kRegister = 0, kLane = 1, kWarp = 2, kBlock = 3 };
  static constexpr int kInputs = 4;
  using Bases = llvm::SmallVector<int32_t, 8>;
  using Coordinates = llvm::SmallVector<int64_t, 4>;

  LinearLayout() = default;
  // Flat basis vectors for each input. Dependent register bases are dropped.
  LinearLayout(llvm::ArrayRef<int64_t> shape, std::array<Bases, kInputs> bases);

  //===-- constructors --------------------------------------------------------------------------===//

  // Each thread holds `per_thread` neighbouring elements along each dimension, a warp `lanes` threads, the program
  // `warps` warps (products: 32 lanes, the number of warps); what is left of the shape repeats in registers, what is too
  // much is replicated. `order` names the dimensions, the fastest varying first.
  static LinearLayout Blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> per_thread, llvm::ArrayRef<int64_t> lanes,
                              llvm::ArrayRef<int64_t> warps, llvm::ArrayRef<int32_t> order);
  // The blocked layout that reads runs of `run` elements along order[0]: lanes along the fast dimensions, warps along the
  // slow ones.
  static LinearLayout Coalesced(llvm::ArrayRef<int64_t> shape, int64_t run, int num_warps, llvm::ArrayRef<int32_t> order);
  // A small layout of registers and lanes (an instruction's fragment), repeated over `shape`: first across `warps` warps
  // along each dimension, then in registers, both in `order`.
  static LinearLayout Tiled(const LinearLayout& fragment, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> warps,
                            llvm::ArrayRef<int32_t> order);
  // Row-major offsets in shared memory where, in runs of `per_phase` rows, groups of `vector` elements along the last
  // dimension are XORed with the phase (0 to max_phase - 1) of their row.
  static LinearLayout Swizzled(llvm::ArrayRef<int64_t> shape, int64_t vector, int64_t per_phase, int64_t max_phase);

  //===-- queries -------------------------------------------------------------------------------===//

  llvm::ArrayRef<int64_t> shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t elements() const;
  llvm::ArrayRef<int32_t> bases(Input input) const { return bases_[input]; }
  int bits(Input input) const { return static_cast<int>(bases_[input].size()); }
  int registers() const { return 1 << bits(kRegister); }
  int num_warps() const { return 1 << bits(kWarp); }
  // The flat index of the element at a place.
  int32_t Apply(int32_t reg, int32_t lane, int32_t warp, int32_t block = 0) const;
  int32_t ApplyTo(Input input, int32_t value) const;
  Coordinates CoordinatesOf(int32_t flat) const;
  int32_t FlatOf(llvm::ArrayRef<int64_t> coordinates) const;
  // Elements between neighbours along a dimension: the flat index of coordinate 1.
  int64_t Stride(int dim) const;
  // Mask of the flat bits of a dimension.
  int32_t DimMask(int dim) const { return static_cast<int32_t>((shape_[dim] - 1) * Stride(dim)); }
  // Every element is somewhere.
  bool IsSurjective() const;
  // Bits of `input` that only replicate: all places whose free bits are zero hold each element exactly once. Registers
  // come first, then lanes, warps, blocks.
  int32_t FreeBits(Input input) const;
  // No basis shares a bit with another: XOR is addition.
  bool IsDisjoint() const;
  // The register that holds the element whose part from registers is `flat`.
  std::optional<int32_t> FindRegister(int32_t flat) const;
  // As many registers as possible, at most `limit`, that hold consecutive elements along `dim`, aligned to their number:
  // one vector for each register whose bits in Mask() are clear.
  struct Vector {
    int64_t size = 1;
    llvm::SmallVector<int32_t, 4> register_bits;  // register_bits[i] steps over 2^i elements
    // The register of element `i` of the vector whose first element is in register `first`.
    int32_t Register(int32_t first, int64_t i) const;
    int32_t Mask() const;
  };
  Vector VectorAlong(int dim, int64_t limit) const;

  bool operator==(const LinearLayout& other) const { return shape_ == other.shape_ && bases_ == other.bases_; }
  bool operator!=(const LinearLayout& other) const { return !(*this == other); }

  //===-- algebra -------------------------------------------------------------------------------===//

  // The same elements in the same places under another shape, row-major order kept.
  LinearLayout Reshaped(llvm::ArrayRef<int64_t> shape) const;
  // Result dimension i is dimension order[i].
  LinearLayout Transposed(llvm::ArrayRef<int32_t> order) const;
  // Without a dimension: where the elements were, now their projection is (replicated).
  LinearLayout Sliced(int axis) const;
  // As Sliced, but the dimension stays with extent 1.
  LinearLayout Collapsed(int axis) const;
  // With a new dimension of extent 1.
  LinearLayout Expanded(int axis) const;
  // For a shape that differs by extents of 1 (the source of a broadcast).
  LinearLayout CollapsedTo(llvm::ArrayRef<int64_t> shape) const;
  // Two such blocks along a new last dimension, side by side in registers; and back (nothing where the last dimension is
  // not one register bit).
  LinearLayout Joined() const;
  std::optional<LinearLayout> Split() const;
  // Two such blocks, one behind the other along the only dimension, in registers.
  LinearLayout Concatenated() const;

 private:
  llvm::SmallVector<int64_t, 4> shape_;
  std::array<Bases, kInputs> bases_;
};

llvm::raw_ostream& operator<<(llvm::raw_ostream& out, const LinearLayout& layout);

// A basis of a space of bits, for span and rank queries.
class BitSpace {
 public:
  // False where `vector` was in the space already.
  bool Add(int32_t vector);
  bool Contains(int32_t vector) const { return Reduce(vector) == 0; }
  int rank() const { return static_cast<int>(vectors_.size()); }

 private:
  int32_t Reduce(int32_t vector) const;
  llvm::SmallVector<int32_t, 8> vectors_;  // each with a leading bit that the later ones lack
};

}  // namespace tessera::tile

#endif  // TESSERA_COMPILER_DIALECT_TILE_LINEAR_LAYOUT_H_
