#include "cache/store/cache_store.h"

#include "cache/family/tunings/tuning_key.h"

namespace tessera::cache {

std::string TuningKey(absl::string_view kernel, absl::string_view module, absl::string_view bucket,
                      absl::string_view device) {
  return EncodeTuningKey(kernel, module, bucket, device);
}

}  // namespace tessera::cache
