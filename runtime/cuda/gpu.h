// GPUs by UUID, and the one context that an executor holds.
#ifndef TESSERA_RUNTIME_CUDA_GPU_H_
#define TESSERA_RUNTIME_CUDA_GPU_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/worker/worker.pb.h"
#include "runtime/cuda/driver.h"

namespace tessera::runtime {

// "GPU-6f1a3c2e-..."; as nvidia-smi and CUDA_VISIBLE_DEVICES spell it.
std::string GpuUuidText(const CUuuid& uuid);

// The GPUs that this process sees, in CUDA's order (so under CUDA_VISIBLE_DEVICES). Makes no
// context.
absl::StatusOr<worker::DeviceProbe> ListGpus(const CudaDriver& driver);

// The UUID of device number `ordinal`; "a GPU that is not visible here" where there is none.
std::string UuidOfOrdinal(const CudaDriver& driver, int ordinal);

// The primary context of one GPU.
class GpuContext {
 public:
  // NOT_FOUND: no visible GPU has this UUID (the message lists those that are there).
  static absl::StatusOr<std::unique_ptr<GpuContext>> Create(const CudaDriver* driver,
                                                            absl::string_view uuid);
  ~GpuContext();

  const CudaDriver& driver() const { return *driver_; }
  CUdevice device() const { return device_; }
  const std::string& uuid() const { return uuid_; }
  int Attribute(CUdevice_attribute attribute) const;
  // To be called once by every thread that uses the driver.
  void MakeCurrent() const;

 private:
  GpuContext(const CudaDriver* driver, CUdevice device, std::string uuid, CUcontext context)
      : driver_(driver), device_(device), uuid_(std::move(uuid)), context_(context) {}

  const CudaDriver* const driver_;
  const CUdevice device_;
  const std::string uuid_;
  const CUcontext context_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_GPU_H_
