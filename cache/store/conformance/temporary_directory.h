// A directory for one test, gone with its object.
#ifndef TESSERA_CACHE_STORE_CONFORMANCE_TEMPORARY_DIRECTORY_H_
#define TESSERA_CACHE_STORE_CONFORMANCE_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace tessera::cache {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : TemporaryDirectory("") {}
  // Below `preferred`, if that can be used.
  explicit TemporaryDirectory(const std::string& preferred) {
    const char* parent = std::getenv("TEST_TMPDIR");
    path_ = preferred + "/tessera_cache_XXXXXX";
    if (!preferred.empty() && mkdtemp(&path_[0]) != nullptr) return;
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/tessera_cache_XXXXXX";
    TESSERA_CHECK(mkdtemp(&path_[0]) != nullptr, "a test needs a temporary directory");
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_CONFORMANCE_TEMPORARY_DIRECTORY_H_
