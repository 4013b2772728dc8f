// How often and when a variant was launched, by the hash of its compile key. May lose the last seconds.
#ifndef TESSERA_CACHE_FAMILY_USAGE_USAGE_FAMILY_H_
#define TESSERA_CACHE_FAMILY_USAGE_USAGE_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& UsageFamily();

// Printed by `tessera cache ls` (usage_dump.cc).
std::string DumpUsage(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_USAGE_USAGE_FAMILY_H_
