// Which artifacts go when the cache outgrows its budget: a pure function.
#ifndef TESSERA_CACHE_STORE_EVICTION_H_
#define TESSERA_CACHE_STORE_EVICTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::cache {

struct EvictionBudget {
  uint64_t max_bytes = 0;               // keys and payloads of artifacts and modules, before compression; 0: no limit
  uint64_t max_entries_per_kernel = 0;  // a kernel is its name, source and target; 0: no limit
};

struct EvictionCandidate {
  std::string key;
  std::string kernel;  // equal for the artifacts of one kernel
  uint64_t bytes = 0;
  double compile_seconds = 0;  // 0: not known
  uint64_t launches = 0;
  int64_t last_use_unix_seconds = 0;  // of its last launch, else of its creation
  bool in_use = false;
};

struct Eviction {
  size_t candidate;
  const char* reason;  // "over the budget", "over the kernel's limit"
};

// What is lost when it goes: seconds of compiling for each byte, times how often it was launched, halved for each week
// that it was not. A time in the future counts as now: the clock was set back.
double UtilityOf(const EvictionCandidate& candidate, int64_t now_unix_seconds);

// The least useful first, until all limits hold; never one that is in use. Beyond `max_bytes` it goes on to nine
// tenths of them, so that the next artifact does not begin it again. `other_bytes` count against the budget too.
std::vector<Eviction> PlanEviction(const std::vector<EvictionCandidate>& candidates, const EvictionBudget& budget,
                                   uint64_t other_bytes, int64_t now_unix_seconds);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_EVICTION_H_
