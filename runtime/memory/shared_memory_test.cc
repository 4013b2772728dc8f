#include "runtime/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

// POSIX shm that goes away with the test.
class NamedMemory {
 public:
  explicit NamedMemory(uint64_t bytes, mode_t mode = 0600)
      : name_(absl::StrCat("/tessera-test-", getpid(), "-", ++count_)) {
    UniqueFd fd(shm_open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    EXPECT_TRUE(fd.open());
    EXPECT_EQ(fchmod(fd.get(), mode), 0);
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  }
  ~NamedMemory() { shm_unlink(name_.c_str()); }
  const std::string& name() const { return name_; }

 private:
  static int count_;
  std::string name_;
};
int NamedMemory::count_ = 0;

PeerCredentials Self() { return {getpid(), geteuid(), getegid()}; }
PeerCredentials Stranger() { return {1, geteuid() + 1000, getegid() + 1000}; }

TEST(SharedMemoryTest, OwnMemoryNeitherShrinksNorGrows) {
  auto fd = CreateSealedMemory("test", 10000);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(ftruncate(fd->get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd->get(), 20000), -1);
  EXPECT_EQ(*AdmitMemfd(fd->get()), 10000u);
  EXPECT_EQ(CreateSealedMemory("test", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SharedMemoryTest, SealsAMemfdThatLetsItself) {
  UniqueFd fd(memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 8192), 0);
  EXPECT_EQ(*AdmitMemfd(fd.get()), 8192u);
  EXPECT_EQ(ftruncate(fd.get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedMemoryTest, RefusesAMemfdThatCanShrink) {
  UniqueFd fd(memfd_create("client", MFD_CLOEXEC));  // not sealable
  ASSERT_EQ(ftruncate(fd.get(), 8192), 0);
  const absl::Status status = AdmitMemfd(fd.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("F_SEAL_SHRINK"), std::string::npos) << status;
}

TEST(SharedMemoryTest, RefusesWhatIsNoMemfdOrEmpty) {
  UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(AdmitMemfd(file.get()).status().code(), absl::StatusCode::kInvalidArgument);
  UniqueFd empty(memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(AdmitMemfd(empty.get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SharedMemoryTest, OpensNamedMemoryOfItsOwner) {
  NamedMemory memory(12345);
  for (const std::string& name : {memory.name(), memory.name().substr(1)}) {
    auto opened = OpenPosixSharedMemory(name, Self(), false);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->bytes, 12345u);
  }
}

// The daemon may run as root: its own rights must open nothing for a client that could not have
// opened it.
TEST(SharedMemoryTest, OpensNamedMemoryOnlyWithTheClientsRights) {
  NamedMemory closed(4096, 0600), readable(4096, 0644), open_to_all(4096, 0666);
  EXPECT_EQ(OpenPosixSharedMemory(closed.name(), Stranger(), true).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(OpenPosixSharedMemory(readable.name(), Stranger(), false).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(OpenPosixSharedMemory(readable.name(), Stranger(), true).ok());
  EXPECT_TRUE(OpenPosixSharedMemory(open_to_all.name(), Stranger(), false).ok());
}

TEST(SharedMemoryTest, RefusesNamesThatAreNone) {
  for (const char* name : {"", "/", "/..", "a/b", "/../etc/passwd"}) {
    EXPECT_EQ(OpenPosixSharedMemory(name, Self(), true).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(OpenPosixSharedMemory("/tessera-there-is-none", Self(), true).status().code(),
            absl::StatusCode::kNotFound);
  NamedMemory empty(0);
  EXPECT_EQ(OpenPosixSharedMemory(empty.name(), Self(), true).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::runtime
