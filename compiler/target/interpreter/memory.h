// Instructions that touch the launch's memory. Every lane is checked against the extents; masked-off lanes are not
// looked at.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_MEMORY_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_MEMORY_H_

#include <vector>

#include "compiler/target/interpreter/program.h"

namespace tessera::interpreter {

// What all accesses share.
struct Access : Instruction {
  int pointer = kNoSlot, mask = kNoSlot;
  Kind kind = Kind::kI32;  // of the pointee
  int64_t lanes = 1;
  std::vector<int64_t> shape;

 protected:
  enum class Mode { kRead, kWrite, kAtomic };
  // False: the frame's failure names the lane. Atomics must be aligned, other accesses too where extents are known.
  bool Admit(Frame& frame, uint64_t address, int64_t lane, Mode mode) const;
};

struct Load : Access {
  int other = kNoSlot, result = kNoSlot;
  bool Run(Frame& frame) const override;
 private:
  template <typename U> bool RunAs(Frame& frame) const;
};

struct Store : Access {
  int value = kNoSlot;
  bool Run(Frame& frame) const override;
 private:
  template <typename U> bool RunAs(Frame& frame) const;
};

// new = combine(old, operand), on the bits of one element.
using AtomicFunction = uint64_t (*)(uint64_t old, uint64_t operand);
enum class AtomicOp { kAnd, kOr, kXor, kAdd, kFAdd, kMax, kMin, kUMax, kUMin, kFMax, kFMin, kXchg };
// nullptr: the operation does not exist on this kind.
AtomicFunction FindAtomicFunction(AtomicOp op, Kind kind);

// A GCC memory order (__ATOMIC_RELAXED and so on).
struct AtomicRmw : Access {
  AtomicFunction function = nullptr;
  int value = kNoSlot, result = kNoSlot;
  int order = __ATOMIC_ACQ_REL;
  bool Run(Frame& frame) const override;
};

struct AtomicCas : Access {
  int compare = kNoSlot, value = kNoSlot, result = kNoSlot;
  int order = __ATOMIC_ACQ_REL;
  bool Run(Frame& frame) const override;
};

struct Barrier : Instruction {
  bool Run(Frame&) const override {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
  }
};

//===-- tensor descriptors --------------------------------------------------------------------===//

// What the slot of a descriptor holds.
struct DescriptorValue {
  static constexpr int kMaxRank = 5;
  uint64_t base;
  int64_t extent[kMaxRank], stride[kMaxRank];  // in elements
  bool nan_padding;
};

struct MakeDescriptor : Instruction {
  int base = kNoSlot, result = kNoSlot;
  std::vector<int> extents, strides;  // slots of i32 and of i64
  bool nan_padding = false;
  bool Run(Frame& frame) const override;
};

// Reads or writes the block at `indices`; `pointer` of the base is unused.
struct DescriptorAccess : Access {
  int descriptor = kNoSlot, block = kNoSlot;
  std::vector<int> indices;  // slots of i32
  bool store = false;
  AtomicFunction reduce = nullptr;  // store combines
  bool Run(Frame& frame) const override;
};

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_MEMORY_H_
