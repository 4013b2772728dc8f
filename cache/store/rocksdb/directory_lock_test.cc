#include "cache/store/rocksdb/directory_lock.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "cache/store/conformance/temporary_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::HasSubstr;

TEST(DirectoryLock, RefusesASecondHolderAndNamesTheFirst) {
  TemporaryDirectory directory;
  const auto first = DirectoryLock::Take(directory.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DirectoryLock::Take(directory.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(directory.path()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("process ", getpid(), ";")));
}

TEST(DirectoryLock, IsFreeAgainAfterTheHolder) {
  TemporaryDirectory directory;
  ASSERT_TRUE(DirectoryLock::Take(directory.path()).ok());
  EXPECT_TRUE(DirectoryLock::Take(directory.path()).ok());
}

TEST(DirectoryLock, SaysWhyThereIsNoLockFile) {
  const auto lock = DirectoryLock::Take("/nonexistent");
  EXPECT_EQ(lock.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lock.status().message()), HasSubstr("/nonexistent/lock: No such file"));
}

}  // namespace
}  // namespace tessera::cache
