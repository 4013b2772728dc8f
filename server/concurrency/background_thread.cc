#include "server/concurrency/background_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tessera::server {
namespace {

constexpr uint64_t kSliceNanoseconds = 100'000;  // the shortest that there is

// As sched_setattr(2) has it; the C library has neither.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = kSliceNanoseconds;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

}  // namespace

void RunInBackground(int nice) {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + nice);
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, thread);
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace tessera::server
