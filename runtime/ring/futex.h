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

// Polls `ready` for about `budget_ns` and says whether it came true.
//
// It gives the core away every half microsecond: where both sides share a core the other one runs
// at once, and on a core of its own that costs next to nothing. A thread that computes on the same
// core, though, keeps it for milliseconds. Where that happened a tenth of a second ago or less, it
// polls for kContendedPollNs at most and gives nothing away: who sleeps on a futex instead is
// scheduled before such threads when it wakes.
template <typename Ready>
bool PollFor(uint64_t budget_ns, Ready ready);

inline constexpr uint64_t kContendedPollNs = 5000;

// Whether this process may run on so many cores that a thread which polls for a while takes none
// from anybody who computes.
bool HasCoresToPoll();


bool CoreIsContended();
void PauseBriefly();  // about half a microsecond
void GiveCoreAway();  // and notes what it cost

template <typename Ready>
bool PollFor(uint64_t budget_ns, Ready ready) {
  if (ready()) return true;
  if (budget_ns == 0) return false;
  const bool contended = CoreIsContended();
  if (contended && budget_ns > kContendedPollNs) budget_ns = kContendedPollNs;
  const uint64_t deadline = MonotonicNanos() + budget_ns;
  do {
    PauseBriefly();
    if (!contended) GiveCoreAway();
    if (ready()) return true;
  } while (MonotonicNanos() < deadline);
  return false;
}

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_RING_FUTEX_H_
