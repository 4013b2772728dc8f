// The executor process.
#ifndef TESSERA_RUNTIME_EXECUTOR_EXECUTOR_MAIN_H_
#define TESSERA_RUNTIME_EXECUTOR_EXECUTOR_MAIN_H_

#include <functional>
#include <memory>
#include <string>

#include "runtime/device/device.h"

namespace tessera::runtime {

// Makes the loader for an artifact's target ("cpu", "interpreter"). Supplied by server/main/wiring.
using LoaderFactory =
    std::function<absl::StatusOr<std::unique_ptr<KernelLoader>>(const std::string& target)>;

// Serves the control socket and the ring until the daemon goes away. Returns the process's exit
// status.
int RunExecutor(int control_fd, const LoaderFactory& loaders);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_EXECUTOR_EXECUTOR_MAIN_H_
