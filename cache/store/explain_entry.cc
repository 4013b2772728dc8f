#include "cache/store/explain_entry.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/storage/inventory.pb.h"

namespace tessera::cache {
namespace {

constexpr size_t kSiblings = 5;

struct Entry {
  std::string key;  // as it is stored
  std::string canonical;
  std::string kernel;
  bool failed = false;
};

template <typename Record>
bool Parsed(absl::string_view payload, Record* record) {
  return record->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

// Up to two entries whose key begins with `hex`.
absl::StatusOr<std::vector<Entry>> Matching(CacheStore* store, const std::string& hex) {
  std::vector<Entry> entries;
  const std::string whole_bytes = absl::HexStringToBytes(hex.substr(0, hex.size() / 2 * 2));
  const auto matches = [&](absl::string_view key) { return absl::StartsWith(absl::BytesToHexString(key), hex); };
  RETURN_IF_ERROR(store->ForEach("artifacts", whole_bytes, [&](absl::string_view key, absl::string_view payload) {
    storage::ArtifactRecord record;
    if (!matches(key) || !Parsed(payload, &record)) return true;
    entries.push_back({std::string(key), record.key(), record.artifact().metadata().kernel(), false});
    return entries.size() < 2;
  }));
  RETURN_IF_ERROR(store->ForEach("failures", whole_bytes, [&](absl::string_view key, absl::string_view payload) {
    storage::FailureRecord record;
    if (!matches(key) || !Parsed(payload, &record)) return true;
    entries.push_back({std::string(key), record.key(), record.kernel(), true});
    return entries.size() < 2;
  }));
  return entries;
}

absl::StatusOr<Entry> TheOne(CacheStore* store, absl::string_view key) {
  const std::string hex = absl::AsciiStrToLower(key);
  if (hex.empty() || hex.size() > 64 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("a key is up to 64 hex digits, not \"", key, "\""));
  }
  ASSIGN_OR_RETURN(std::vector<Entry> entries, Matching(store, hex));
  if (entries.empty()) return absl::NotFoundError(absl::StrCat("no artifact's key begins with ", hex));
  if (entries.size() > 1) return absl::InvalidArgumentError(absl::StrCat("several keys begin with ", hex));
  return entries[0];
}

std::string Difference(const Entry& one, const Entry& other) {
  const std::string text = ExplainDifference(one.canonical, other.canonical);
  return text.empty() ? "they are one entry\n" : text;
}

}  // namespace

absl::StatusOr<std::string> ExplainEntry(CacheStore* store, absl::string_view key, absl::string_view other) {
  ASSIGN_OR_RETURN(const Entry entry, TheOne(store, key));
  if (!other.empty()) {
    ASSIGN_OR_RETURN(const Entry second, TheOne(store, other));
    return Difference(entry, second);
  }
  std::string text = absl::StrCat(entry.failed ? "a compile that failed" : "an artifact", ", key ",
                                  absl::BytesToHexString(entry.key), "\n", Explain(entry.canonical));
  std::vector<std::string> siblings;
  RETURN_IF_ERROR(store->ForEach("inventory", "", [&](absl::string_view sibling, absl::string_view payload) {
    storage::InventoryRecord record;
    if (Parsed(payload, &record) && record.kernel() == entry.kernel && sibling != absl::string_view(entry.key)) {
      siblings.emplace_back(sibling);
    }
    return siblings.size() < kSiblings;
  }));
  for (const std::string& sibling : siblings) {
    const std::string hex = absl::BytesToHexString(sibling);
    const absl::StatusOr<Entry> found = TheOne(store, hex);
    if (found.ok()) absl::StrAppend(&text, "\nentry ", hex.substr(0, 16), " differs:\n", Difference(entry, *found));
  }
  return text;
}

}  // namespace tessera::cache
