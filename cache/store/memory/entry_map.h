// Bytes by family and key, bounded, in memory.
#ifndef TESSERA_CACHE_STORE_MEMORY_ENTRY_MAP_H_
#define TESSERA_CACHE_STORE_MEMORY_ENTRY_MAP_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "cache/family/family.h"
#include "cache/store/cache_store.h"

namespace tessera::cache {

// Thread-safe; its lock is held for map operations only.
class EntryMap {
 public:
  using Payload = std::shared_ptr<const std::string>;

  // `max_bytes` bounds keys and payloads together; 0: no bound.
  explicit EntryMap(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null: there is none.
  Payload Find(const Family& family, absl::string_view key) const;
  void Put(const Family& family, absl::string_view key, absl::string_view payload);
  void Erase(const Family& family, absl::string_view key);
  // Erases the entry only if it is still `payload`.
  void EraseIfSame(const Family& family, absl::string_view key, const Payload& payload);
  // In the order of the keys.
  std::vector<std::pair<std::string, Payload>> List(const Family& family, absl::string_view key_prefix) const;
  bool empty() const;

  // Adds entries and bytes to the families of `stats`, by name, and evictions.
  void Describe(StoreStats* stats) const;

 private:
  struct Entry {
    Payload payload;
    std::list<std::string>::iterator written;  // in FamilyEntries::written
  };
  struct FamilyEntries {
    std::map<std::string, Entry, std::less<>> by_key;
    std::list<std::string> written;  // keys, the one written longest ago first
    uint64_t bytes = 0;
  };

  void EraseLocked(FamilyEntries* entries, const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  mutable absl::Mutex mutex_;
  std::map<std::string, FamilyEntries> families_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_MEMORY_ENTRY_MAP_H_
