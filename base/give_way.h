// Threads of low priority that give way at once.
//
// Not every kernel preempts a thread that computes when one of higher priority wakes up on its core: it may run on until
// the next timer tick, 1 to 10 ms. Measured on Linux 6.18 with ticks of 4 ms: waits of up to 4 ms behind compiles of idle
// priority. So it yields by itself, often.
#ifndef TESSERA_BASE_GIVE_WAY_H_
#define TESSERA_BASE_GIVE_WAY_H_

#include <chrono>

namespace tessera {

// From now on threads of this process give way, once in `period`, while a GiveWay of theirs lives: what wakes up waits that
// long at most. For processes that compute in the background; uses the signal SIGRTMIN. Before threads start.
void EnableGiveWay(std::chrono::microseconds period);

// While it lives the calling thread is interrupted to yield now and then, if EnableGiveWay was called; else it does nothing.
// System calls restart as by SA_RESTART, so that none that waits with a limit should be made meanwhile. Not nested.
class GiveWay {
 public:
  GiveWay();
  ~GiveWay();
  GiveWay(const GiveWay&) = delete;
  GiveWay& operator=(const GiveWay&) = delete;
};

}  // namespace tessera

#endif  // TESSERA_BASE_GIVE_WAY_H_
