#include "client/cli/kernel_dump.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/environment.h"

namespace tessera::cli {
namespace {

// FNV-1a: the folder must be the same from run to run.
uint64_t HashOf(const std::map<std::string, std::string>& stages) {
  uint64_t hash = 14695981039346656037u;
  auto add = [&](const std::string& text) {
    for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
    hash = (hash ^ 0xff) * 1099511628211u;
  };
  for (const auto& [stage, text] : stages)
    if (stage != "metadata") {  // holds times
      add(stage);
      add(text);
    }
  return hash;
}

}  // namespace

absl::Status WriteStages(const std::string& folder, const std::string& kernel, const std::map<std::string, std::string>& stages) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("making ", folder, ": ", error.message()));
  for (const auto& [stage, text] : stages) {
    const std::string path = absl::StrCat(folder, "/", kernel, ".", stage);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.flush();
    if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

bool KernelDumpWanted() { return EnvironmentFlag("TRITON_KERNEL_DUMP"); }

absl::Status DumpStages(const std::string& kernel, const std::map<std::string, std::string>& stages) {
  const char* root = std::getenv("TRITON_DUMP_DIR");
  const char* home = std::getenv("HOME");
  const std::string folder = absl::StrCat(root != nullptr && *root != 0 ? root : absl::StrCat(home != nullptr ? home : ".", "/.triton/dump"), "/",
                                          absl::Hex(HashOf(stages), absl::kZeroPad16));
  RETURN_IF_ERROR(WriteStages(folder, kernel, stages));
  std::cerr << "stages of " << kernel << " are in " << folder << "\n";
  return absl::OkStatus();
}

}  // namespace tessera::cli
