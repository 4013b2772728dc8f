// The records of one kind that were used last, within a bound of bytes.
#ifndef TESSERA_CACHE_LAYER_RECENT_RECORDS_H_
#define TESSERA_CACHE_LAYER_RECENT_RECORDS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tessera::cache {

// A read of the store behind takes time, and a write may overtake it. So whoever reads takes a ticket first, and
// what it read enters only if nothing under that part of the keys was written since.
//
// Thread-safe; each lock is held for map operations only.
template <typename Record>
class RecentRecords {
 public:
  using Pointer = std::shared_ptr<const Record>;
  using Ticket = uint64_t;

  explicit RecentRecords(uint64_t max_bytes) : max_shard_bytes_(max_bytes / kShards) {}

  Pointer Find(absl::string_view key) {
    Shard& shard = ShardOf(key);
    absl::MutexLock lock(&shard.mutex);
    const auto found = shard.by_key.find(std::string(key));
    if (found == shard.by_key.end()) return nullptr;
    shard.order.splice(shard.order.begin(), shard.order, found->second);
    return found->second->record;
  }

  Ticket TakeTicket(absl::string_view key) {
    Shard& shard = ShardOf(key);
    absl::MutexLock lock(&shard.mutex);
    return shard.writes;
  }

  // Call before and after each write or erasure behind. What is in front goes; tickets taken before become void.
  void Invalidate(absl::string_view key) {
    Shard& shard = ShardOf(key);
    absl::MutexLock lock(&shard.mutex);
    Remove(&shard, std::string(key));
    ++shard.writes;
  }

  void PutIfCurrent(absl::string_view key, Record record, Ticket ticket) {
    const uint64_t bytes = record.ByteSizeLong() + key.size();
    auto shared = std::make_shared<const Record>(std::move(record));
    Shard& shard = ShardOf(key);
    absl::MutexLock lock(&shard.mutex);
    if (shard.writes != ticket || bytes > max_shard_bytes_) return;
    Remove(&shard, std::string(key));
    shard.order.push_front({std::string(key), std::move(shared), bytes});
    shard.by_key[std::string(key)] = shard.order.begin();
    shard.bytes += bytes;
    while (shard.bytes > max_shard_bytes_) Remove(&shard, std::string(shard.order.back().key));
  }

 private:
  static constexpr size_t kShards = 8;
  struct Node {
    std::string key;
    Pointer record;
    uint64_t bytes;
  };
  struct Shard {
    absl::Mutex mutex;
    std::list<Node> order;  // the one used last first
    std::unordered_map<std::string, typename std::list<Node>::iterator> by_key;
    uint64_t bytes = 0;
    Ticket writes = 0;
  };

  Shard& ShardOf(absl::string_view key) { return shards_[std::hash<std::string>()(std::string(key)) % kShards]; }

  static void Remove(Shard* shard, const std::string& key) {
    const auto found = shard->by_key.find(key);
    if (found == shard->by_key.end()) return;
    shard->bytes -= found->second->bytes;
    shard->order.erase(found->second);
    shard->by_key.erase(found);
  }

  const uint64_t max_shard_bytes_;
  std::array<Shard, kShards> shards_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_LAYER_RECENT_RECORDS_H_
