#include "server/rpc/socket_polling.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "runtime/ring/futex.h"

namespace tessera::server {
namespace {

std::atomic<uint64_t> polling_ns{0};
std::atomic<uint64_t> poll_until_ns{0};

}  // namespace

void SetSocketPolling(absl::Duration after_launch) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(after_launch);
  polling_ns.store(runtime::HasCoresToPoll() ? static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0))
                                             : 0);
}

void ExpectLaunches() {
  const uint64_t polling = polling_ns.load(std::memory_order_relaxed);
  if (polling != 0)
    poll_until_ns.store(runtime::MonotonicNanos() + polling, std::memory_order_relaxed);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TESSERA_EPOLL_WAIT_IS_TAKEN  // by the sanitizer
#endif
#endif

#ifndef TESSERA_EPOLL_WAIT_IS_TAKEN
// gRPC's calls come here, for a program's own symbols go before those of libraries.
extern "C" int epoll_wait(int poller, epoll_event* events, int most, int timeout_ms) {
  auto wait = [&](int milliseconds) {
    return static_cast<int>(
        syscall(SYS_epoll_pwait, poller, events, most, milliseconds, nullptr, _NSIG / 8));
  };
  const uint64_t until = poll_until_ns.load(std::memory_order_relaxed);
  if (until != 0 && timeout_ms != 0) {
    const uint64_t now = runtime::MonotonicNanos();
    int ready = 0;
    if (now < until)
      runtime::PollFor(until - now, [&] {
        ready = wait(0);
        return ready != 0;
      });
    if (ready != 0) return ready;
  }
  return wait(timeout_ms);
}
#endif

}  // namespace tessera::server
