// Brings a bundle into a store, entry by entry.
#ifndef TESSERA_CACHE_BUNDLE_BUNDLE_IMPORT_H_
#define TESSERA_CACHE_BUNDLE_BUNDLE_IMPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/bundle/bundle_format.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

struct BundleReport {
  ImportReport entries;     // damaged frames count as rejected
  uint64_t other_build = 0;  // artifacts that this compiler build would never find: left out
  std::string manifest;      // YAML, "": none
};

// Sound entries enter also where others are damaged or the file ends early. Each is durable when Finish returns.
class BundleImport {
 public:
  // `now_unix_seconds` becomes the time of their making. Artifacts of other builds than `compiler_build` are left out,
  // unless it is empty. `store` must outlive this object.
  BundleImport(CacheStore* store, std::string compiler_build, bool replace, int64_t now_unix_seconds);

  // The next piece of the file. INVALID_ARGUMENT: no bundle, or of another version. Else the store's error.
  absl::Status Feed(absl::string_view piece);
  // DATA_LOSS: damaged, or cut short; report() holds what entered all the same.
  absl::Status Finish();

  const BundleReport& report() const { return report_; }

 private:
  void Take(FrameKind kind, absl::string_view key, absl::string_view payload);
  void TakeArtifact(absl::string_view key, absl::string_view payload);
  void TakeModule(absl::string_view key, absl::string_view payload);
  absl::Status Flush();

  CacheStore* const store_;
  const std::string compiler_build_;
  const bool replace_;
  const int64_t now_unix_seconds_;
  FrameParser parser_;
  std::vector<ForeignEntry> entries_;
  uint64_t bytes_ = 0;
  BundleReport report_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_BUNDLE_BUNDLE_IMPORT_H_
