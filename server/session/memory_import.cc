#include "server/session/memory_import.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/memory/shared_memory.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

constexpr uint64_t kPageBytes = 4096;

absl::Status WithReason(const absl::Status& status, absl::string_view reason) {
  return Error(status.code(), reason, status.message());
}

// The region's size in bytes.
absl::StatusOr<uint64_t> CheckExtent(const ImportExtent& extent, uint64_t bytes) {
  if (extent.offset % kPageBytes != 0)
    return Error(absl::StatusCode::kInvalidArgument, "OFFSET_NOT_ALIGNED",
                 absl::StrCat("the region's offset ", extent.offset, " is no multiple of ",
                              kPageBytes, "; place tensors by byte_offset instead"));
  if (extent.offset >= bytes || extent.size > bytes - extent.offset)
    return Error(absl::StatusCode::kInvalidArgument, "REGION_OUTSIDE_HANDLE",
                 absl::StrCat(extent.size, " bytes from ", extent.offset,
                              " on do not lie inside the shared memory of ", bytes, " bytes"));
  return extent.size == 0 ? bytes - extent.offset : extent.size;
}

absl::Status CheckWritable(int fd) {
  bool writable = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & (F_SEAL_WRITE | 0x0010 /* F_SEAL_FUTURE_WRITE */)) != 0)
    writable = false;
  if (writable) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument, "MEMORY_READ_ONLY",
               "the shared memory cannot be written; import it with read_only");
}

absl::StatusOr<std::shared_ptr<Region>> Add(SessionRegistry* sessions, Session* session,
                                            Device* device, runtime::UniqueFd fd, const char* kind,
                                            const ImportExtent& extent, uint64_t bytes) {
  RegionDescription description;
  ASSIGN_OR_RETURN(description.size, CheckExtent(extent, bytes));
  RETURN_IF_ERROR(session->CheckRoomFor(description.size));
  if (!extent.read_only) RETURN_IF_ERROR(CheckWritable(fd.get()));
  description.offset = extent.offset;
  description.read_only = extent.read_only;
  description.kind = kind;
  description.device = device->name();
  std::shared_ptr<Region> region = sessions->MakeRegion(std::move(description), std::move(fd));
  RETURN_IF_ERROR(region->EnsureMapped(device));
  RETURN_IF_ERROR(session->AddRegion(region));
  return region;
}

// A handle of another GPU is refused before anything is opened.
absl::Status CheckGpu(const Device& device, const std::string& claimed_uuid) {
  if (!device.description().is_gpu())
    return Error(absl::StatusCode::kInvalidArgument, "CUDA_HANDLES",
                 absl::StrCat("a CUDA handle belongs to a GPU, and ", device.name(), " is none"));
  if (claimed_uuid.empty()) {
    // CUDA maps a neighbour's memory without a word.
    if (!device.description().one_of_several) return absl::OkStatus();
    return Error(absl::StatusCode::kInvalidArgument, "UUID_MISSING",
                 absl::StrCat("this machine has several GPUs: name the one that the handle belongs "
                              "to in device_uuid; ",
                              device.name(), " is ", device.description().uuid()));
  }
  if (claimed_uuid == device.description().uuid()) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument, "OTHER_DEVICE",
               absl::StrCat("the handle belongs to ", claimed_uuid, ", but ", device.name(), " is ",
                            device.description().uuid()),
               {{"handle_uuid", claimed_uuid}, {"device_uuid", device.description().uuid()}});
}

absl::StatusOr<std::shared_ptr<Region>> MapOnGpu(SessionRegistry* sessions, Session* session,
                                                 Device* device,
                                                 const runtime::DeviceMemorySource& source,
                                                 const char* kind) {
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, device->Start());
  RegionDescription description;
  description.id = sessions->NewId();
  absl::StatusOr<runtime::DeviceMemoryInfo> mapped =
      executor->MapDeviceMemory(description.id, source);
  if (!mapped.ok())
    return WithReason(mapped.status(),
                      source.allocate != 0 ? "ALLOCATION_FAILED" : "CUDA_HANDLE_REFUSED");
  description.offset = source.offset;
  description.size = mapped->size;
  description.read_only = source.read_only;
  description.kind = kind;
  description.device = device->name();
  description.home = device;
  description.handle_bytes = mapped->handle_bytes;
  std::shared_ptr<Region> region =
      sessions->MakeRegion(std::move(description), std::move(mapped->exported));
  region->SetMappedAtHome(executor);
  RETURN_IF_ERROR(session->AddRegion(region));
  return region;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Region>> ImportMemfd(SessionRegistry* sessions, Session* session,
                                                    Device* device, uint64_t ticket,
                                                    const ImportExtent& extent) {
  ASSIGN_OR_RETURN(runtime::UniqueFd fd, session->TakeTicket(ticket));
  absl::StatusOr<uint64_t> bytes = runtime::AdmitMemfd(fd.get());
  if (!bytes.ok()) return WithReason(bytes.status(), "MEMFD_REFUSED");
  return Add(sessions, session, device, std::move(fd), "memfd", extent, *bytes);
}

absl::StatusOr<std::shared_ptr<Region>> ImportPosixShm(SessionRegistry* sessions, Session* session,
                                                       Device* device, const std::string& name,
                                                       const ImportExtent& extent) {
  if (!session->peer())
    return Error(absl::StatusCode::kPermissionDenied, "NO_PEER",
                 "POSIX shm is opened with the client's rights, and only the descriptor socket "
                 "shows who the client is; "
                 "attach there");
  absl::StatusOr<runtime::PosixSharedMemory> memory =
      runtime::OpenPosixSharedMemory(name, *session->peer(), extent.read_only);
  if (!memory.ok()) return WithReason(memory.status(), "SHM_REFUSED");
  return Add(sessions, session, device, std::move(memory->fd), "posix_shm", extent, memory->bytes);
}

absl::StatusOr<std::shared_ptr<Region>> ImportGpuMemory(SessionRegistry* sessions, Session* session,
                                                        Device* device, const GpuHandle& handle,
                                                        const ImportExtent& extent) {
  RETURN_IF_ERROR(CheckGpu(*device, handle.device_uuid));
  RETURN_IF_ERROR(session->CheckRoomFor(extent.size));
  if (handle.chunks.size() > runtime::kMaxDescriptors)
    return Error(absl::StatusCode::kInvalidArgument, "TOO_MANY_CHUNKS",
                 absl::StrCat("a region of ", handle.chunks.size(), " VMM exports; at most ",
                              runtime::kMaxDescriptors, " are taken"));
  runtime::DeviceMemorySource source;
  std::vector<runtime::UniqueFd> fds;
  for (const GpuHandle::Chunk& chunk : handle.chunks) {
    ASSIGN_OR_RETURN(runtime::UniqueFd fd, session->TakeTicket(chunk.ticket));
    source.vmm.push_back(fd.get());
    source.chunk_bytes.push_back(chunk.size);
    fds.push_back(std::move(fd));
  }
  source.cuda_ipc = handle.cuda_ipc;
  source.offset = extent.offset;
  source.size = extent.size;
  source.read_only = extent.read_only;
  source.device_uuid = handle.device_uuid;
  return MapOnGpu(sessions, session, device, source, handle.chunks.empty() ? "cuda_ipc" : "vmm");
}

absl::StatusOr<uint64_t> ImportEvent(SessionRegistry* sessions, Session* session, Device* device,
                                     const std::string& cuda_ipc, const std::string& device_uuid) {
  RETURN_IF_ERROR(CheckGpu(*device, device_uuid));
  ASSIGN_OR_RETURN(runtime::ExecutorClient * executor, device->Start());
  const uint64_t id = sessions->NewId();
  absl::Status opened = executor->ImportEvent(id, cuda_ipc, device_uuid);
  if (!opened.ok()) return WithReason(opened, "EVENT_REFUSED");
  RETURN_IF_ERROR(
      session->AddEvent(std::make_shared<DeviceEvent>(id, device, executor, sessions->pool())));
  return id;
}

absl::StatusOr<std::shared_ptr<Region>> AllocateMemory(SessionRegistry* sessions, Session* session,
                                                       Device* device, uint64_t size) {
  RETURN_IF_ERROR(session->CheckRoomFor(size));
  if (device->description().is_gpu()) {
    if (size == 0)
      return Error(absl::StatusCode::kInvalidArgument, "ALLOCATION_FAILED",
                   "an allocation of 0 bytes");
    runtime::DeviceMemorySource source;
    source.allocate = size;
    return MapOnGpu(sessions, session, device, source, "gpu");
  }
  absl::StatusOr<runtime::UniqueFd> fd = runtime::CreateSealedMemory("tessera", size);
  if (!fd.ok()) return WithReason(fd.status(), "ALLOCATION_FAILED");
  return Add(sessions, session, device, *std::move(fd), "allocated", ImportExtent(), size);
}

}  // namespace tessera::server
