// Numbers and times as the dump lines print them.
#ifndef TESSERA_CACHE_FAMILY_DUMP_TEXT_H_
#define TESSERA_CACHE_FAMILY_DUMP_TEXT_H_

#include <cstdint>
#include <string>

namespace tessera::cache {

// "17 B", "1.5 KiB", "3.0 MiB"
std::string BytesText(uint64_t bytes);

// "1.50 s", "2.00 ms", "3.00 us"
std::string SecondsText(double seconds);

// "2030-01-31T12:00:00Z"; "an unknown time" for 0.
std::string TimeText(int64_t unix_seconds);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_DUMP_TEXT_H_
