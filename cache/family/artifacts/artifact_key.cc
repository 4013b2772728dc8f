#include "cache/family/artifacts/artifact_key.h"

namespace tessera::cache {

bool EncodeArtifactKey(const CompileKey& key, std::string* encoded) {
  if (key.hash.size() != 32) return false;
  *encoded = key.hash;
  return true;
}

}  // namespace tessera::cache
