#include "cache/family/tunings/tuning_key.h"

namespace tessera::cache {
namespace {

// Each part ends with 00 01; a 00 inside is written 00 FF. So no part is a prefix of a longer one, and parts sort as
// their text does.
void AppendPart(absl::string_view part, std::string* key) {
  for (char c : part) {
    key->push_back(c);
    if (c == '\0') key->push_back('\xff');
  }
  key->append("\0\1", 2);
}

bool TakePart(absl::string_view* key, std::string* part) {
  part->clear();
  for (size_t i = 0; i < key->size(); ++i) {
    if ((*key)[i] != '\0') {
      part->push_back((*key)[i]);
      continue;
    }
    if (++i == key->size()) return false;
    if ((*key)[i] == '\1') {
      key->remove_prefix(i + 1);
      return true;
    }
    if ((*key)[i] != '\xff') return false;
    part->push_back('\0');
  }
  return false;
}

}  // namespace

std::string TuningKeyPrefix(absl::string_view kernel, absl::string_view module, absl::string_view device) {
  std::string key;
  AppendPart(kernel, &key);
  AppendPart(module, &key);
  AppendPart(device, &key);
  return key;
}

std::string EncodeTuningKey(absl::string_view kernel, absl::string_view module, absl::string_view bucket,
                            absl::string_view device) {
  std::string key = TuningKeyPrefix(kernel, module, device);
  AppendPart(bucket, &key);
  return key;
}

bool DecodeTuningKey(absl::string_view key, std::string* kernel, std::string* module, std::string* bucket,
                     std::string* device) {
  return TakePart(&key, kernel) && TakePart(&key, module) && TakePart(&key, device) && TakePart(&key, bucket) &&
         key.empty();
}

}  // namespace tessera::cache
