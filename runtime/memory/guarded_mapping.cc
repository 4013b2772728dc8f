#include "runtime/memory/guarded_mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/memory/system_status.h"

namespace tessera::runtime {

absl::StatusOr<GuardedMapping> GuardedMapping::Map(int fd, uint64_t offset, uint64_t bytes,
                                                   bool read_only) {
  constexpr uint64_t kMost =
      uint64_t{1} << 46;  // well inside the address space; keeps the sums below from wrapping
  if (bytes == 0 || bytes > kMost || offset > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("mapping ", bytes, " bytes from ", offset, " on is not possible"));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemStatus(errno, "looking at the memory to map");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < offset + bytes) {
    return absl::OutOfRangeError(absl::StrCat("the memory has ", info.st_size,
                                              " bytes, the region would end at ", offset + bytes));
  }
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = offset / page * page;
  const uint64_t page_bytes = (offset + bytes - first + page - 1) / page * page;

  GuardedMapping mapping;
  void* reserved = mmap(nullptr, page_bytes + 2 * kGuardBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return SystemStatus(errno, "reserving address space");
  mapping.reserved_ = static_cast<char*>(reserved);
  mapping.reserved_bytes_ = page_bytes + 2 * kGuardBytes;
  const int protection = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mmap(mapping.pages_begin(), page_bytes, protection, MAP_SHARED | MAP_FIXED, fd,
           static_cast<off_t>(first)) == MAP_FAILED) {
    return SystemStatus(errno, read_only ? "mapping shared memory"
                                         : "mapping shared memory for reading and writing");
  }
  madvise(mapping.pages_begin(), page_bytes,
          MADV_DONTDUMP);  // clients' data stays out of core files
  mapping.data_ = mapping.pages_begin() + (offset - first);
  mapping.bytes_ = bytes;
  return mapping;
}

GuardedMapping& GuardedMapping::operator=(GuardedMapping&& other) noexcept {
  std::swap(reserved_, other.reserved_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedMapping::~GuardedMapping() {
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

}  // namespace tessera::runtime
