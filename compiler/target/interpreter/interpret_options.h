// What a launch on the interpreter may touch and how it runs. No MLIR in this header.
#ifndef TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRET_OPTIONS_H_
#define TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRET_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::compiler {

// Memory that a launch may touch.
struct Extent {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool read_only = false;
  std::string name;  // of the parameter, for messages
};

struct InterpretOptions {
  std::vector<Extent> extents;  // accesses outside all of them fail the launch; empty: no checks
  uint64_t program_order_seed = 0;  // 0: in order; else programs run in a random order
  std::function<void(const std::string&)> print;  // lines of device_print, and remarks
  // A hint (multiple_of, max_contiguous, max_constancy) that does not hold: fails the launch, or is remarked once a
  // place. Widely used kernels break theirs in lanes whose results they drop, so the default is a remark.
  bool strict_hints = false;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_INTERPRETER_INTERPRET_OPTIONS_H_
