#include "absl/strings/str_cat.h"
#include "cache/family/meta/meta_family.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {

std::string DumpMeta(absl::string_view key, absl::string_view payload) {
  storage::MetaRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  return absl::StrCat(key, ": schema ", record.schema_version(), ", compiler ", record.compiler_build(), ", created by ",
                      record.created_by());
}

}  // namespace tessera::cache
