// Keys and records for the tests of stores and layers.
#ifndef TESSERA_CACHE_STORE_CONFORMANCE_TEST_RECORDS_H_
#define TESSERA_CACHE_STORE_CONFORMANCE_TEST_RECORDS_H_

#include <cstddef>
#include <string>

#include "cache/key/compile_key.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::cache {

// Different names, different keys.
CompileKey TestKey(const std::string& name);

// Its code depends on the name and does not compress to nothing.
storage::ArtifactRecord TestArtifact(const std::string& name, size_t code_bytes = 100);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_CONFORMANCE_TEST_RECORDS_H_
