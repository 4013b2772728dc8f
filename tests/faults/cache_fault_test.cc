// The daemon while its disk is full, read-only, emptied underneath or damaged, and with a clock that was set back: launches
// go on, and what was lost is named in the state of the cache and in the log.
//
// The tests of disks mount small file systems in a namespace of their own; where that is not allowed they are skipped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kPlus[] = R"py(
import triton
import triton.language as tl


@triton.jit
def plus(x_ptr, out_ptr, n, C: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + C, mask=i < n)
)py";

std::string why_no_mounts;  // empty: this process may mount

// Before any thread exists.
void EnterNamespace() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    why_no_mounts = absl::StrCat("no namespace of its own: ", std::strerror(errno));
    return;
  }
  if (user != 0) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
}

class CacheFaultTest : public DaemonFixture {
 protected:
  CacheFaultTest() {
    const char* folder = std::getenv("TEST_TMPDIR");
    folder_ = absl::StrCat(folder != nullptr ? folder : "/tmp", "/cache_fault.XXXXXX");
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~CacheFaultTest() override {
    client_.reset();
    daemon_.reset();
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  // False: mounts are not allowed here.
  bool MountSmall() {
    if (!why_no_mounts.empty()) return false;
    mounted_ = mount("small", folder_.c_str(), "tmpfs", 0, "size=12m") == 0;
    if (!mounted_) why_no_mounts = absl::StrCat("mounting: ", std::strerror(errno));
    return mounted_;
  }

  // "hit", "compiled", or what went wrong.
  std::string Launch(int c) {
    const std::string module = RegisterText(kPlus);
    auto buffer = Allocate(8192);
    float* x = buffer->as<float>();
    for (int i = 0; i < 100; ++i) x[i] = static_cast<float>(i);
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("plus");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", *buffer, DType::kFp32, {100});
    *launch.add_arguments() = TensorArgument("out_ptr", *buffer, DType::kFp32, {100}, 4096);
    *launch.add_arguments() = IntArgument("n", 100);
    *launch.add_arguments() = ConstexprArgument("C", IntConstant(c));
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(128));
    auto response = client_->Launch(launch, absl::Seconds(60));
    if (!response.ok()) return response.status().ToString();
    for (int i = 0; i < 100; ++i)
      if (x[1024 + i] != static_cast<float>(i + c)) return absl::StrCat("wrong result at ", i);
    return response->outcome();
  }
  v1::CacheStatsResponse Stats() {
    grpc::ClientContext context;
    v1::CacheStatsResponse stats;
    EXPECT_TRUE(client_->cache().Stats(&context, {}, &stats).ok());
    return stats;
  }
  // The cache's maintenance looks at the disk every few seconds.
  std::string AwaitState(const std::string& start) {
    const absl::Time deadline = absl::Now() + absl::Seconds(40);
    std::string state;
    while (absl::Now() < deadline) {
      state = Stats().state();
      if (absl::StartsWith(state, start)) break;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return state;
  }
  std::string Log() { return ReadText(daemon_->log_path()); }

  std::string folder_;
  bool mounted_ = false;
};

TEST_F(CacheFaultTest, AFullDiskDegradesToMemoryAndRecovers) {
  if (!MountSmall()) GTEST_SKIP() << why_no_mounts;
  StartDaemon(folder_ + "/state");
  ASSERT_EQ(Launch(1), "compiled");
  {
    // What somebody else left no room with.
    std::ofstream filler(folder_ + "/filler", std::ios::binary);
    const std::string block(64 << 10, 'x');
    while (filler << block << std::flush) {
    }
  }
  for (int c = 2; c < 30; ++c) ASSERT_EQ(Launch(c), "compiled") << c;
  EXPECT_THAT(AwaitState("memory only"), HasSubstr("No space left"));
  EXPECT_THAT(Log(), HasSubstr("No space left"));
  for (int c = 1; c < 30; ++c) ASSERT_EQ(Launch(c), "hit") << c;
  fs::remove(folder_ + "/filler");
  EXPECT_EQ(AwaitState("ok"), "ok");
  EXPECT_THAT(Log(), HasSubstr("takes writes again"));
  ASSERT_EQ(Launch(30), "compiled");
  // What was compiled meanwhile has reached the disk.
  StartDaemon(folder_ + "/state");
  for (int c = 1; c <= 30; ++c) ASSERT_EQ(Launch(c), "hit") << c;
  EXPECT_EQ(Status().compiles(), 0u);
}

TEST_F(CacheFaultTest, AReadOnlyFileSystemIsReadAndNotWritten) {
  if (!MountSmall()) GTEST_SKIP() << why_no_mounts;
  StartDaemon(folder_ + "/state");
  ASSERT_EQ(Launch(1), "compiled");
  client_.reset();
  daemon_.reset();
  ASSERT_EQ(mount("small", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=12m"), 0) << std::strerror(errno);
  StartDaemon(folder_ + "/state");
  EXPECT_EQ(Launch(1), "hit");
  EXPECT_EQ(Launch(2), "compiled");
  EXPECT_EQ(Launch(2), "hit");
  EXPECT_THAT(Stats().state(), AllOf(StartsWith("read only"), HasSubstr("Read-only file system")));
  EXPECT_THAT(Log(), HasSubstr("Read-only file system"));
  ASSERT_EQ(mount("small", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=12m"), 0) << std::strerror(errno);
  EXPECT_EQ(AwaitState("ok"), "ok");
  StartDaemon(folder_ + "/state");
  EXPECT_EQ(Launch(2), "hit");
}

TEST_F(CacheFaultTest, ADirectoryEmptiedUnderneathIsMadeGood) {
  StartDaemon(folder_ + "/state");
  for (int c = 1; c < 5; ++c) ASSERT_EQ(Launch(c), "compiled");
  fs::remove_all(folder_ + "/state");
  for (int c = 1; c < 5; ++c) EXPECT_EQ(Launch(c), "hit");
  EXPECT_EQ(Launch(5), "compiled");
  const absl::Time deadline = absl::Now() + absl::Seconds(40);
  while (!fs::exists(folder_ + "/state/db.v2/CURRENT") && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(AwaitState("ok"), "ok");
  EXPECT_THAT(Log(), HasSubstr("was deleted"));
  EXPECT_EQ(Launch(6), "compiled");
  StartDaemon(folder_ + "/state");
  for (int c = 1; c < 7; ++c) EXPECT_EQ(Launch(c), "hit") << c;
}

TEST_F(CacheFaultTest, ADatabaseThatDoesNotOpenIsSetAsideWhileTheDaemonServes) {
  StartDaemon(folder_ + "/state");
  ASSERT_EQ(Launch(1), "compiled");
  client_.reset();
  daemon_.reset();
  for (const auto& entry : fs::directory_iterator(folder_ + "/state/db.v2")) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "MANIFEST") || name == "CURRENT" || entry.path().extension() == ".log")
      std::ofstream(entry.path(), std::ios::trunc) << "nonsense";
  }
  StartDaemon(folder_ + "/state");
  EXPECT_THAT(Launch(1), ::testing::AnyOf("compiled", "hit"));
  EXPECT_EQ(Stats().state(), "ok");
  EXPECT_THAT(Log(), AllOf(HasSubstr("is damaged"), HasSubstr("set aside as")));
  StartDaemon(folder_ + "/state");
  EXPECT_EQ(Launch(1), "hit");
}

TEST_F(CacheFaultTest, ASecondDaemonOnOneStateDirectoryIsRefusedByName) {
  StartDaemon(folder_ + "/state");
  PrivateDaemonOptions options;
  options.binary = Runfile("server/tesserad");
  options.state_dir = folder_ + "/state";
  const auto second = PrivateDaemon::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("is in use by process"), HasSubstr(std::to_string(Status().pid()))));
  EXPECT_EQ(Launch(1), "compiled");
}

// The records lie in the future, as after a clock that was wrong and is set right.
TEST_F(CacheFaultTest, RecordsFromTheFutureDoNoHarm) {
  StartDaemon(folder_ + "/state");
  ASSERT_EQ(Launch(1), "compiled");
  client_.reset();
  daemon_.reset();
  const int64_t future = absl::ToUnixSeconds(absl::Now()) + 20 * 365 * 24 * 3600;
  {
    auto store = cache::OpenRocksdbStore(folder_ + "/state");
    ASSERT_TRUE(store.ok()) << store.status();
    std::vector<std::pair<std::string, storage::ArtifactRecord>> artifacts;
    ASSERT_TRUE((*store)
                    ->ForEach("artifacts", "",
                              [&](absl::string_view key, absl::string_view payload) {
                                storage::ArtifactRecord record;
                                record.ParseFromString(std::string(payload));
                                artifacts.emplace_back(std::string(key), record);
                                return true;
                              })
                    .ok());
    ASSERT_EQ(artifacts.size(), 1u);
    cache::CompileKey key{artifacts[0].second.key(), artifacts[0].first};
    artifacts[0].second.set_created_unix_seconds(future);
    ASSERT_TRUE((*store)->PutArtifact(key, artifacts[0].second).ok());
    (*store)->AddUsage(key, "plus", "m", 5, future);
    // A failure that would be remembered for twenty years.
    key.canonical += " ";
    storage::FailureRecord failure;
    failure.set_code(3);
    failure.set_message("from the future");
    failure.set_created_unix_seconds(future);
    failure.set_expires_unix_seconds(future + 600);
    ASSERT_TRUE((*store)->PutFailure(key, failure).ok());
  }
  StartDaemon(folder_ + "/state");
  EXPECT_EQ(Launch(1), "hit");
  EXPECT_EQ(Launch(2), "compiled");
  grpc::ClientContext context;
  v1::CacheCollectResponse report;
  EXPECT_TRUE(client_->cache().Collect(&context, {}, &report).ok());
  EXPECT_EQ(report.entries(), 0u);
  const v1::CacheStatsResponse stats = Stats();
  for (const auto& family : stats.families())
    if (family.name() == "failures") EXPECT_EQ(family.entries(), 0u);
}

// A damaged entry is dropped, named, kept for a person, and built again.
TEST_F(CacheFaultTest, ADamagedEntryIsQuarantinedCountedAndRebuilt) {
  StartDaemon(folder_ + "/state");
  ASSERT_EQ(Launch(1), "compiled");
  client_.reset();
  daemon_.reset();
  {
    auto store = cache::OpenRocksdbStore(folder_ + "/state");
    ASSERT_TRUE(store.ok());
    // A value under a key that is not its own.
    cache::CompileKey other{"other", ""};
    ASSERT_TRUE((*store)
                    ->ForEach("artifacts", "",
                              [&](absl::string_view key, absl::string_view) {
                                other.hash = std::string(key);
                                return false;
                              })
                    .ok());
    ASSERT_TRUE((*store)->PutArtifact(other, {}).ok());
  }
  StartDaemon(folder_ + "/state");
  grpc::ClientContext context;
  v1::CacheVerifyResponse verified;
  ASSERT_TRUE(client_->cache().Verify(&context, {}, &verified).ok());
  EXPECT_EQ(verified.damaged(), 1u);
  EXPECT_THAT(verified.findings(0), HasSubstr("holds another key"));
  EXPECT_EQ(Stats().corrupt_entries(), 1u);
  EXPECT_EQ(Launch(1), "compiled");
  // The quarantine outlives the daemon.
  StartDaemon(folder_ + "/state");
  grpc::ClientContext listing;
  v1::CacheListRequest request;
  request.set_family("quarantine");
  v1::CacheListResponse list;
  ASSERT_TRUE(client_->cache().List(&listing, request, &list).ok());
  EXPECT_EQ(list.entries_size(), 1);
  EXPECT_EQ(Launch(1), "hit");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::EnterNamespace();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
