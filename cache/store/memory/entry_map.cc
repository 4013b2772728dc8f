#include "cache/store/memory/entry_map.h"

#include "absl/strings/match.h"

namespace tessera::cache {

EntryMap::Payload EntryMap::Find(const Family& family, absl::string_view key) const {
  absl::MutexLock lock(&mutex_);
  const auto entries = families_.find(family.name);
  if (entries == families_.end()) return nullptr;
  const auto found = entries->second.by_key.find(std::string(key));
  return found == entries->second.by_key.end() ? nullptr : found->second.payload;
}

void EntryMap::Put(const Family& family, absl::string_view key, absl::string_view payload) {
  auto copy = std::make_shared<const std::string>(payload);
  absl::MutexLock lock(&mutex_);
  FamilyEntries& entries = families_[family.name];
  EraseLocked(&entries, std::string(key));
  entries.written.emplace_back(key);
  entries.by_key[std::string(key)] = Entry{std::move(copy), std::prev(entries.written.end())};
  entries.bytes += key.size() + payload.size();
  bytes_ += key.size() + payload.size();
  Evict();
}

void EntryMap::Erase(const Family& family, absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  EraseLocked(&families_[family.name], std::string(key));
}

void EntryMap::EraseIfSame(const Family& family, absl::string_view key, const Payload& payload) {
  absl::MutexLock lock(&mutex_);
  FamilyEntries& entries = families_[family.name];
  const auto found = entries.by_key.find(std::string(key));
  if (found != entries.by_key.end() && found->second.payload == payload) EraseLocked(&entries, std::string(key));
}

std::vector<std::pair<std::string, EntryMap::Payload>> EntryMap::List(const Family& family,
                                                                      absl::string_view key_prefix) const {
  std::vector<std::pair<std::string, Payload>> listed;
  absl::MutexLock lock(&mutex_);
  const auto entries = families_.find(family.name);
  if (entries == families_.end()) return listed;
  const auto& by_key = entries->second.by_key;
  for (auto it = by_key.lower_bound(std::string(key_prefix)); it != by_key.end(); ++it) {
    if (!absl::StartsWith(it->first, key_prefix)) break;
    listed.emplace_back(it->first, it->second.payload);
  }
  return listed;
}

bool EntryMap::empty() const {
  absl::MutexLock lock(&mutex_);
  return bytes_ == 0;
}

void EntryMap::Describe(StoreStats* stats) const {
  absl::MutexLock lock(&mutex_);
  for (FamilyStats& family : stats->families) {
    const auto entries = families_.find(family.name);
    if (entries == families_.end()) continue;
    family.entries += entries->second.by_key.size();
    family.bytes += entries->second.bytes;
  }
  stats->evictions += evictions_;
}

void EntryMap::EraseLocked(FamilyEntries* entries, const std::string& key) {
  const auto found = entries->by_key.find(key);
  if (found == entries->by_key.end()) return;
  const uint64_t bytes = found->first.size() + found->second.payload->size();
  entries->bytes -= bytes;
  bytes_ -= bytes;
  entries->written.erase(found->second.written);
  entries->by_key.erase(found);
}

void EntryMap::Evict() {
  // The cheapest to remake first.
  static constexpr const char* kOrder[] = {"artifacts", "inventory", "failures", "quarantine",
                                           "usage",     "modules",   "tunings",  "meta"};
  for (const char* family : kOrder) {
    FamilyEntries& entries = families_[family];
    while (max_bytes_ != 0 && bytes_ > max_bytes_ && !entries.written.empty()) {
      EraseLocked(&entries, std::string(entries.written.front()));
      ++evictions_;
    }
  }
}

}  // namespace tessera::cache
