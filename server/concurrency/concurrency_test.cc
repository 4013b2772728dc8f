#include <atomic>
#include <condition_variable>
#include <mutex>

#include "gtest/gtest.h"
#include "server/concurrency/single_flight.h"
#include "server/concurrency/task_pool.h"
#include "server/concurrency/timer.h"

namespace tessera::server {
namespace {

class Latch {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    wake_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool open_ = false;
};

TEST(TaskPool, RunsEverythingThatWasQueuedBeforeItGoes) {
  std::atomic<int> ran{0};
  {
    TaskPool pool(2);
    for (int i = 0; i < 100; ++i) pool.Run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(Timer, CallsInOrderOfTime) {
  Timer timer;
  std::string order;
  Latch done;
  timer.After(absl::Milliseconds(20), [&] {
    order += "b";
    done.Open();
  });
  timer.After(absl::Milliseconds(1), [&] { order += "a"; });
  done.Wait();
  EXPECT_EQ(order, "ab");
}

TEST(Timer, DropsWhatWasCancelled) {
  Timer timer;
  Latch done;
  bool ran = false;
  Timer::Id id = timer.After(absl::Milliseconds(5), [&] { ran = true; });
  timer.Cancel(id);
  timer.After(absl::Milliseconds(10), [&] { done.Open(); });
  done.Wait();
  EXPECT_FALSE(ran);
}

TEST(SingleFlight, GivesOneResultToAllAndOneLeads) {
  Timer timer;
  SingleFlight<int> flights(&timer, "working");
  int sum = 0, leaders = 0;
  auto done = [&](const absl::StatusOr<int>& result, bool led) {
    sum += *result;
    leaders += led;
  };
  EXPECT_TRUE(flights.Join("k", absl::InfiniteDuration(), done));
  EXPECT_FALSE(flights.Join("k", absl::Hours(1), done));
  flights.Finish("k", 21);
  EXPECT_EQ(sum, 42);
  EXPECT_EQ(leaders, 1);
  EXPECT_TRUE(flights.Join("k", absl::InfiniteDuration(), done));
  flights.Finish("k", 0);
}

TEST(SingleFlight, LetsOneCallersDeadlinePassAndKeepsTheOthers) {
  Timer timer;
  SingleFlight<int> flights(&timer, "working");
  Latch late;
  absl::StatusCode code = absl::StatusCode::kOk;
  int result = 0, late_calls = 0;
  flights.Join("k", absl::InfiniteDuration(),
               [&](const absl::StatusOr<int>& r, bool) { result = *r; });
  flights.Join("k", absl::Milliseconds(1), [&](const absl::StatusOr<int>& r, bool) {
    ++late_calls;
    code = r.status().code();
    late.Open();
  });
  late.Wait();
  flights.Finish("k", 7);
  EXPECT_EQ(code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late_calls, 1);
  EXPECT_EQ(result, 7);
}

}  // namespace
}  // namespace tessera::server
