#include "server/session/detached_launches.h"

#include <optional>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

using tessera::v1::LaunchResponse;
using tessera::v1::SynchronizeResponse;

LaunchResponse Failure(uint64_t tag) {
  LaunchResponse failure;
  failure.set_tag(tag);
  failure.set_code(14);
  return failure;
}

TEST(DetachedLaunchesTest, AwaitsThoseThatBeganBeforeAndNoOthers) {
  DetachedLaunches launches;
  std::optional<SynchronizeResponse> answer;
  auto await = [&] { launches.Await([&](SynchronizeResponse got) { answer = std::move(got); }); };
  await();
  ASSERT_TRUE(answer.has_value());  // there were none
  answer.reset();
  const uint64_t first = launches.Begin(), second = launches.Begin();
  await();
  const uint64_t later = launches.Begin();
  launches.End(second, nullptr);
  EXPECT_FALSE(answer.has_value());
  const LaunchResponse failure = Failure(7);
  launches.End(first, &failure);
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->failures_size(), 1);
  EXPECT_EQ(answer->failures(0).tag(), 7u);
  answer.reset();
  await();
  EXPECT_FALSE(answer.has_value());
  launches.End(later, nullptr);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->failures_size(), 0);  // told once
}

TEST(DetachedLaunchesTest, SeveralMayAwaitAndLaterBeginningsHoldUpNobody) {
  DetachedLaunches launches;
  int answers = 0;
  const uint64_t first = launches.Begin();
  launches.Await([&](SynchronizeResponse) { ++answers; });
  const uint64_t second = launches.Begin();
  launches.Await([&](SynchronizeResponse) { ++answers; });
  launches.End(second, nullptr);
  EXPECT_EQ(answers, 0);
  launches.End(first, nullptr);
  EXPECT_EQ(answers, 2);
}

TEST(DetachedLaunchesTest, KeepsTheLatestFailuresAndCountsTheRest) {
  DetachedLaunches launches;
  for (uint64_t tag = 0; tag < DetachedLaunches::kMaxFailures + 5; ++tag) {
    const LaunchResponse failure = Failure(tag);
    launches.End(launches.Begin(), &failure);
  }
  launches.Await([](SynchronizeResponse got) {
    EXPECT_EQ(got.failures_size(), static_cast<int>(DetachedLaunches::kMaxFailures));
    EXPECT_EQ(got.failures(0).tag(), 5u);
    EXPECT_EQ(got.failures_dropped(), 5u);
  });
}

}  // namespace
}  // namespace tessera::server
