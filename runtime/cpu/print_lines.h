// Lines of tl.device_print, from the raw values that a kernel reports.
#ifndef TESSERA_RUNTIME_CPU_PRINT_LINES_H_
#define TESSERA_RUNTIME_CPU_PRINT_LINES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::runtime {

// "pid (x, y, z) idx (lane) prefix: value"; a scalar (lanes == 1) has "idx ()". `kind` is a short dtype name ("i32",
// "fp16", "*fp32"), or "x8" .. "x64" for an integer in hexadecimal digits; an unknown kind prints its bits in hex.
// Extents behind the kind ("i32[4,8]") make the lane an index for each dimension: "idx (2, 5)".
std::string PrintLine(const uint32_t* pid, absl::string_view prefix, absl::string_view kind, uint64_t bits,
                      uint64_t lane, uint64_t lanes);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CPU_PRINT_LINES_H_
