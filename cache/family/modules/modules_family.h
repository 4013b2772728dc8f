// Source text and what the frontend read from it, by module id. Kept until it is erased.
#ifndef TESSERA_CACHE_FAMILY_MODULES_MODULES_FAMILY_H_
#define TESSERA_CACHE_FAMILY_MODULES_MODULES_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& ModulesFamily();

// Printed by `tessera cache ls` (modules_dump.cc).
std::string DumpModules(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_MODULES_MODULES_FAMILY_H_
