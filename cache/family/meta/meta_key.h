// The keys of `meta` are names.
#ifndef TESSERA_CACHE_FAMILY_META_META_KEY_H_
#define TESSERA_CACHE_FAMILY_META_META_KEY_H_

#include "absl/strings/string_view.h"

namespace tessera::cache {

// The record that says which schema the database has.
absl::string_view SchemaKey();

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_META_META_KEY_H_
