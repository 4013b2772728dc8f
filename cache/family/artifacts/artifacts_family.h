// Compiled artifacts, by the hash of their compile key. Can be rebuilt: what eviction takes first.
#ifndef TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACTS_FAMILY_H_
#define TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACTS_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& ArtifactsFamily();

// Printed by `tessera cache ls` (artifacts_dump.cc).
std::string DumpArtifacts(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACTS_FAMILY_H_
