// Length-prefixed text that people can read and that parses in one way only.
//
// A text is a sequence of fields `name=LENGTH:value\n`, LENGTH in decimal; a value may be such a text again.
#ifndef TESSERA_CACHE_KEY_CANONICAL_TEXT_H_
#define TESSERA_CACHE_KEY_CANONICAL_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::cache {

// `name` has no '=' in it; `value` is any bytes.
void AppendField(absl::string_view name, absl::string_view value, std::string* text);

struct CanonicalField {
  absl::string_view name;
  absl::string_view value;
};

// The fields of `text`, which must outlive them. False: it is no canonical text.
bool ParseCanonical(absl::string_view text, std::vector<CanonicalField>* fields);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_KEY_CANONICAL_TEXT_H_
