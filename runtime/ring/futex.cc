#include "runtime/ring/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tessera::runtime {
namespace {

constexpr uint64_t kLongYieldNs =
    500000;  // the other side needs a few microseconds; a computing thread takes its slice
constexpr int kManyCores = 8;
constexpr uint64_t kContendedForNs =
    100000000;  // so one launch in a tenth of a second pays for finding out
std::atomic<uint64_t> contended_until_ns{0};

uint32_t* Word(std::atomic<uint32_t>* word) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
                "a futex is a plain 32-bit word");
  return reinterpret_cast<uint32_t*>(word);
}

}  // namespace

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout = {static_cast<time_t>(timeout_ns / 1000000000),
                      static_cast<long>(timeout_ns % 1000000000)};
  syscall(SYS_futex, Word(word), FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, Word(word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

uint64_t MonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

bool HasCoresToPoll() {
  static const bool has = [] {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) >= kManyCores;
  }();
  return has;
}

bool CoreIsContended() {
  return MonotonicNanos() < contended_until_ns.load(std::memory_order_relaxed);
}

void PauseBriefly() {
  for (int i = 0; i < 16; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

void GiveCoreAway() {
  const uint64_t before = MonotonicNanos();
  sched_yield();
  const uint64_t after = MonotonicNanos();
  if (after - before > kLongYieldNs)
    contended_until_ns.store(after + kContendedForNs, std::memory_order_relaxed);
}

}  // namespace tessera::runtime
