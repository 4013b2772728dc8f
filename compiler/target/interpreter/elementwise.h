// Instructions that work lane by lane, and control flow.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_ELEMENTWISE_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_ELEMENTWISE_H_

#include <array>
#include <vector>

#include "compiler/target/interpreter/lanes.h"
#include "compiler/target/interpreter/program.h"

namespace tessera::interpreter {

// result = function(operands...), where operands and result have the kinds that the function works on.
struct Elementwise : Instruction {
  LaneFunction function = nullptr;
  std::array<int, 3> operands = {kNoSlot, kNoSlot, kNoSlot};
  int result = kNoSlot;
  int64_t lanes = 1;
  bool Run(Frame& frame) const override;
};

// The same on small floats: operands are widened to fp32, the result is rounded back. Operands or results of other
// kinds (an i32 exponent, the i1 of a comparison) pass as they are.
struct SmallFloatElementwise : Elementwise {
  std::array<Kind, 3> kinds = {};
  Kind result_kind = Kind::kF32;
  bool Run(Frame& frame) const override;
};

// Between float kinds.
struct FloatToFloat : Instruction {
  Kind from = Kind::kF32, to = Kind::kF32;
  bool toward_zero = false;
  int source = kNoSlot, result = kNoSlot;
  int64_t lanes = 1;
  bool Run(Frame& frame) const override;
};

// Integer to a small float, and small float to an integer, rounded once.
struct IntegerToSmallFloat : Instruction {
  LaneFunction to_double = nullptr;
  Kind from = Kind::kI32, to = Kind::kF16;
  int source = kNoSlot, result = kNoSlot;
  int64_t lanes = 1;
  bool Run(Frame& frame) const override;
};

// condition ? a : b; the condition has one lane or as many as the values.
struct Select : Instruction {
  int condition = kNoSlot, a = kNoSlot, b = kNoSlot, result = kNoSlot;
  int64_t lanes = 1;
  int bytes = 4;
  bool one_condition = false;
  bool Run(Frame& frame) const override;
};

// pointer + offset * scale.
struct AddPointer : Instruction {
  LaneFunction widen = nullptr;  // offset to 64 bits
  int pointer = kNoSlot, offset = kNoSlot, result = kNoSlot;
  int offset_bytes = 8;
  int64_t lanes = 1, scale = 1;
  bool Run(Frame& frame) const override;
};

// Bytes of one slot to another: shape changes that keep the order, bit casts.
struct Copy : Instruction {
  int source = kNoSlot, result = kNoSlot;
  int64_t lanes = 1;
  int bytes = 4;  // of one lane
  bool Run(Frame& frame) const override;
};

struct ProgramIndex : Instruction {  // program_id and num_programs
  int axis = 0, result = kNoSlot;
  int64_t lanes = 1;
  bool count = false;
  bool Run(Frame& frame) const override;
};

//===-- control flow --------------------------------------------------------------------------===//

// Copies several values at once; sources may be among the targets.
struct ParallelCopy {
  struct Move { int source, target; int64_t bytes; int temporary; };  // temporary: kNoSlot where none is needed
  std::vector<Move> moves;
  void Run(Frame& frame) const;
};

struct For : Instruction {
  SlotUse begin, end, step, index;
  ParallelCopy enter, next;  // initial values -> carried values; yielded values -> carried values
  Code body;
  bool Run(Frame& frame) const override;
};

struct While : Instruction {
  ParallelCopy enter, pass, next;  // initial -> before; before's arguments -> results; after's yield -> before
  int condition = kNoSlot;
  int64_t condition_lanes = 1;
  Code before, after;
  bool Run(Frame& frame) const override;
};

struct If : Instruction {
  int condition = kNoSlot;
  int64_t condition_lanes = 1;
  Code then_code, else_code;
  ParallelCopy then_yield, else_yield;
  bool Run(Frame& frame) const override;
};

//===-- checks and output ---------------------------------------------------------------------===//

// tile.assume and tile.assert.
struct Check : Instruction {
  int condition = kNoSlot, mask = kNoSlot;
  int64_t lanes = 1;
  std::vector<int64_t> shape;
  absl::StatusCode code = absl::StatusCode::kAborted;
  std::string sentence;
  bool Run(Frame& frame) const override;
};

// tile.hint: the value passes on after its promises were checked. Entries of 0 promise nothing.
struct CheckHint : Instruction {
  SlotUse value;
  int result = kNoSlot;
  std::vector<int64_t> shape, divisibility, contiguity, constancy;
  int64_t step = 1;  // between consecutive values: the pointee's size for pointers
  bool Run(Frame& frame) const override;
};

struct Print : Instruction {
  struct Operand { SlotUse use; std::vector<int64_t> shape; bool is_unsigned, is_pointer; };
  std::string prefix;
  bool hex = false;
  std::vector<Operand> operands;
  bool Run(Frame& frame) const override;
};

// "[3, 7]" for a lane of a block, "" for a scalar.
std::string LaneName(int64_t lane, const std::vector<int64_t>& shape);

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_ELEMENTWISE_H_
