#include "server/launch/placement.h"

#include "gtest/gtest.h"
#include "server/device/fake_executor.h"
#include "server/launch/detached_answer.h"
#include "server/session/memory_import.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() {
    auto start = [this]() -> absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> {
      return std::unique_ptr<runtime::ExecutorClient>(new FakeExecutor(&log_));
    };
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      DeviceDescription description;
      description.name = std::string("cuda:") + (uuid[4] == 'a' ? "0" : "1");
      description.gpu.set_uuid(uuid);
      (uuid[4] == 'a' ? gpu_ : other_gpu_) = devices_.Add(std::move(description), start);
    }
    cpu_ = devices_.Add({"cpu:0", "cpu", "", "model", 1}, start);
    session_ = *registry_.Open("test", Peer{1, 1, 1});
  }
  absl::Status Place(const api::LaunchRequest& request, const Device* device) {
    command_ = runtime::LaunchCommand();
    events_.clear();
    return PlaceLaunch(request, *device, *session_, &command_, &events_);
  }
  uint64_t Import(Device* device) {
    return *ImportEvent(&registry_, session_.get(), device, std::string(64, 'e'), "");
  }

  FakeExecutorLog log_;
  Metrics metrics_;
  DeviceTable devices_;
  TaskPool pool_{1};  // closes events with the executors of the devices
  Device *gpu_ = nullptr, *other_gpu_ = nullptr, *cpu_ = nullptr;
  SessionRegistry registry_{SessionLimits(), &pool_, &metrics_};
  std::shared_ptr<Session> session_;
  runtime::LaunchCommand command_;
  std::vector<std::shared_ptr<DeviceEvent>> events_;
};

TEST_F(PlacementTest, KeepsSessionsApartAndPrioritiesWithinWhatThereIs) {
  api::LaunchRequest request;
  request.set_stream(15);
  request.set_priority(1000);
  ASSERT_TRUE(Place(request, gpu_).ok());
  EXPECT_EQ(command_.session, session_->id());
  EXPECT_NE(command_.session, (*registry_.Open("b", Peer{1, 1, 1}))->id());
  EXPECT_EQ(command_.stream, 15u);
  EXPECT_EQ(command_.priority, 16);
  EXPECT_TRUE(Place(request, cpu_).ok());
  request.set_stream(16);
  EXPECT_EQ(Place(request, gpu_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PlacementTest, HoldsTheEventsOfALaunch) {
  api::LaunchRequest request;
  request.add_wait_events(Import(gpu_));
  request.add_signal_events(Import(gpu_));
  ASSERT_TRUE(Place(request, gpu_).ok());
  EXPECT_EQ(command_.waits[0], request.wait_events(0));
  EXPECT_EQ(command_.signals[0], request.signal_events(0));
  EXPECT_EQ(events_.size(), 2u);
}

TEST_F(PlacementTest, RefusesEventsThatAreNotThere) {
  api::LaunchRequest request;
  request.add_wait_events(4711);
  EXPECT_EQ(Place(request, gpu_).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Place(request, cpu_).code(), absl::StatusCode::kInvalidArgument);
  request.set_wait_events(0, Import(other_gpu_));
  const absl::Status other = Place(request, gpu_);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(other.message().find("GPU-a"), absl::string_view::npos) << other;
  EXPECT_NE(other.message().find("GPU-b"), absl::string_view::npos) << other;
  request.clear_wait_events();
  const uint64_t event = Import(gpu_);
  for (int i = 0; i < 65; ++i) request.add_signal_events(event);
  EXPECT_EQ(Place(request, gpu_).code(), absl::StatusCode::kInvalidArgument);
}

TEST(DetachedAnswerTest, AnswersOnceAndKeepsALaterFailure) {
  auto launches = std::make_shared<DetachedLaunches>();
  api::LaunchResponse response;
  response.set_tag(5);
  int answers = 0;
  DetachedAnswer answer(launches, &response, [&](absl::Status status) {
    EXPECT_TRUE(status.ok());
    ++answers;
  });
  answer.Enqueued();
  EXPECT_TRUE(response.enqueued());
  answer.Ended(Error(absl::StatusCode::kUnavailable, "EXECUTOR_DIED", "gone"));
  EXPECT_EQ(answers, 1);
  launches->Await([](api::SynchronizeResponse later) {
    ASSERT_EQ(later.failures_size(), 1);
    EXPECT_EQ(later.failures(0).tag(), 5u);
    EXPECT_EQ(later.failures(0).error().reason(), "EXECUTOR_DIED");
  });
}

TEST(DetachedAnswerTest, AnswersWithTheEndWhereThatComesFirst) {
  auto launches = std::make_shared<DetachedLaunches>();
  api::LaunchResponse response;
  absl::Status answered;
  DetachedAnswer answer(launches, &response, [&](absl::Status status) { answered = status; });
  answer.later()->set_kernel_seconds(2);
  answer.Ended(absl::AbortedError("x > 0"));
  answer.Enqueued();
  EXPECT_EQ(answered.code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(response.enqueued());
  EXPECT_EQ(response.kernel_seconds(), 2);
  launches->Await([](api::SynchronizeResponse later) { EXPECT_EQ(later.failures_size(), 0); });
}

}  // namespace
}  // namespace tessera::server
