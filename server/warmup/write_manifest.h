// A manifest as YAML text, as people would write it.
#ifndef TESSERA_SERVER_WARMUP_WRITE_MANIFEST_H_
#define TESSERA_SERVER_WARMUP_WRITE_MANIFEST_H_

#include <string>

#include "proto/tessera/v1/manifest.pb.h"

namespace tessera::server {

// ReadYaml reads it back as an equal message. Entries of `ops` are not written: recorded traffic
// has none, it names the ops' modules.
std::string WriteManifest(const tessera::v1::Manifest& manifest);

// One kernel on one line: "- {name: add, arguments: {x: \"*fp32:16\", n: 1000}, ...}".
std::string KernelLine(const tessera::v1::ManifestKernel& kernel);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_WRITE_MANIFEST_H_
