// The frames of a bundle file (README.md), written and parsed.
//
//   offset 0   4 bytes  magic "TSBF"
//          4   1        kind
//          5   3        reserved, 0
//          8   4        length of the key, little endian
//         12   8        length of the payload, little endian
//         20  16        BLAKE2b-128 over bytes 4 to 19, key and payload
//         36   8        BLAKE2b-128 over bytes 0 to 35, cut to 8: lengths are believed only if it holds
//         44            key, payload
#ifndef TESSERA_CACHE_BUNDLE_BUNDLE_FORMAT_H_
#define TESSERA_CACHE_BUNDLE_BUNDLE_FORMAT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera::cache {

enum class FrameKind : uint8_t {
  kHeader = 1,  // payload: canonical text: compiler, entries of each family
  kModule = 2,
  kArtifact = 3,
  kTuning = 4,
  kManifest = 5,   // payload: YAML
  kSignature = 6,  // behind the end; reserved
  kEnd = 15,
};

// The start of every bundle file.
std::string BundleStart();

class FrameWriter {
 public:
  std::string Frame(FrameKind kind, absl::string_view key, absl::string_view payload);
  // The last frame.
  std::string End();

 private:
  uint64_t frames_ = 0;
  std::string checksums_;
};

// Gets a bundle in pieces of any size, and gives whole frames that are sound.
class FrameParser {
 public:
  using OnFrame = std::function<void(FrameKind kind, absl::string_view key, absl::string_view payload)>;
  explicit FrameParser(OnFrame on_frame) : on_frame_(std::move(on_frame)) {}

  // INVALID_ARGUMENT: this is no bundle, or of a version that this build does not read.
  absl::Status Feed(absl::string_view piece);
  // DATA_LOSS: what came is not all, or not what was written; what is wrong is in findings().
  absl::Status Finish();

  // "a damaged frame at byte 1234"; the first hundred.
  const std::vector<std::string>& findings() const { return findings_; }
  uint64_t damaged() const { return damaged_; }

 private:
  absl::Status Start();
  void Skip(size_t from);
  void Finding(std::string text);
  void End(absl::string_view payload);

  const OnFrame on_frame_;
  std::string buffer_;
  uint64_t consumed_ = 0;  // bytes before buffer_
  bool started_ = false, ended_ = false, skipping_ = false;
  uint64_t frames_ = 0, damaged_ = 0;
  std::string checksums_;
  std::vector<std::string> findings_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_BUNDLE_BUNDLE_FORMAT_H_
