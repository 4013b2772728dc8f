// Warnings about a kernel that need the values of a launch.
//
// Pure: the kernel's index arithmetic (storage::LaunchFacts) is evaluated at some hundred points,
// each a lane of a program instance that the launch really has, corners first. What is found is
// therefore so, with the lane as witness; what is not found may still be there.
#ifndef TESSERA_SERVER_LAUNCH_LAUNCH_CHECKS_H_
#define TESSERA_SERVER_LAUNCH_LAUNCH_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/storage/launch_facts.pb.h"

namespace tessera::server {

// A slot of the kernel's entry point.
struct CheckedParameter {
  std::string name;
  uint64_t bits = 0;  // of a scalar
  // Of a pointer to a buffer whose size is known:
  bool has_buffer = false;
  uint64_t bytes_before = 0;  // that belong to the same memory
  uint64_t bytes = 0;         // from the pointer on
};

struct LaunchWarning {
  enum class Kind { kBuffer, kWrap, kPadding };
  Kind kind;
  std::string text;
};

// Accesses outside a buffer; 32-bit offsets that wrap around; blocks of 128 lanes and more that are
// mostly masked off in every program. Each "file:line:column: warning: text" and the source line
// below; a place is named once for each kind.
std::vector<LaunchWarning> CheckLaunch(const storage::LaunchFacts& facts,
                                       const std::vector<CheckedParameter>& parameters,
                                       const uint32_t grid[3]);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_LAUNCH_CHECKS_H_
