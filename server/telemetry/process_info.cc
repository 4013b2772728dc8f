#include "server/telemetry/process_info.h"

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tessera::server {

std::optional<ProcessInfo> ReadProcessInfo(pid_t pid) {
  std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream file(folder + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The name stands in parentheses and may hold anything; what follows it is numbers.
  size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end + 2));
  std::string field;
  uint64_t ticks = 0;
  ProcessInfo info;
  // Counting from 3 (state), as proc(5) does.
  for (int i = 3; i <= 24 && fields >> field; ++i) {
    if (i == 14 || i == 15) ticks += std::stoull(field);
    if (i == 20) info.threads = static_cast<uint32_t>(std::stoul(field));
    if (i == 24)
      info.resident_bytes = std::stoull(field) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  info.cpu_seconds = static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  if (DIR* descriptors = opendir((folder + "/fd").c_str())) {
    while (const dirent* entry = readdir(descriptors))
      if (entry->d_name[0] != '.') ++info.descriptors;
    closedir(descriptors);
    // Not the one that counted.
    if (pid == getpid() && info.descriptors > 0) --info.descriptors;
  }
  return info;
}

MachineMemory ReadMachineMemory() {
  MachineMemory memory;
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  uint64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemTotal:") memory.total_bytes = kilobytes << 10;
    if (name == "MemAvailable:") memory.available_bytes = kilobytes << 10;
    std::getline(file, unit);
  }
  return memory;
}

}  // namespace tessera::server
