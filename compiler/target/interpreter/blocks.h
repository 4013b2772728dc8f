// Instructions that move or combine the elements of whole blocks.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_BLOCKS_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_BLOCKS_H_

#include <vector>

#include "compiler/target/interpreter/program.h"

namespace tessera::interpreter {

struct Range : Instruction {
  int result = kNoSlot;
  int32_t start = 0, end = 0;
  bool Run(Frame& frame) const override;
};

// One element to every lane.
struct Splat : Instruction {
  int source = kNoSlot, result = kNoSlot, bytes = 4;
  int64_t lanes = 1;
  bool Run(Frame& frame) const override;
};

// result[i0, i1, ...] = source[i0 * strides[0] + i1 * strides[1] + ...]: broadcasts and permutations.
struct Strided : Instruction {
  int source = kNoSlot, result = kNoSlot, bytes = 4;
  std::vector<int64_t> shape, strides;  // of the result; strides in elements of the source
  bool Run(Frame& frame) const override;
};

struct Join : Instruction {
  int lhs = kNoSlot, rhs = kNoSlot, result = kNoSlot, bytes = 4;
  int64_t lanes = 1;  // of each operand
  bool concatenate = false;  // else interleave
  bool Run(Frame& frame) const override;
};
struct Split : Instruction {
  int source = kNoSlot, lhs = kNoSlot, rhs = kNoSlot, bytes = 4;
  int64_t lanes = 1;  // of each result
  bool Run(Frame& frame) const override;
};

// How the operands of a dot on fp32 are split before they are multiplied.
enum class DotPrecision { kIeee, kTf32, kTf32x3, kBf16x3, kBf16x6 };

// c + a @ b. Small floats and fp32 accumulate in fp32 in the order of k, fp64 in fp64, integers in int32 or int64.
struct Dot : Instruction {
  SlotUse a, b, c;
  int result = kNoSlot;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  DotPrecision precision = DotPrecision::kIeee;
  bool Run(Frame& frame) const override;
 private:
  template <typename F> void RunFloat(Frame& frame) const;
  void RunInteger(Frame& frame) const;
};

// A region that combines (or maps) scalars. With `by_lanes` its code works on arrays of frame.region_lanes elements;
// else it is run once for each lane, with control flow in it.
struct Region {
  Code code;
  std::vector<SlotUse> arguments, results;  // as many lanes as the region can take at once
  bool by_lanes = true;

  // Combines (or maps) `lanes` elements: argument i is read from in[i], result i written to out[i].
  bool Apply(Frame& frame, const std::vector<const uint8_t*>& in, const std::vector<uint8_t*>& out, int64_t lanes) const;
};

// The operands are [outer, extent, inner] and are combined along the middle.
struct Reduce : Instruction {
  Region region;
  std::vector<SlotUse> sources;
  std::vector<int> results, left, right;  // left, right: scratch slots, half of each operand
  int64_t outer = 1, extent = 1, inner = 1;
  bool ordered = false;  // one by one from the first element; else neighbours in a tree, which keeps their order too
  bool Run(Frame& frame) const override;
};

struct Scan : Instruction {
  Region region;
  std::vector<SlotUse> sources;
  std::vector<int> results, prefix, next;  // prefix, next: scratch slots of outer * inner elements
  int64_t outer = 1, extent = 1, inner = 1;
  bool reverse = false;
  bool Run(Frame& frame) const override;
};

struct Map : Instruction {
  Region region;
  std::vector<int> sources, results;
  int64_t lanes = 1;
  bool Run(Frame& frame) const override;
};

struct Sort : Instruction {
  SlotUse source;
  int result = kNoSlot;
  int64_t extent = 1;  // of the last dimension
  bool descending = false, is_unsigned = false;
  bool Run(Frame& frame) const override;
};

// result[o, i, n] = source[o, index[o, i, n], n].
struct Gather : Instruction {
  SlotUse source, index;
  int result = kNoSlot;
  int64_t outer = 1, source_extent = 1, index_extent = 1, inner = 1;
  bool Run(Frame& frame) const override;
};

struct Histogram : Instruction {
  SlotUse source;
  int mask = kNoSlot, result = kNoSlot;
  int64_t bins = 1;
  bool Run(Frame& frame) const override;
};

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_BLOCKS_H_
