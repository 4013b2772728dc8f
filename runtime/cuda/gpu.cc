#include "runtime/cuda/gpu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/cuda/cuda_status.h"

namespace tessera::runtime {
namespace {

int AttributeOf(const CudaDriver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

const char* SharingOf(const CudaDriver& driver, CUdevice device) {
  if (AttributeOf(driver, device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) != 0) return "mps";
  const int mode = AttributeOf(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  return mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? "exclusive" : "time-slice";
}

absl::StatusOr<std::string> UuidOf(const CudaDriver& driver, CUdevice device) {
  CUuuid uuid;
  RETURN_IF_CUDA_ERROR(driver, driver.cuDeviceGetUuid(&uuid, device), "asking a GPU for its UUID");
  return GpuUuidText(uuid);
}

absl::Status Describe(const CudaDriver& driver, CUdevice device, worker::DeviceProbe::Gpu* gpu) {
  ASSIGN_OR_RETURN(*gpu->mutable_uuid(), UuidOf(driver, device));
  char name[256] = "";
  RETURN_IF_CUDA_ERROR(driver, driver.cuDeviceGetName(name, sizeof(name), device),
                       "asking a GPU for its name");
  gpu->set_name(name);
  char bus[32] = "";
  if (driver.cuDeviceGetPCIBusId(bus, sizeof(bus), device) == CUDA_SUCCESS)
    gpu->set_pci_bus_id(bus);
  size_t bytes = 0;
  RETURN_IF_CUDA_ERROR(driver, driver.cuDeviceTotalMem(&bytes, device),
                       "asking a GPU for its memory");
  gpu->set_memory_bytes(bytes);
  gpu->set_compute_major(AttributeOf(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  gpu->set_compute_minor(AttributeOf(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  gpu->set_multiprocessors(AttributeOf(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  gpu->set_sharing(SharingOf(driver, device));
  return absl::OkStatus();
}

}  // namespace

std::string GpuUuidText(const CUuuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

absl::StatusOr<worker::DeviceProbe> ListGpus(const CudaDriver& driver) {
  worker::DeviceProbe probe;
  int version = 0, count = 0;
  RETURN_IF_CUDA_ERROR(driver, driver.cuDriverGetVersion(&version),
                       "asking the driver for its version");
  probe.set_driver_version(version);
  RETURN_IF_CUDA_ERROR(driver, driver.cuDeviceGetCount(&count), "counting GPUs");
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    RETURN_IF_CUDA_ERROR(driver, driver.cuDeviceGet(&device, i), absl::StrCat("finding GPU ", i));
    RETURN_IF_ERROR(Describe(driver, device, probe.add_gpus()));
  }
  if (count == 0) probe.set_problem("the CUDA driver sees no GPU");
  return probe;
}

std::string UuidOfOrdinal(const CudaDriver& driver, int ordinal) {
  CUdevice device = 0;
  if (driver.cuDeviceGet(&device, ordinal) == CUDA_SUCCESS)
    if (absl::StatusOr<std::string> uuid = UuidOf(driver, device); uuid.ok()) return *uuid;
  return "a GPU that is not visible here";
}

absl::StatusOr<std::unique_ptr<GpuContext>> GpuContext::Create(const CudaDriver* driver,
                                                               absl::string_view uuid) {
  int count = 0;
  RETURN_IF_CUDA_ERROR(*driver, driver->cuDeviceGetCount(&count), "counting GPUs");
  std::string seen;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    RETURN_IF_CUDA_ERROR(*driver, driver->cuDeviceGet(&device, i), "finding a GPU");
    ASSIGN_OR_RETURN(std::string found, UuidOf(*driver, device));
    absl::StrAppend(&seen, seen.empty() ? "" : ", ", found);
    if (uuid != found) continue;
    CUcontext context = nullptr;
    RETURN_IF_CUDA_ERROR(*driver, driver->cuDevicePrimaryCtxRetain(&context, device),
                         absl::StrCat("making a context on ", found));
    std::unique_ptr<GpuContext> made(new GpuContext(driver, device, std::move(found), context));
    made->MakeCurrent();
    return made;
  }
  return absl::NotFoundError(
      absl::StrCat("no GPU ", uuid, " is visible here; there are: ", seen.empty() ? "none" : seen));
}

GpuContext::~GpuContext() { driver_->cuDevicePrimaryCtxRelease(device_); }

int GpuContext::Attribute(CUdevice_attribute attribute) const {
  return AttributeOf(*driver_, device_, attribute);
}

void GpuContext::MakeCurrent() const {
  TESSERA_CHECK(driver_->cuCtxSetCurrent(context_) == CUDA_SUCCESS, "the context is ours");
}

}  // namespace tessera::runtime
