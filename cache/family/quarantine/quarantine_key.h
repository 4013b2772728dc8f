// The key of a quarantined value on disk: when it was found (oldest first), then a number that makes it unique.
#ifndef TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_KEY_H_
#define TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_KEY_H_

#include <cstdint>
#include <string>

namespace tessera::cache {

std::string EncodeQuarantineKey(uint64_t unix_microseconds, uint32_t number);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_KEY_H_
