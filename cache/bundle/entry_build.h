// The compiler build that a compile key names.
#ifndef TESSERA_CACHE_BUNDLE_ENTRY_BUILD_H_
#define TESSERA_CACHE_BUNDLE_ENTRY_BUILD_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {

// "": `canonical` is no compile key.
inline std::string BuildOf(absl::string_view canonical) {
  std::vector<CanonicalField> fields;
  if (!ParseCanonical(canonical, &fields)) return "";
  for (const CanonicalField& field : fields) {
    if (field.name == "compiler") return std::string(field.value);
  }
  return "";
}

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_BUNDLE_ENTRY_BUILD_H_
