// Checks on memory that a client offers, before an executor maps it.
//
// The rule: nothing that the client does later may make an access fault. A memfd must be sealed against shrinking. POSIX
// shm cannot be sealed: a client that truncates it costs the executor its life (it is restarted, and only launches in
// flight fail), so it is accepted from clients that own the object, and may be switched off.
#ifndef TESSERA_SERVER_SESSION_SHARED_MEMORY_H_
#define TESSERA_SERVER_SESSION_SHARED_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/session/unique_fd.h"

namespace tessera::server {

// The part of a descriptor that becomes a region. Returns its size in bytes (`size` 0: to the end).
// INVALID_ARGUMENT: `offset` is no multiple of 4096, or the part does not lie inside.
absl::StatusOr<uint64_t> CheckExtent(int fd, uint64_t offset, uint64_t size);

// A memfd sealed against shrinking, writable unless `read_only`. INVALID_ARGUMENT says what is wrong and how to do it.
absl::Status CheckSealedMemfd(int fd, bool read_only);

// Opens POSIX shm `name` ("/weights" or "weights"). PERMISSION_DENIED unless `owner` owns it.
absl::StatusOr<UniqueFd> OpenPosixShm(const std::string& name, uid_t owner, bool read_only);

// New memory of `size` bytes, zeroed, sealed against any change of size.
absl::StatusOr<UniqueFd> CreateSealedMemfd(uint64_t size);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_SHARED_MEMORY_H_
