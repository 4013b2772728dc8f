#include "cache/family/quarantine/quarantine_key.h"

namespace tessera::cache {

std::string EncodeQuarantineKey(uint64_t unix_microseconds, uint32_t number) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(unix_microseconds >> shift));
  for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

}  // namespace tessera::cache
