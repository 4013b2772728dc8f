#include "cache/family/modules/module_key.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace tessera::cache {

bool EncodeModuleKey(absl::string_view id, std::string* key) {
  if (id.size() != 64) return false;
  for (char c : id) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  *key = absl::HexStringToBytes(id);
  return true;
}

std::string DecodeModuleKey(absl::string_view key) { return absl::BytesToHexString(key); }

}  // namespace tessera::cache
