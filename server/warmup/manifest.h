// Warm-up manifests: YAML text to compile requests.
#ifndef TESSERA_SERVER_WARMUP_MANIFEST_H_
#define TESSERA_SERVER_WARMUP_MANIFEST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tessera/v1/modules.pb.h"

namespace tessera::server {

struct ManifestItem {
  std::string where;                    // "manifest.yaml:7"
  tessera::v1::CompileRequest request;  // the module's id is still to be filled in
};

struct ManifestModule {
  std::string where;
  std::vector<tessera::v1::SourceFile> files;
  std::vector<ManifestItem> items;
};

// Reads a file that the manifest names; a parameter, for the text may come from a client, who has
// no files here.
using ManifestFileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// INVALID_ARGUMENT: "PATH:LINE:COLUMN: what is wrong".
absl::StatusOr<std::vector<ManifestModule>> ParseManifest(absl::string_view text,
                                                          absl::string_view path,
                                                          const ManifestFileReader& read_file);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_MANIFEST_H_
