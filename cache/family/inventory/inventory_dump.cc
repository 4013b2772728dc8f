#include "absl/strings/str_cat.h"
#include "cache/family/dump_text.h"
#include "cache/family/inventory/inventory_family.h"

namespace tessera::cache {

std::string DumpInventory(absl::string_view, absl::string_view payload) {
  storage::InventoryRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  return absl::StrCat(record.kernel(), " for ", record.target(), ": ", BytesText(record.bytes()), ", ",
                      record.compile_seconds() > 0 ? SecondsText(record.compile_seconds()) : "unknown time",
                      " to make again");
}

}  // namespace tessera::cache
