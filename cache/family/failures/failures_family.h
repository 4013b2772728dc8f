// Compiles that failed, by the hash of the compile key, until they expire.
#ifndef TESSERA_CACHE_FAMILY_FAILURES_FAILURES_FAMILY_H_
#define TESSERA_CACHE_FAMILY_FAILURES_FAILURES_FAMILY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "cache/family/family.h"
#include "proto/storage/failures.pb.h"

namespace tessera::cache {

const Family& FailuresFamily();

// Also true of a record from the future: the clock was set back, and nobody can say how old it is.
bool Expired(const storage::FailureRecord& record, int64_t now_unix_seconds);

// Printed by `tessera cache ls` (failures_dump.cc).
std::string DumpFailures(absl::string_view key, absl::string_view payload);

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_FAMILY_FAILURES_FAILURES_FAMILY_H_
