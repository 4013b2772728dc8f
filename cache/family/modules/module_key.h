// The key of a module on disk: the 32 bytes of its id.
#ifndef TESSERA_CACHE_FAMILY_MODULES_MODULE_KEY_H_
#define TESSERA_CACHE_FAMILY_MODULES_MODULE_KEY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera::cache {

// False: `id` is no 64 hex digits.
bool EncodeModuleKey(absl::string_view id, std::string* key);
std::string DecodeModuleKey(absl::string_view key);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_MODULES_MODULE_KEY_H_
