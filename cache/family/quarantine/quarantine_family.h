// Damaged values as they were found, for a person to look at. Bounded; never read by lookups.
#ifndef TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_FAMILY_H_
#define TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& QuarantineFamily();

// Printed by `tessera cache ls` (quarantine_dump.cc).
std::string DumpQuarantine(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_QUARANTINE_QUARANTINE_FAMILY_H_
