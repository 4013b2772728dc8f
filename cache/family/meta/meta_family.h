// Facts about the database itself, by name: its schema and who made it.
#ifndef TESSERA_CACHE_FAMILY_META_META_FAMILY_H_
#define TESSERA_CACHE_FAMILY_META_META_FAMILY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"

namespace tessera::cache {

const Family& MetaFamily();

// Printed by `tessera cache ls` (meta_dump.cc).
std::string DumpMeta(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_META_META_FAMILY_H_
