#include "compiler/target/nvptx/cuda_toolkit.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>

namespace tessera::compiler {

std::vector<std::string> CudaToolkits() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(name); folder && *folder) folders.push_back(folder);
  folders.push_back("/usr/local/cuda");
  glob_t found{};
  std::vector<std::string> versions;
  if (glob("/usr/local/cuda-*", 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) versions.push_back(found.gl_pathv[i]);
  globfree(&found);
  std::sort(versions.begin(), versions.end(), [](const std::string& a, const std::string& b) { return std::strtod(a.c_str() + 16, nullptr) > std::strtod(b.c_str() + 16, nullptr); });
  folders.insert(folders.end(), versions.begin(), versions.end());
  return folders;
}

}  // namespace tessera::compiler
