#include "cache/key/blake2b.h"

#include <sodium.h>

#include "base/check.h"

namespace tessera::cache {

std::string Blake2b(std::initializer_list<absl::string_view> parts, size_t bytes) {
  // Picks the vectorised implementation; the portable one would be used without it.
  static const bool initialised = sodium_init() >= 0;
  TESSERA_CHECK(initialised, "libsodium must initialise");
  crypto_generichash_state state;
  TESSERA_CHECK(crypto_generichash_init(&state, nullptr, 0, bytes) == 0, "a BLAKE2b hash has 16 to 64 bytes");
  for (absl::string_view part : parts) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  std::string hash(bytes, '\0');
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(&hash[0]), bytes);
  return hash;
}

}  // namespace tessera::cache
