#include "absl/strings/str_cat.h"
#include "cache/family/modules/modules_family.h"
#include "proto/storage/modules.pb.h"

namespace tessera::cache {

std::string DumpModules(absl::string_view, absl::string_view payload) {
  storage::ModuleRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  std::string kernels;
  for (const storage::KernelDescription& kernel : record.description().kernels()) {
    absl::StrAppend(&kernels, kernels.empty() ? "" : ", ", kernel.name());
  }
  const std::string main_file = record.files().empty() ? "no file" : record.files(0).path();
  const int more = record.files_size() - 1;
  return absl::StrCat(main_file, more > 0 ? absl::StrCat(" and ", more, " more") : "", ": ",
                      kernels.empty() ? "no kernels" : kernels);
}

}  // namespace tessera::cache
