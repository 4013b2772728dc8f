// The key of an artifact on disk: the 32 bytes of its compile key's hash. `usage` has the same keys.
#ifndef TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACT_KEY_H_
#define TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACT_KEY_H_

#include <string>

#include "cache/key/compile_key.h"

namespace tessera::cache {

// False: `key` has no hash of 32 bytes.
bool EncodeArtifactKey(const CompileKey& key, std::string* encoded);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_ARTIFACTS_ARTIFACT_KEY_H_
