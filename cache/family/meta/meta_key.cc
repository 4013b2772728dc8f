#include "cache/family/meta/meta_key.h"

namespace tessera::cache {

absl::string_view SchemaKey() { return "schema"; }

}  // namespace tessera::cache
