// The one place of the runtime that turns errno into absl::Status.
#ifndef TESSERA_RUNTIME_MEMORY_SYSTEM_STATUS_H_
#define TESSERA_RUNTIME_MEMORY_SYSTEM_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera::runtime {

// "<attempt>: <text of error>" under the code that fits `error` (a value of errno).
absl::Status SystemStatus(int error, absl::string_view attempt);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_SYSTEM_STATUS_H_
