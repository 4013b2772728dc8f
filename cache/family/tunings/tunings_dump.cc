#include "absl/strings/str_cat.h"
#include "cache/family/tunings/tunings_family.h"
#include "cache/family/dump_text.h"
#include "proto/storage/tunings.pb.h"

namespace tessera::cache {

std::string DumpTunings(absl::string_view, absl::string_view payload) {
  storage::TuningRecord record;
  if (!record.ParseFromArray(payload.data(), payload.size())) return "unreadable";
  std::string line = absl::StrCat(record.kernel(), " [", record.bucket(), "] on ", record.device(), ": ");
  if (record.chosen() < static_cast<uint32_t>(record.trials_size())) {
    absl::StrAppend(&line, "configuration ", record.chosen(), " of ", record.trials_size(), ", ",
                    SecondsText(record.trials(record.chosen()).median_seconds()));
  } else {
    absl::StrAppend(&line, "no choice among ", record.trials_size());
  }
  if (record.pinned()) absl::StrAppend(&line, ", pinned");
  return line;
}

}  // namespace tessera::cache
