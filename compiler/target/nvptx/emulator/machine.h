// What one emulated block of threads consists of beside its values, and the instructions of the simt dialect.
//
// A slot holds one value for each thread; short vectors hold their elements one after the other. None of this includes
// MLIR.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MACHINE_H_
#define TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MACHINE_H_

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/target/interpreter/elementwise.h"
#include "compiler/target/interpreter/memory.h"
#include "compiler/target/interpreter/program.h"
#include "compiler/target/nvptx/emulator/matrix.h"
#include "compiler/target/nvptx/emulator/shared_memory.h"

namespace tessera::emulator {

using interpreter::Code;
using interpreter::Frame;
using interpreter::Instruction;
using interpreter::Kind;
using interpreter::kNoSlot;
using interpreter::SlotUse;

// A cp.async that was issued and not waited for.
struct PendingCopy {
  int buffer = 0, thread = 0, bytes = 0, place = 0;
  int64_t offset = 0;
  uint64_t address = 0;
  bool zeros = false;
};

// A wgmma that was issued and not waited for; its results are tickets until then.
struct PendingMatrix {
  int ticket = 0;
  int base = -1;  // ticket that `accumulators` continue; -1: their values are here
  bool done = false, integer = false;
  std::vector<std::vector<uint32_t>> accumulators;  // [register][thread]
  std::vector<std::vector<uint32_t>> a_registers;
  std::vector<int64_t> a_start, b_start;  // absolute, one a warp group; a_start is empty where a is in registers
  const struct Wgmma* instruction = nullptr;
};

struct Machine : Frame {
  Machine(const compiler::InterpretOptions& options, int threads, int64_t shared_bytes, const std::vector<SharedBuffer>& buffers,
          const std::vector<std::string>& places)
      : Frame(options), threads(threads), shared(shared_bytes, buffers, places) {
    region_lanes = threads;
  }
  void ResetBlock();
  bool Active(int thread) const { return !active || active[thread]; }

  const int threads;
  SharedMemory shared;
  const uint8_t* active = nullptr;  // threads that take part in divergent code; null: all
  std::vector<PendingCopy> open_copies;
  std::deque<std::vector<PendingCopy>> copy_groups;
  int next_ticket = 0;
  std::map<int, std::shared_ptr<PendingMatrix>> matrices;  // by ticket; done ones stay a while
  std::vector<int> open_matrices;
  std::deque<std::vector<int>> matrix_groups;
};

// Base of what follows: the machine, and failures of shared memory.
struct SimtInstruction : Instruction {
 protected:
  static Machine& Of(Frame& frame) { return static_cast<Machine&>(frame); }
  // The error of shared memory, which names places itself.
  bool SharedFail(Frame& frame) const;
  static bool On(const Machine& m, int predicate, int thread) {
    return m.Active(thread) && (predicate == kNoSlot || m.at[predicate][thread]);
  }
  // The bytes of one thread's value.
  static void Gather(const Machine& m, const SlotUse& use, int thread, uint8_t* to);
  static void Scatter(const Machine& m, const SlotUse& use, int thread, const uint8_t* from);
  static int BytesOf(const SlotUse& use) { return int(-use.lanes) * interpreter::Bytes(use.kind); }
  // False with a failure where a thread's value is the ticket of an unfinished matrix product.
  bool CheckNoTicket(Machine& m, const SlotUse& use, int thread) const;
  // Whether a global access may be made.
  bool Admit(Machine& m, uint64_t address, int bytes, int thread, const char* what, bool write) const;
};

//===-- identity, values ----------------------------------------------------------------------===//

struct ThreadIndex : SimtInstruction {
  enum class What { kThread, kLane, kWarp };
  What what = What::kThread;
  int result = kNoSlot;
  bool Run(Frame& frame) const override;
};
// A part of one slot to another: elements of vectors.
struct CopyElements : SimtInstruction {
  struct Move { int source; int64_t from, to; int64_t elements; };  // in elements
  std::vector<Move> moves;
  int result = kNoSlot, bytes = 4;  // of one element
  bool Run(Frame& frame) const override;
};
struct VectorBitcast : SimtInstruction {
  SlotUse source, result;
  bool Run(Frame& frame) const override;
};
// A condition for each thread, values of several elements.
struct VectorSelect : SimtInstruction {
  int condition = kNoSlot, a = kNoSlot, b = kNoSlot;
  SlotUse result;
  bool Run(Frame& frame) const override;
};

//===-- global memory -------------------------------------------------------------------------===//

struct GlobalLoad : SimtInstruction {
  int address = kNoSlot, predicate = kNoSlot;
  SlotUse other, result;
  bool Run(Frame& frame) const override;
};
struct GlobalStore : SimtInstruction {
  int address = kNoSlot, predicate = kNoSlot;
  SlotUse value;
  bool Run(Frame& frame) const override;
};
struct GlobalAtomic : SimtInstruction {
  interpreter::AtomicFunction function = nullptr;  // null: compare and swap
  int address = kNoSlot, predicate = kNoSlot;
  SlotUse compare, value, result;
  bool Run(Frame& frame) const override;
};

//===-- shared memory -------------------------------------------------------------------------===//

struct AllocShared : SimtInstruction {
  int buffer = 0;
  bool Run(Frame& frame) const override;
};
struct FreeShared : SimtInstruction {
  int buffer = 0;
  bool Run(Frame& frame) const override;
};
struct SharedLoad : SimtInstruction {
  int buffer = 0, offset = kNoSlot, predicate = kNoSlot;
  SlotUse result;
  bool Run(Frame& frame) const override;
};
struct SharedStore : SimtInstruction {
  int buffer = 0, offset = kNoSlot, predicate = kNoSlot;
  SlotUse value;
  bool Run(Frame& frame) const override;
};
struct SharedAtomic : SimtInstruction {
  interpreter::AtomicFunction function = nullptr;
  int buffer = 0, offset = kNoSlot, predicate = kNoSlot, value = kNoSlot;
  bool Run(Frame& frame) const override;
};
struct Synchronise : SimtInstruction {
  enum class What { kBlock, kWarp, kNothing };
  What what = What::kBlock;
  bool Run(Frame& frame) const override;
};

//===-- asynchronous copies -------------------------------------------------------------------===//

struct CopyAsync : SimtInstruction {
  int buffer = 0, offset = kNoSlot, address = kNoSlot, predicate = kNoSlot, bytes = 16;
  bool Run(Frame& frame) const override;
};
struct CommitCopies : SimtInstruction {
  bool Run(Frame& frame) const override;
};
struct WaitCopies : SimtInstruction {
  int pending = 0;
  bool Run(Frame& frame) const override;
};

//===-- warps ---------------------------------------------------------------------------------===//

struct Shuffle : SimtInstruction {
  enum class What { kXor, kIndex, kUp, kDown };
  What what = What::kXor;
  int lane = kNoSlot;
  SlotUse value, result;
  bool Run(Frame& frame) const override;
};
struct Ballot : SimtInstruction {
  int condition = kNoSlot, result = kNoSlot;
  bool Run(Frame& frame) const override;
};

//===-- matrix units --------------------------------------------------------------------------===//

struct Ldmatrix : SimtInstruction {
  int buffer = 0, offset = kNoSlot;
  bool transpose = false;
  std::vector<int> results;
  bool Run(Frame& frame) const override;
};
struct Stmatrix : SimtInstruction {
  int buffer = 0, offset = kNoSlot;
  bool transpose = false;
  std::vector<int> values;
  bool Run(Frame& frame) const override;
};
struct Mma : SimtInstruction {
  std::vector<int> a, b, c, results;
  int m = 16, n = 8, k = 16;
  MatrixType a_type = MatrixType::kF16, b_type = MatrixType::kF16;
  Accumulator accumulator = Accumulator::kF32;
  bool Run(Frame& frame) const override;
};
struct Wgmma : SimtInstruction {
  int a_buffer = -1, a_offset = kNoSlot, b_buffer = 0, b_offset = kNoSlot;
  std::vector<int> a_registers, c, results;
  int n = 8, k = 16;
  MatrixType a_type = MatrixType::kF16, b_type = MatrixType::kF16;
  Accumulator accumulator = Accumulator::kF32;
  bool a_transpose = false, b_transpose = false;
  Swizzle a_swizzle = Swizzle::kNone, b_swizzle = Swizzle::kNone;
  int64_t a_leading = 0, a_stride = 0, b_leading = 0, b_stride = 0;
  bool Run(Frame& frame) const override;
  // Reads its operands and replaces the accumulators of `pending` by the result.
  void Complete(Machine& m, PendingMatrix& pending) const;

 private:
  enum class Step { kBegin, kEnd };
  bool Operand(Machine& m, bool is_a, int group, int64_t start, Step step, std::vector<uint64_t>* elements) const;
};
struct WgmmaFence : SimtInstruction {
  bool proxy = false;
  bool Run(Frame& frame) const override;
};
struct WgmmaCommit : SimtInstruction {
  bool Run(Frame& frame) const override;
};
struct WgmmaWait : SimtInstruction {
  int pending = 0;
  std::vector<int> values, results;
  bool Run(Frame& frame) const override;
};

//===-- reports -------------------------------------------------------------------------------===//

struct Report : SimtInstruction {
  int condition = kNoSlot, address = kNoSlot;
  bool access = false;
  std::string message;
  bool Run(Frame& frame) const override;
};
struct PrintValue : SimtInstruction {
  SlotUse value;
  int element = kNoSlot, predicate = kNoSlot, elements = 1, operand = 0;
  std::string prefix;
  bool hex = false, is_unsigned = false;
  bool Run(Frame& frame) const override;
};

//===-- control flow that differs between threads -----------------------------------------------===//

// Copies of the active threads' values; sources may be among the targets.
struct MaskedCopy {
  struct Move { int source, target, bytes; int64_t elements; };  // bytes: of an element
  std::vector<Move> moves;
  void Run(Machine& m) const;
};
struct DivergentIf : SimtInstruction {
  int condition = kNoSlot;
  Code then_code, else_code;
  MaskedCopy then_yield, else_yield;
  bool Run(Frame& frame) const override;
};
struct DivergentFor : SimtInstruction {
  SlotUse begin, end, step, index;
  MaskedCopy enter, next;
  Code body;
  bool Run(Frame& frame) const override;
};
struct DivergentWhile : SimtInstruction {
  MaskedCopy enter, pass, next;
  int condition = kNoSlot;
  Code before, after;
  bool Run(Frame& frame) const override;
};

}  // namespace tessera::emulator

#endif  // TESSERA_COMPILER_TARGET_NVPTX_EMULATOR_MACHINE_H_
