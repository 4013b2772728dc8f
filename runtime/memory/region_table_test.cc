#include "runtime/memory/region_table.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/memory/shared_memory.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kPage = 4096;

UniqueFd Memory(uint64_t bytes) { return *CreateSealedMemory("test", bytes); }

UniqueFd ShrinkableMemory(uint64_t bytes) {
  UniqueFd fd(memfd_create("shrinkable", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

char* At(const MappedRegion& region, uint64_t offset) { return region.mapping.data() + offset; }

// Runs `body` in a child, because it installs handlers or dies; returns wait's status.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(RegionTableTest, MapsFromAnyOffset) {
  UniqueFd fd = Memory(3 * kPage);
  ASSERT_EQ(pwrite(fd.get(), "tensor", 6, 5000), 6);
  RegionTable table;
  ASSERT_TRUE(table.Add(1, fd.get(), 5000, 100, false).ok());
  auto region = table.Find(1);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(std::string(At(**region, 0), 6), "tensor");
  *At(**region, 99) = 'z';
  char last = 0;
  ASSERT_EQ(pread(fd.get(), &last, 1, 5099), 1);
  EXPECT_EQ(last, 'z');
}

TEST(RegionTableTest, ResolvesOnlyWhatIsInside) {
  UniqueFd fd = Memory(kPage);
  RegionTable table;
  ASSERT_TRUE(table.Add(1, fd.get(), 0, 1000, false).ok());
  auto region = *table.Find(1);
  EXPECT_EQ(*region->Resolve(0, 1000), reinterpret_cast<uint64_t>(region->mapping.data()));
  EXPECT_TRUE(region->Resolve(1000, 0).ok());
  EXPECT_EQ(region->Resolve(1, 1000).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(region->Resolve(1001, 0).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(region->Resolve(~uint64_t{0}, 2).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(region->Resolve(2, ~uint64_t{0}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(RegionTableTest, RefusesMoreThanTheMemoryHolds) {
  UniqueFd fd = Memory(kPage);
  RegionTable table;
  EXPECT_EQ(table.Add(1, fd.get(), 0, kPage + 1, false).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(table.Add(1, fd.get(), kPage, 1, false).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(table.Add(1, fd.get(), ~uint64_t{0}, 2, false).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Add(1, fd.get(), 0, 0, false).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Find(1).status().code(), absl::StatusCode::kNotFound);
}

TEST(RegionTableTest, WritableMappingNeedsAWritableDescriptor) {
  UniqueFd fd = Memory(kPage);
  UniqueFd read_only(
      open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  RegionTable table;
  EXPECT_EQ(table.Add(1, read_only.get(), 0, kPage, false).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(table.Add(2, read_only.get(), 0, kPage, true).ok());
}

TEST(RegionTableTest, RemovedRegionStaysMappedForThoseWhoHoldIt) {
  UniqueFd fd = Memory(kPage);
  RegionTable table;
  ASSERT_TRUE(table.Add(1, fd.get(), 0, kPage, false).ok());
  auto held = *table.Find(1);
  table.Remove(1);
  EXPECT_EQ(table.Find(1).status().code(), absl::StatusCode::kNotFound);
  *At(*held, 0) = 'x';
  EXPECT_EQ(table.Add(1, fd.get(), 0, kPage, false), absl::OkStatus());
}

TEST(RegionTableTest, AccessOutsideARegionIsFatalAndNamed) {
  UniqueFd record_memory = Memory(kPage);
  auto* record = static_cast<FaultRecord*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, record_memory.get(), 0));
  ASSERT_NE(record, MAP_FAILED);
  for (const int64_t offset : {int64_t{kPage} + 40, int64_t{-8}, int64_t{kGuardBytes}}) {
    record->signal.store(0);
    const int status = InChild([&] {
      InstallFaultGuard(record);
      RegionTable table;
      if (!table.Add(9, Memory(kPage).get(), 0, kPage - 24, false).ok()) _exit(1);
      auto region = *table.Find(9);
      region->mapping.data()[offset] = 1;
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
    EXPECT_EQ(record->signal.load(), static_cast<uint32_t>(SIGSEGV));
    EXPECT_EQ(record->region.load(), 9u);
    EXPECT_EQ(record->region_offset.load(), offset);
    EXPECT_EQ(record->region_bytes.load(), kPage - 24);
  }
  munmap(record, kPage);
}

TEST(RegionTableTest, WritingToAReadOnlyRegionIsFatal) {
  const int status = InChild([] {
    signal(SIGSEGV, SIG_DFL);  // sanitizers have handlers of their own
    RegionTable table;
    if (!table.Add(1, Memory(kPage).get(), 0, kPage, true).ok()) _exit(1);
    *At(**table.Find(1), 0) = 1;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

// The client truncates its memory while several threads work on it: nobody dies, and the loss is
// noticed.
TEST(RegionTableTest, SurvivesTruncationInAnyThread) {
  const int status = InChild([] {
    static FaultRecord record;
    InstallFaultGuard(&record);
    constexpr uint64_t kBytes = 64 * kPage;
    UniqueFd fd = ShrinkableMemory(kBytes);
    UniqueFd other = ShrinkableMemory(kBytes);
    RegionTable table;
    if (!table.Add(1, fd.get(), 0, kBytes, false).ok() ||
        !table.Add(2, other.get(), 0, kBytes, false).ok())
      _exit(1);
    auto region = *table.Find(1);
    std::memset(At(*region, 0), 1, kBytes);
    std::memset(At(**table.Find(2), 0), 1, kBytes);
    if (!region->CheckIntact().ok()) _exit(2);
    if (ftruncate(fd.get(), kPage) != 0) _exit(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {  // each on bytes of its own
        volatile char* bytes = At(*region, i);
        for (uint64_t byte = 0; byte < kBytes; byte += 512) bytes[byte] = bytes[byte] + 1;
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (region->CheckIntact().code() != absl::StatusCode::kFailedPrecondition) _exit(4);
    if (*At(*region, 0) != 2) _exit(5);  // what was not cut off is still the client's
    if (!(*table.Find(2))->CheckIntact().ok()) _exit(6);
  });
  EXPECT_TRUE(WIFEXITED(status)) << "died of signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tessera::runtime
