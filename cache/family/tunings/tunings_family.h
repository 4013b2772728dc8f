// Measurements and decisions, by kernel, module, device and bucket. Expensive to remake: kept until forgotten.
#ifndef TESSERA_CACHE_FAMILY_TUNINGS_TUNINGS_FAMILY_H_
#define TESSERA_CACHE_FAMILY_TUNINGS_TUNINGS_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& TuningsFamily();

// Printed by `tessera cache ls` (tunings_dump.cc).
std::string DumpTunings(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_TUNINGS_TUNINGS_FAMILY_H_
