// The interpreter's internal program: instructions over numbered slots of storage.
//
// Every value has a slot; a slot is a pointer into the frame's arena, or to constant data that the program owns.
// Storage is assigned when the program is compiled and reused after a value's last use, so a frame is small.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_PROGRAM_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/target/interpreter/formats.h"
#include "compiler/target/interpreter/interpret_options.h"

namespace tessera::interpreter {

struct Program;

// The extents that one launch may touch.
class Memory {
 public:
  explicit Memory(const std::vector<compiler::Extent>& extents) : extents_(extents) {}

  // Whether `bytes` bytes at `address` may be read, or written. True for everything when there are no extents.
  bool Allows(uint64_t address, unsigned bytes, bool write) {
    if (extents_.empty()) return true;
    return Inside(extents_[last_], address, bytes, write) || Search(address, bytes, write);
  }
  bool checked() const { return !extents_.empty(); }

  // Why an access is refused: the buffer nearest to it, and where the access lies.
  std::string Explain(uint64_t address, unsigned bytes, bool write) const;

 private:
  static bool Inside(const compiler::Extent& e, uint64_t address, unsigned bytes, bool write) {
    return address - e.address <= e.bytes - bytes && e.bytes >= bytes && !(write && e.read_only);
  }
  bool Search(uint64_t address, unsigned bytes, bool write);

  const std::vector<compiler::Extent>& extents_;
  size_t last_ = 0;
};

// What one thread needs to run programs. Not shared.
struct Frame {
  explicit Frame(const compiler::InterpretOptions& o) : memory(o.extents), options(o) {}

  std::vector<uint8_t*> at;  // slot -> storage
  uint32_t pid[3] = {0, 0, 0}, grid[3] = {1, 1, 1};
  int64_t region_lanes = 1;  // lanes of the combine region that is being evaluated
  Memory memory;
  const compiler::InterpretOptions& options;
  const Program* program = nullptr;
  absl::Status failure;  // set where an instruction returns false
  bool remarked_negative_step = false;
  std::vector<int> remarked_hints;  // places

  template <typename T>
  T* As(int slot) const { return reinterpret_cast<T*>(at[slot]); }
};

constexpr int kNoSlot = -1;
// Instruction.lanes of scalar code inside a combine region: as many as the region is evaluated for. -n: n times as many
// (short vectors, one element after the other).
constexpr int64_t kRegionLanes = -1;

class Instruction {
 public:
  virtual ~Instruction() = default;
  // False: frame.failure says why.
  virtual bool Run(Frame& frame) const = 0;

  int place = 0;  // index of Program.places

 protected:
  // "kernel (file:line): program (x, y, z): sentence".
  bool Fail(Frame& frame, absl::StatusCode code, absl::string_view sentence) const;
  static int64_t LanesOf(const Frame& frame, int64_t lanes) { return lanes < 0 ? -lanes * frame.region_lanes : lanes; }
  // Scalars that decide control flow hold the same value in all their lanes.
  bool CheckUniform(Frame& frame, int slot, Kind kind, int64_t lanes) const;
};

using Code = std::vector<std::unique_ptr<Instruction>>;

inline bool RunCode(const Code& code, Frame& frame) {
  for (const auto& instruction : code)
    if (!instruction->Run(frame)) return false;
  return true;
}

// Where a value lives and what it holds.
struct SlotUse {
  int slot = kNoSlot;
  Kind kind = Kind::kI32;
  int64_t lanes = 1;
  int64_t bytes() const { return lanes * Bytes(kind); }
};

struct Program {
  struct Parameter {
    SlotUse use;
    std::string name;
    int64_t divisibility = 1;
  };
  struct Storage {
    int64_t offset = 0;  // in the arena
    std::shared_ptr<std::vector<uint8_t>> constant;  // not in the arena when set
  };

  std::string kernel;
  std::vector<std::string> places;  // "file:line"
  std::vector<Parameter> parameters;
  std::vector<Storage> slots;
  int64_t arena_bytes = 0;
  Code code;
};

}  // namespace tessera::interpreter

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_PROGRAM_H_
