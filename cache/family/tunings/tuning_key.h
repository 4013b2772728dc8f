// The key of a tuning on disk. Unambiguous, and in the order kernel, module, device, bucket: the buckets of one kernel on
// one device lie side by side.
#ifndef TESSERA_CACHE_FAMILY_TUNINGS_TUNING_KEY_H_
#define TESSERA_CACHE_FAMILY_TUNINGS_TUNING_KEY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera::cache {

std::string EncodeTuningKey(absl::string_view kernel, absl::string_view module, absl::string_view bucket,
                            absl::string_view device);

// What all buckets of a kernel on a device start with, and nothing else does.
std::string TuningKeyPrefix(absl::string_view kernel, absl::string_view module, absl::string_view device);

// False: `key` is no such key.
bool DecodeTuningKey(absl::string_view key, std::string* kernel, std::string* module, std::string* bucket,
                     std::string* device);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_TUNINGS_TUNING_KEY_H_
