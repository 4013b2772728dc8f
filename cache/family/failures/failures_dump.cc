#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cache/family/dump_text.h"
#include "cache/family/failures/failures_family.h"

namespace tessera::cache {

std::string DumpFailures(absl::string_view, absl::string_view payload) {
  storage::FailureRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  return absl::StrCat(record.kernel(), ": ", absl::StatusCodeToString(static_cast<absl::StatusCode>(record.code())),
                      record.limits().empty() ? "" : absl::StrCat(" under ", record.limits()), ", until ",
                      TimeText(record.expires_unix_seconds()), ": ", record.message().substr(0, record.message().find('\n')));
}

}  // namespace tessera::cache
