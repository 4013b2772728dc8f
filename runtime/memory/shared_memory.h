// Memory that processes share: made here, or imported from a client.
//
// What is mapped must not shrink under a running kernel. Memory of our own is sealed; a client's
// memfd is sealed when it comes in, or refused. POSIX shm cannot be sealed: the executor survives
// its truncation (truncation_guard.h).
#ifndef TESSERA_RUNTIME_MEMORY_SHARED_MEMORY_H_
#define TESSERA_RUNTIME_MEMORY_SHARED_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/memory/descriptor_socket.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::runtime {

// A memfd of `bytes` zeros that can neither shrink nor grow. It has no name in any file system and
// is gone with its last descriptor and mapping. `label` is for /proc/*/maps. INVALID_ARGUMENT for 0
// bytes.
absl::StatusOr<UniqueFd> CreateSealedMemory(const std::string& label, uint64_t bytes);

// Takes a client's memfd, sealing it against shrinking if that is still to be done, and returns its
// size in bytes. FAILED_PRECONDITION: it can shrink and does not let itself be sealed.
// INVALID_ARGUMENT: no memfd, or empty.
absl::StatusOr<uint64_t> AdmitMemfd(int fd);

struct PosixSharedMemory {
  UniqueFd fd;
  uint64_t bytes = 0;  // at the moment; its owner may truncate it
};

// Opens what the client called shm_open(name) on ("/weights", or "weights" as some libraries spell
// it), with the rights that `client` would have had: the daemon's own, larger rights never open
// anything. PERMISSION_DENIED, NOT_FOUND, INVALID_ARGUMENT (a bad name, an empty object).
absl::StatusOr<PosixSharedMemory> OpenPosixSharedMemory(const std::string& name,
                                                        const PeerCredentials& client,
                                                        bool read_only);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_MEMORY_SHARED_MEMORY_H_
