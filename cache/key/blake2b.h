// BLAKE2b by libsodium: the hash of keys and the checksum of stored values.
#ifndef TESSERA_CACHE_KEY_BLAKE2B_H_
#define TESSERA_CACHE_KEY_BLAKE2B_H_

#include <cstddef>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::cache {

// BLAKE2b of the concatenated parts; `bytes` is 16 to 64. The parts' bounds are not hashed: delimit them yourself.
std::string Blake2b(std::initializer_list<absl::string_view> parts, size_t bytes);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_KEY_BLAKE2B_H_
