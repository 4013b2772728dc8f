#include "server/tuning/host_window.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "runtime/memory/shared_memory.h"

namespace tessera::server {
namespace {

// Large enough that the way to the executor and back is little beside the copy, small enough to be
// registered with a GPU in no time.
constexpr uint64_t kWindowBytes = 4 << 20;

absl::Status ReadAll(const RegionPlace& from, uint64_t bytes, char* to) {
  const Region& region = *from.region;
  for (uint64_t done = 0; done < bytes;) {
    ssize_t got = pread(region.fd(), to + done, bytes - done,
                        static_cast<off_t>(region.description().offset + from.offset + done));
    if (got <= 0) return absl::ErrnoToStatus(got == 0 ? EIO : errno, "reading memory of a launch");
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const char* from, uint64_t bytes, const RegionPlace& to) {
  const Region& region = *to.region;
  for (uint64_t done = 0; done < bytes;) {
    ssize_t put = pwrite(region.fd(), from + done, bytes - done,
                         static_cast<off_t>(region.description().offset + to.offset + done));
    if (put <= 0) return absl::ErrnoToStatus(errno, "writing scratch memory");
    done += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

RegionPlace Behind(const RegionPlace& place, uint64_t bytes) {
  return {place.region, place.offset + bytes};
}

Device* HomeOf(const RegionPlace& place) { return place.region->description().home; }

// Calls `run` for parts of at most the window's size.
absl::Status ByParts(uint64_t bytes,
                     absl::FunctionRef<absl::Status(uint64_t done, uint64_t part)> run) {
  for (uint64_t done = 0; done < bytes; done += kWindowBytes)
    RETURN_IF_ERROR(run(done, std::min(kWindowBytes, bytes - done)));
  return absl::OkStatus();
}

}  // namespace

absl::Status HostWindow::Open() {
  if (window_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(runtime::UniqueFd fd,
                   runtime::CreateSealedMemory("tessera-tuner", kWindowBytes));
  RegionDescription description;
  description.size = kWindowBytes;
  description.kind = "allocated";
  window_ = sessions_->MakeRegion(std::move(description), std::move(fd));
  return absl::OkStatus();
}

absl::Status HostWindow::Read(const RegionPlace& from, uint64_t bytes, char* to) {
  if (HomeOf(from) == nullptr) return ReadAll(from, bytes, to);
  RETURN_IF_ERROR(Open());
  return ByParts(bytes, [&](uint64_t done, uint64_t part) -> absl::Status {
    RETURN_IF_ERROR(CopyMemory(Behind(from, done), {window_, 0}, part, HomeOf(from)));
    return ReadAll({window_, 0}, part, to + done);
  });
}

absl::Status HostWindow::Write(const char* from, uint64_t bytes, const RegionPlace& to) {
  if (HomeOf(to) == nullptr) return WriteAll(from, bytes, to);
  RETURN_IF_ERROR(Open());
  return ByParts(bytes, [&](uint64_t done, uint64_t part) -> absl::Status {
    RETURN_IF_ERROR(WriteAll(from + done, part, {window_, 0}));
    return CopyMemory({window_, 0}, Behind(to, done), part, HomeOf(to));
  });
}

absl::Status HostWindow::Fill(char byte, uint64_t bytes, const RegionPlace& to) {
  const std::string pattern(std::min(bytes, kWindowBytes), byte);
  if (HomeOf(to) != nullptr) {
    RETURN_IF_ERROR(Open());
    RETURN_IF_ERROR(WriteAll(pattern.data(), pattern.size(), {window_, 0}));
  }
  return ByParts(bytes, [&](uint64_t done, uint64_t part) {
    if (HomeOf(to) == nullptr) return WriteAll(pattern.data(), part, Behind(to, done));
    return CopyMemory({window_, 0}, Behind(to, done), part, HomeOf(to));
  });
}

absl::Status HostWindow::Copy(const RegionPlace& from, const RegionPlace& to, uint64_t bytes) {
  if (HomeOf(from) == nullptr || HomeOf(to) == nullptr) {
    std::string part_of_it(std::min(bytes, kWindowBytes), '\0');
    return ByParts(bytes, [&](uint64_t done, uint64_t part) -> absl::Status {
      RETURN_IF_ERROR(Read(Behind(from, done), part, part_of_it.data()));
      return Write(part_of_it.data(), part, Behind(to, done));
    });
  }
  RETURN_IF_ERROR(Open());
  return ByParts(bytes, [&](uint64_t done, uint64_t part) -> absl::Status {
    RETURN_IF_ERROR(CopyMemory(Behind(from, done), {window_, 0}, part, HomeOf(from)));
    return CopyMemory({window_, 0}, Behind(to, done), part, HomeOf(to));
  });
}

}  // namespace tessera::server
