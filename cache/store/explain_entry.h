// An entry's key in words, and why it is not another entry's.
#ifndef TESSERA_CACHE_STORE_EXPLAIN_ENTRY_H_
#define TESSERA_CACHE_STORE_EXPLAIN_ENTRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

// `key` and `other` are the first hex digits of keys of artifacts, or of compiles that failed. With `other`: how the two
// differ. Without: what the key holds, and how some other entries of the same kernel differ from it.
// NOT_FOUND, INVALID_ARGUMENT: no key or several keys begin so.
absl::StatusOr<std::string> ExplainEntry(CacheStore* store, absl::string_view key, absl::string_view other);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_EXPLAIN_ENTRY_H_
