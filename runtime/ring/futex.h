// Sleeping on a word of shared memory, across processes, and polling briefly before that.
#ifndef TESSERA_RUNTIME_RING_FUTEX_H_
#define TESSERA_RUNTIME_RING_FUTEX_H_

#include <atomic>
#include <cstdint>

namespace tessera::runtime {

// Sleeps while `word` holds `expected`, for `timeout_ns` at most. May also return for no reason.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);
// Wakes one sleeper.
void FutexWake(std::atomic<uint32_t>* word);

// CLOCK_MONOTONIC, the same in all processes of the machine.
uint64_t MonotonicNanos();

// Polls `ready` for about `budget_ns` and says whether it came true. Gives the core away every half microsecond: where
// both sides share a core the other one gets to run at once, and on an idle core that costs next to nothing.
template <typename Ready>
bool PollFor(uint64_t budget_ns, Ready ready);

void PauseBriefly();  // about half a microsecond, then lets others run

template <typename Ready>
bool PollFor(uint64_t budget_ns, Ready ready) {
  if (ready()) return true;
  if (budget_ns == 0) return false;
  const uint64_t deadline = MonotonicNanos() + budget_ns;
  do {
    PauseBriefly();
    if (ready()) return true;
  } while (MonotonicNanos() < deadline);
  return false;
}

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_RING_FUTEX_H_
