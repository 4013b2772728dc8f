#include "runtime/cuda/device_memory.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/memory/guarded_mapping.h"

namespace tessera::runtime {
namespace {

// So that alignment inside a region is alignment in memory, as far as CUDA's allocators promise
// any.
constexpr uint64_t kOffsetAlignment = 256;

absl::Status NotOurs(const std::string& theirs, const std::string& ours) {
  return absl::InvalidArgumentError(
      absl::StrCat("the handle belongs to ", theirs, ", but this device is ", ours));
}

CUmemLocation LocationOf(const GpuContext& gpu) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = gpu.device();
  return location;
}

absl::Status CheckOffset(uint64_t offset, uint64_t size, uint64_t bytes) {
  if (offset % kOffsetAlignment != 0)
    return absl::InvalidArgumentError(absl::StrCat("the region's offset ", offset,
                                                   " is no multiple of ", kOffsetAlignment,
                                                   "; place tensors by byte_offset instead"));
  if (offset >= bytes || size > bytes - offset)
    return absl::InvalidArgumentError(absl::StrCat(
        size, " bytes from ", offset, " on do not lie inside the allocation of ", bytes, " bytes"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> DeviceRegion::Resolve(uint64_t offset, uint64_t count) const {
  if (offset > bytes || count > bytes - offset) {
    return absl::OutOfRangeError(absl::StrCat("bytes ", offset, " to ", offset, "+", count,
                                              " are not inside region ", id, ", which has ", bytes,
                                              " bytes"));
  }
  return address + offset;
}

DeviceMemory::DeviceMemory(const GpuContext* gpu, std::function<bool()> on_memory_short)
    : gpu_(gpu), on_memory_short_(std::move(on_memory_short)) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = LocationOf(*gpu_);
  size_t granularity = 0;
  if (gpu_->driver().cuMemGetAllocationGranularity(
          &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
      granularity > 0)
    granularity_ = granularity;
  ends_thread_ = std::thread([this] { RunEnds(); });
}

DeviceMemory::~DeviceMemory() {
  regions_.clear();
  {
    std::lock_guard<std::mutex> lock(ends_mutex_);
    stopping_ = true;
  }
  ends_changed_.notify_all();
  ends_thread_.join();
}

void DeviceMemory::RunEnds() {
  pthread_setname_np(pthread_self(), "exec-unmap");
  gpu_->MakeCurrent();
  std::unique_lock<std::mutex> lock(ends_mutex_);
  for (;;) {
    ends_changed_.wait(lock, [this] { return stopping_ || !ends_.empty(); });
    if (ends_.empty()) return;
    std::function<void()> end = std::move(ends_.front());
    ends_.pop_front();
    lock.unlock();
    end();
    lock.lock();
  }
}

std::shared_ptr<void> DeviceMemory::Backing(std::function<void()> end) {
  // The pointer is only there to be counted.
  return std::shared_ptr<void>(this, [this, end = std::move(end)](void*) {
    {
      std::lock_guard<std::mutex> lock(ends_mutex_);
      ends_.push_back(end);
    }
    ends_changed_.notify_one();
  });
}

absl::Status DeviceMemory::CheckSameGpu(const std::string& uuid) const {
  return uuid.empty() || uuid == gpu_->uuid() ? absl::OkStatus() : NotOurs(uuid, gpu_->uuid());
}

absl::StatusOr<DeviceMemory::Opened> DeviceMemory::OpenIpc(const std::string& handle,
                                                           const std::string& uuid) {
  const CudaDriver& driver = gpu_->driver();
  CUipcMemHandle raw;
  if (handle.size() != sizeof(raw))
    return absl::InvalidArgumentError(
        absl::StrCat("a CUDA IPC handle has ", sizeof(raw), " bytes, not ", handle.size()));
  RETURN_IF_ERROR(CheckSameGpu(uuid));
  std::memcpy(&raw, handle.data(), sizeof(raw));
  std::lock_guard<std::mutex> lock(ipc_mutex_);
  IpcMapping& mapping = ipc_[handle];
  if (std::shared_ptr<void> backing = mapping.backing.lock())
    return Opened{mapping.address, mapping.bytes, std::move(backing)};
  CUdeviceptr address = mapping.address;
  // A mapping whose end is not done yet keeps its address until then.
  if (address == 0) {
    const CUresult opened =
        driver.cuIpcOpenMemHandle(&address, raw, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (opened != CUDA_SUCCESS) {
      ipc_.erase(handle);
      return CudaStatus(driver, opened, "opening a CUDA IPC memory handle");
    }
    ++handles_open_;
  }
  CUdeviceptr base = 0;
  size_t bytes = 0;
  int ordinal = -1;
  CUresult result = driver.cuMemGetAddressRange(&base, &bytes, address);
  if (result == CUDA_SUCCESS)
    result = driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  absl::Status status = CudaStatus(driver, result, "looking at memory behind a CUDA IPC handle");
  if (status.ok() && UuidOfOrdinal(driver, ordinal) != gpu_->uuid())
    status = NotOurs(UuidOfOrdinal(driver, ordinal), gpu_->uuid());
  if (!status.ok()) {
    driver.cuIpcCloseMemHandle(address);
    --handles_open_;
    ipc_.erase(handle);
    return status;
  }
  mapping.address = address;
  mapping.bytes = bytes - (address - base);
  std::shared_ptr<void> backing = Backing([this, handle] {
    std::lock_guard<std::mutex> lock(ipc_mutex_);
    auto found = ipc_.find(handle);
    if (found == ipc_.end() || !found->second.backing.expired()) return;  // opened again meanwhile
    gpu_->driver().cuIpcCloseMemHandle(found->second.address);
    --handles_open_;
    ipc_.erase(found);
  });
  mapping.backing = backing;
  return Opened{mapping.address, mapping.bytes, std::move(backing)};
}

absl::StatusOr<DeviceMemory::Opened> DeviceMemory::MapChunks(
    const std::vector<CUmemGenericAllocationHandle>& chunks,
    const std::vector<uint64_t>& chunk_bytes, bool read_only) {
  const CudaDriver& driver = gpu_->driver();
  uint64_t bytes = 0;
  for (uint64_t size : chunk_bytes) bytes += size;
  CUdeviceptr address = 0;
  RETURN_IF_CUDA_ERROR(driver, driver.cuMemAddressReserve(&address, bytes, 0, 0, 0),
                       absl::StrCat("reserving ", bytes, " bytes of GPU address space"));
  uint64_t mapped = 0;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < chunks.size() && result == CUDA_SUCCESS; ++i) {
    result = driver.cuMemMap(address + mapped, chunk_bytes[i], 0, chunks[i], 0);
    if (result == CUDA_SUCCESS) mapped += chunk_bytes[i];
  }
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location = LocationOf(*gpu_);
    access.flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = driver.cuMemSetAccess(address, bytes, &access, 1);
    // Not every GPU knows read-only mappings.
    if (result == CUDA_ERROR_NOT_SUPPORTED && read_only) {
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = driver.cuMemSetAccess(address, bytes, &access, 1);
    }
  }
  if (result != CUDA_SUCCESS) {
    if (mapped > 0) driver.cuMemUnmap(address, mapped);
    driver.cuMemAddressFree(address, bytes);
    return CudaStatus(driver, result, absl::StrCat("mapping ", bytes, " bytes of a VMM export"));
  }
  ++handles_open_;
  return Opened{address, bytes, Backing([this, address, bytes] {
                  gpu_->driver().cuMemUnmap(address, bytes);
                  gpu_->driver().cuMemAddressFree(address, bytes);
                  --handles_open_;
                })};
}

absl::StatusOr<DeviceMemory::Opened> DeviceMemory::ImportVmm(
    const worker::MapDeviceMemory& request, const std::vector<UniqueFd>& descriptors) {
  const CudaDriver& driver = gpu_->driver();
  RETURN_IF_ERROR(CheckSameGpu(request.device_uuid()));
  std::vector<uint64_t> chunk_bytes(request.chunk_bytes().begin(), request.chunk_bytes().end());
  if (descriptors.empty() || chunk_bytes.size() != descriptors.size())
    return absl::InvalidArgumentError("a VMM import has one descriptor and one size a chunk");
  for (uint64_t& size : chunk_bytes) {
    if (size == 0 || size > uint64_t{1} << 44)
      return absl::InvalidArgumentError(
          absl::StrCat("a VMM import of ", size, " bytes; its size must be given"));
    // A client that says how much it uses of one allocation means the whole granules.
    if (chunk_bytes.size() == 1) size = (size + granularity_ - 1) / granularity_ * granularity_;
    if (size % granularity_ != 0)
      return absl::InvalidArgumentError(absl::StrCat(
          "a VMM chunk of ", size, " bytes is no multiple of the granularity ", granularity_));
  }
  std::vector<CUmemGenericAllocationHandle> chunks;
  absl::Status status;
  for (size_t i = 0; i < descriptors.size() && status.ok(); ++i) {
    CUmemGenericAllocationHandle handle = 0;
    status = CudaStatus(
        driver,
        driver.cuMemImportFromShareableHandle(
            &handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptors[i].get())),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "importing a VMM export");
    if (!status.ok()) break;
    chunks.push_back(handle);
    CUmemAllocationProp properties = {};
    if (driver.cuMemGetAllocationPropertiesFromHandle(&properties, handle) == CUDA_SUCCESS &&
        properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        properties.location.id != gpu_->device())
      status = NotOurs(UuidOfOrdinal(driver, properties.location.id), gpu_->uuid());
  }
  absl::StatusOr<Opened> opened =
      status.ok() ? MapChunks(chunks, chunk_bytes, request.read_only()) : status;
  // A mapping holds its memory; the handles are not needed any more.
  for (CUmemGenericAllocationHandle handle : chunks) driver.cuMemRelease(handle);
  return opened;
}

absl::StatusOr<DeviceMemory::Opened> DeviceMemory::Allocate(uint64_t bytes,
                                                            MappedDeviceMemory* made) {
  const CudaDriver& driver = gpu_->driver();
  const uint64_t whole = (bytes + granularity_ - 1) / granularity_ * granularity_;
  if (bytes == 0 || whole < bytes)
    return absl::InvalidArgumentError(absl::StrCat("an allocation of ", bytes, " bytes"));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = LocationOf(*gpu_);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver.cuMemCreate(&handle, whole, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && on_memory_short_())
    result = driver.cuMemCreate(&handle, whole, &properties, 0);
  RETURN_IF_CUDA_ERROR(driver, result,
                       absl::StrCat("allocating ", whole, " bytes on ", gpu_->uuid()));
  int fd = -1;
  result =
      driver.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) {
    driver.cuMemRelease(handle);
    return CudaStatus(driver, result, "exporting an allocation");
  }
  made->exported = UniqueFd(fd);
  absl::StatusOr<Opened> opened = MapChunks({handle}, {whole}, false);
  driver.cuMemRelease(handle);
  if (!opened.ok()) return opened;
  made->handle_bytes = whole;
  // Nobody gets to see what another session left there.
  RETURN_IF_CUDA_ERROR(driver, driver.cuMemsetD8Async(opened->address, 0, whole, CU_STREAM_LEGACY),
                       "clearing an allocation");
  RETURN_IF_CUDA_ERROR(driver, driver.cuStreamSynchronize(CU_STREAM_LEGACY),
                       "clearing an allocation");
  return opened;
}

absl::StatusOr<MappedDeviceMemory> DeviceMemory::Map(const worker::MapDeviceMemory& request,
                                                     const std::vector<UniqueFd>& descriptors) {
  MappedDeviceMemory made;
  absl::StatusOr<Opened> opened = absl::InvalidArgumentError("a mapping without a handle");
  switch (request.handle_case()) {
    case worker::MapDeviceMemory::kCudaIpc:
      opened = OpenIpc(request.cuda_ipc(), request.device_uuid());
      break;
    case worker::MapDeviceMemory::kVmm:
      opened = ImportVmm(request, descriptors);
      break;
    case worker::MapDeviceMemory::kAllocate:
      opened = Allocate(request.allocate(), &made);
      break;
    case worker::MapDeviceMemory::HANDLE_NOT_SET:
      break;
  }
  if (!opened.ok()) return opened.status();
  RETURN_IF_ERROR(CheckOffset(request.offset(), request.size(), opened->bytes));
  auto region = std::make_shared<DeviceRegion>();
  region->id = request.region();
  region->address = opened->address + request.offset();
  region->bytes = request.size() != 0 ? request.size() : opened->bytes - request.offset();
  if (request.handle_case() == worker::MapDeviceMemory::kAllocate)
    region->bytes = request.allocate();
  region->read_only = request.read_only();
  region->backing = std::move(opened->backing);
  made.bytes = region->bytes;
  RETURN_IF_ERROR(Add(std::move(region)));
  return made;
}

absl::Status DeviceMemory::MapHost(uint64_t id, int fd, uint64_t offset, uint64_t bytes,
                                   bool read_only) {
  const CudaDriver& driver = gpu_->driver();
  ASSIGN_OR_RETURN(GuardedMapping mapped, GuardedMapping::Map(fd, offset, bytes, read_only));
  auto mapping = std::make_shared<GuardedMapping>(std::move(mapped));
  char* const pages = mapping->pages_begin();
  unsigned int flags = CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE;
  if (read_only && gpu_->Attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 0)
    flags |= CU_MEMHOSTREGISTER_READ_ONLY;
  RETURN_IF_CUDA_ERROR(
      driver,
      driver.cuMemHostRegister(pages, static_cast<size_t>(mapping->pages_end() - pages), flags),
      absl::StrCat("registering ", bytes, " bytes of host memory with ", gpu_->uuid()));
  auto region = std::make_shared<DeviceRegion>();
  region->id = id;
  region->bytes = bytes;
  region->read_only = read_only;
  region->backing = Backing([this, mapping, pages]() mutable {
    gpu_->driver().cuMemHostUnregister(pages);
    mapping.reset();
  });
  RETURN_IF_CUDA_ERROR(driver,
                       driver.cuMemHostGetDevicePointer(&region->address, mapping->data(), 0),
                       "finding host memory's address on the GPU");
  return Add(std::move(region));
}

absl::Status DeviceMemory::Add(std::shared_ptr<DeviceRegion> region) {
  const uint64_t id = region->id;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!regions_.emplace(id, std::move(region)).second)
    return absl::AlreadyExistsError(absl::StrCat("region ", id, " is mapped already"));
  return absl::OkStatus();
}

void DeviceMemory::Remove(uint64_t id) {
  std::shared_ptr<const DeviceRegion> removed;
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = regions_.find(id);
  if (found == regions_.end()) return;
  removed = std::move(found->second);
  regions_.erase(found);
}

absl::StatusOr<std::shared_ptr<const DeviceRegion>> DeviceMemory::Find(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = regions_.find(id);
  if (found == regions_.end())
    return absl::NotFoundError(absl::StrCat("region ", id, " is not mapped"));
  return found->second;
}

}  // namespace tessera::runtime
