#include "absl/strings/str_cat.h"
#include "cache/family/usage/usage_family.h"
#include "cache/family/dump_text.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {

std::string DumpUsage(absl::string_view, absl::string_view payload) {
  storage::UsageRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  return absl::StrCat(record.kernel(), ": ", record.launches(), " launches, the last at ",
                      TimeText(record.last_unix_seconds()));
}

}  // namespace tessera::cache
