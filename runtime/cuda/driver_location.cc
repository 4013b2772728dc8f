#include "runtime/cuda/driver_location.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace tessera::runtime {
namespace {

constexpr const char* kFolders[] = {
    "/usr/local/nvidia/lib64",    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu",  "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
};

}  // namespace

std::vector<std::string> LibcudaCandidates() {
  if (const char* given = std::getenv("TESSERA_LIBCUDA"); given != nullptr && *given != '\0') {
    if (std::string(given) == "off") return {};
    return {given};
  }
  std::vector<std::string> candidates = {"libcuda.so.1"};
  for (const char* folder : kFolders) candidates.push_back(std::string(folder) + "/libcuda.so.1");
  return candidates;
}

bool LibcudaIsInstalled() {
  for (const std::string& candidate : LibcudaCandidates()) {
    if (candidate.find('/') != std::string::npos) {
      if (access(candidate.c_str(), R_OK) == 0) return true;
      continue;
    }
    const char* path = std::getenv("LD_LIBRARY_PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty() && access((folder + "/" + candidate).c_str(), R_OK) == 0) return true;
  }
  return false;
}

}  // namespace tessera::runtime
