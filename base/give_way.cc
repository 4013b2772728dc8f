#include "base/give_way.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tessera {
namespace {

// Zero: not enabled.
long period_nanoseconds = 0;

// Made at a thread's first use, and gone with the thread.
class ThreadTimer {
 public:
  ThreadTimer() {
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    works_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  }
  ~ThreadTimer() {
    if (works_) timer_delete(timer_);
  }
  void Set(long nanoseconds) {
    if (!works_) return;
    itimerspec period = {};
    period.it_value.tv_nsec = period.it_interval.tv_nsec = nanoseconds;
    timer_settime(timer_, 0, &period, nullptr);
  }

 private:
  timer_t timer_ = {};
  bool works_ = false;
};

ThreadTimer& TimerOfThisThread() {
  thread_local ThreadTimer timer;
  return timer;
}

}  // namespace

void EnableGiveWay(std::chrono::microseconds period) {
  struct sigaction action = {};
  action.sa_handler = [](int) { sched_yield(); };
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGRTMIN, &action, nullptr) == 0)
    period_nanoseconds = std::chrono::nanoseconds(period).count();
}

GiveWay::GiveWay() {
  if (period_nanoseconds > 0) TimerOfThisThread().Set(period_nanoseconds);
}

GiveWay::~GiveWay() {
  if (period_nanoseconds > 0) TimerOfThisThread().Set(0);
}

}  // namespace tessera
