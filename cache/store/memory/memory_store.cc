#include "cache/store/memory/memory_store.h"

#include <utility>

#include "cache/store/memory/entry_map.h"
#include "cache/store/record_store.h"

namespace tessera::cache {
namespace {

class MemoryStore : public RecordStore {
 public:
  MemoryStore(uint64_t max_bytes, std::string state) : entries_(max_bytes), state_(std::move(state)) {}

 private:
  absl::StatusOr<MissReason> Load(const Family& family, absl::string_view key, ParseFn parse) override {
    const EntryMap::Payload payload = entries_.Find(family, key);
    if (payload == nullptr) return MissReason::kAbsent;
    const MissReason reason = parse(*payload);
    if (reason == MissReason::kDamaged) {
      entries_.EraseIfSame(family, key, payload);
      CountDamaged();
    }
    return reason;
  }

  absl::Status Apply(const std::vector<Change>& changes, bool) override {
    for (const Change& change : changes) {
      if (change.payload.has_value()) {
        entries_.Put(*change.family, change.key, *change.payload);
      } else {
        entries_.Erase(*change.family, change.key);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Scan(const Family& family, absl::string_view key_prefix, VisitFn visit) override {
    for (const auto& [key, payload] : entries_.List(family, key_prefix)) {
      StoredEntry entry;
      entry.key = key;
      entry.payload = *payload;
      entry.bytes = key.size() + payload->size();
      if (!visit(entry)) break;
    }
    return absl::OkStatus();
  }

  void Describe(StoreStats* stats) override {
    FlushUsage();
    for (const Family* family : AllFamilies()) stats->families.push_back({family->name, 0, 0});
    entries_.Describe(stats);
    stats->state = state_;
  }

  EntryMap entries_;
  const std::string state_;
};

}  // namespace

std::unique_ptr<CacheStore> NewMemoryStore(uint64_t max_bytes, std::string state) {
  return std::make_unique<MemoryStore>(max_bytes, std::move(state));
}

}  // namespace tessera::cache
