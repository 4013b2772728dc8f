// What the kernel knows of a process.
#ifndef TESSERA_SERVER_TELEMETRY_PROCESS_INFO_H_
#define TESSERA_SERVER_TELEMETRY_PROCESS_INFO_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace tessera::server {

struct ProcessInfo {
  uint64_t resident_bytes = 0;
  uint32_t descriptors = 0;  // open files; 0 where another user's may not be counted
  uint32_t threads = 0;
  double cpu_seconds = 0;
};

// Nothing: the process is gone.
std::optional<ProcessInfo> ReadProcessInfo(pid_t pid);

struct MachineMemory {
  uint64_t total_bytes = 0, available_bytes = 0;
};
MachineMemory ReadMachineMemory();

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TELEMETRY_PROCESS_INFO_H_
