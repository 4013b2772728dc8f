#include "base/give_way.h"

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace tessera {
namespace {

volatile sig_atomic_t interrupts = 0;

void Compute(std::chrono::milliseconds duration) {
  auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) continue;
}

TEST(GiveWay, InterruptsTheThreadWhileItLives) {
  {
    GiveWay none;  // not enabled yet: the signal's default action would end the process
    Compute(std::chrono::milliseconds(2));
  }
  EnableGiveWay(std::chrono::microseconds(250));
  struct sigaction count = {}, was = {};
  count.sa_handler = [](int) { interrupts = interrupts + 1; };
  count.sa_flags = SA_RESTART;
  sigaction(SIGRTMIN, &count, &was);
  EXPECT_TRUE(was.sa_flags & SA_RESTART);
  std::thread([] {
    {
      GiveWay give_way;
      Compute(std::chrono::milliseconds(20));
    }
    EXPECT_GT(interrupts, 10);  // 80 on an idle machine
    int before = interrupts;
    Compute(std::chrono::milliseconds(5));
    EXPECT_EQ(interrupts, before);
    GiveWay again;
    Compute(std::chrono::milliseconds(20));
    EXPECT_GT(interrupts, before);
  }).join();
  int before = interrupts;
  Compute(std::chrono::milliseconds(5));  // the thread's timer is gone
  EXPECT_EQ(interrupts, before);
}

}  // namespace
}  // namespace tessera
