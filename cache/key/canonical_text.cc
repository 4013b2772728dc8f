#include "cache/key/canonical_text.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tessera::cache {

void AppendField(absl::string_view name, absl::string_view value, std::string* text) {
  absl::StrAppend(text, name, "=", value.size(), ":", value, "\n");
}

bool ParseCanonical(absl::string_view text, std::vector<CanonicalField>* fields) {
  fields->clear();
  while (!text.empty()) {
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) return false;
    const size_t colon = text.find(':', equals);
    if (colon == absl::string_view::npos) return false;
    uint64_t length = 0;
    if (!absl::SimpleAtoi(text.substr(equals + 1, colon - equals - 1), &length)) return false;
    const absl::string_view rest = text.substr(colon + 1);
    if (rest.size() < 1 || length > rest.size() - 1 || rest[length] != '\n') return false;
    fields->push_back({text.substr(0, equals), rest.substr(0, length)});
    text = rest.substr(length + 1);
  }
  return true;
}

}  // namespace tessera::cache
