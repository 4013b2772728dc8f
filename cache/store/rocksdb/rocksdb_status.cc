#include "cache/store/rocksdb/rocksdb_status.h"

#include "absl/strings/str_cat.h"

namespace tessera::cache {
namespace {

absl::StatusCode CodeOf(const rocksdb::Status& status) {
  switch (status.code()) {
    case rocksdb::Status::kOk:
      return absl::StatusCode::kOk;
    case rocksdb::Status::kNotFound:
      return absl::StatusCode::kNotFound;
    case rocksdb::Status::kCorruption:
      return absl::StatusCode::kDataLoss;
    case rocksdb::Status::kIOError:
      if (status.IsNoSpace()) return absl::StatusCode::kResourceExhausted;
      return absl::StatusCode::kUnavailable;
    case rocksdb::Status::kInvalidArgument:
      return absl::StatusCode::kInvalidArgument;
    case rocksdb::Status::kNotSupported:  // a write to a database that is open for reading only
    case rocksdb::Status::kShutdownInProgress:
    case rocksdb::Status::kTimedOut:
    case rocksdb::Status::kAborted:
    case rocksdb::Status::kBusy:
    case rocksdb::Status::kTryAgain:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FromRocksdb(const rocksdb::Status& status, absl::string_view attempt) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(CodeOf(status), absl::StrCat(attempt, ": ", status.ToString()));
}

}  // namespace tessera::cache
