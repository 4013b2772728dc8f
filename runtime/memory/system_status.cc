#include "runtime/memory/system_status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::runtime {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case EINVAL:
    case EBADF:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EAGAIN:
      return absl::StatusCode::kResourceExhausted;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status SystemStatus(int error, absl::string_view attempt) {
  char buffer[128];
  const char* text = strerror_r(error, buffer, sizeof(buffer));
  return absl::Status(CodeOf(error), absl::StrCat(attempt, ": ", text));
}

}  // namespace tessera::runtime
