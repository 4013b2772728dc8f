#include "absl/strings/str_cat.h"
#include "cache/family/artifacts/artifacts_family.h"
#include "cache/family/dump_text.h"
#include "proto/storage/artifacts.pb.h"

namespace tessera::cache {

std::string DumpArtifacts(absl::string_view, absl::string_view payload) {
  storage::ArtifactRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  const storage::KernelMetadata& metadata = record.artifact().metadata();
  return absl::StrCat(metadata.kernel(), " for ", metadata.target(), ": ", BytesText(record.artifact().code().size()),
                      " of code, compiled in ", SecondsText(record.compile_seconds()), " at ",
                      TimeText(record.created_unix_seconds()));
}

}  // namespace tessera::cache
