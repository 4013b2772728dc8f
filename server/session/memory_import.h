// From a client's handle to a region of its session.
#ifndef TESSERA_SERVER_SESSION_MEMORY_IMPORT_H_
#define TESSERA_SERVER_SESSION_MEMORY_IMPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device_table.h"
#include "server/session/session_registry.h"

namespace tessera::server {

// The part of a handle that becomes a region.
struct ImportExtent {
  uint64_t offset =
      0;  // bytes; a multiple of 4096, so that alignment inside a region is alignment in memory
  uint64_t size = 0;  // bytes; 0: to the end
  bool read_only = false;
};

// All of these map the region on `device` and add it to the session; they block. Errors carry a
// reason.

// The descriptor offered under `ticket`: a memfd, sealed against shrinking or sealable.
absl::StatusOr<std::shared_ptr<Region>> ImportMemfd(SessionRegistry* sessions, Session* session,
                                                    Device* device, uint64_t ticket,
                                                    const ImportExtent& extent);
// POSIX shm by name, with the rights of the session's peer. A session without a peer has no rights.
absl::StatusOr<std::shared_ptr<Region>> ImportPosixShm(SessionRegistry* sessions, Session* session,
                                                       Device* device, const std::string& name,
                                                       const ImportExtent& extent);
// Memory of a GPU.
struct GpuHandle {
  std::string cuda_ipc;  // a cudaIpcMemHandle_t; or:
  struct Chunk {
    uint64_t ticket = 0;  // of a descriptor: a VMM export
    uint64_t size = 0;    // bytes
  };
  std::vector<Chunk> chunks;
  std::string device_uuid;  // where the client says that it is; may be empty
};
// INVALID_ARGUMENT also for memory of another GPU than `device`; the message has both UUIDs.
absl::StatusOr<std::shared_ptr<Region>> ImportGpuMemory(SessionRegistry* sessions, Session* session,
                                                        Device* device, const GpuHandle& handle,
                                                        const ImportExtent& extent);
// A cudaIpcEventHandle_t; the result has an id of its own, for launches.
absl::StatusOr<uint64_t> ImportEvent(SessionRegistry* sessions, Session* session, Device* device,
                                     const std::string& cuda_ipc, const std::string& device_uuid);
// New memory of the daemon's, zeroed; on a GPU if `device` is one.
absl::StatusOr<std::shared_ptr<Region>> AllocateMemory(SessionRegistry* sessions, Session* session,
                                                       Device* device, uint64_t size);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_MEMORY_IMPORT_H_
