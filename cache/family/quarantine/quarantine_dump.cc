#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cache/family/dump_text.h"
#include "cache/family/quarantine/quarantine_family.h"
#include "cache/key/canonical_text.h"

namespace tessera::cache {

std::string DumpQuarantine(absl::string_view, absl::string_view payload) {
  std::vector<CanonicalField> fields;
  if (!ParseCanonical(payload, &fields)) return "unreadable";
  std::string family, key, why, bytes;
  for (const CanonicalField& field : fields) {
    if (field.name == "family") family = std::string(field.value);
    if (field.name == "key") key = absl::BytesToHexString(field.value);
    if (field.name == "why") why = std::string(field.value);
    if (field.name == "value") bytes = BytesText(field.value.size());
  }
  return absl::StrCat(family, " ", key, ": ", why, " (", bytes, " kept)");
}

}  // namespace tessera::cache
