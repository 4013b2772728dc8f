// Warm-up manifests: YAML text to the message, checked, with the modules' sources.
#ifndef TESSERA_SERVER_WARMUP_MANIFEST_H_
#define TESSERA_SERVER_WARMUP_MANIFEST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/storage/modules.pb.h"
#include "proto/tessera/v1/manifest.pb.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/warmup/yaml_message.h"

namespace tessera::server {

// Reads a file that the manifest names; a parameter, for the text may come from a client, who has
// no files here.
using ManifestFileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// A reader over files that came with a request; paths that did not come are noted in `wanted`.
ManifestFileReader FilesOfRequest(
    const google::protobuf::RepeatedPtrField<tessera::v1::SourceFile>& files,
    std::vector<std::string>* wanted);

// Neither moves nor changes: `places` knows the messages by their addresses.
struct ParsedManifest {
  explicit ParsedManifest(absl::string_view path) : places(path) {}
  ParsedManifest(const ParsedManifest&) = delete;

  tessera::v1::Manifest manifest;
  YamlPlaces places;
  // Of manifest.modules, one each; empty where the module is an op's or is known by its id.
  std::vector<std::vector<storage::SourceFile>> sources;
};

// INVALID_ARGUMENT: "PATH:LINE:COLUMN: what is wrong". What needs the kernels themselves
// (parameters' names, numbers of configurations) is checked when it is expanded.
absl::StatusOr<std::shared_ptr<const ParsedManifest>> ParseManifest(
    absl::string_view text, absl::string_view path, const ManifestFileReader& read_file);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_MANIFEST_H_
