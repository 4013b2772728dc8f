// What kernels tell their host: failed assertions, accesses outside the buffers, printed values.
#ifndef TESSERA_RUNTIME_CUDA_LAUNCH_REPORTS_H_
#define TESSERA_RUNTIME_CUDA_LAUNCH_REPORTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/kernel_abi.h"
#include "proto/storage/artifacts.pb.h"
#include "runtime/cuda/gpu.h"

namespace tessera::runtime {

using ReportMessages = google::protobuf::RepeatedPtrField<storage::KernelMetadata::ReportMessage>;

// Reports in host memory that the GPU writes, made when they are first needed. For one thread,
// which has the context current.
class LaunchReports {
 public:
  struct Report {
    GpuLaunchReport* host = nullptr;
    CUdeviceptr device = 0;
  };

  // `gpu` must outlive this object, `most` is how many there are at once.
  LaunchReports(const GpuContext* gpu, uint32_t most) : gpu_(gpu), most_(most) {}
  ~LaunchReports();

  bool available() const { return !free_.empty() || made_.size() < most_; }
  // Empty, to be given back by Release. RESOURCE_EXHAUSTED: there is no host memory.
  absl::StatusOr<Report> Acquire();
  void Release(const Report& report) { free_.push_back(report); }

 private:
  const GpuContext* const gpu_;
  const uint32_t most_;
  std::vector<Report> made_, free_;
};

// The launch's status: ABORTED for a failed device_assert, OUT_OF_RANGE for an access outside the
// bound buffers; the message names the kernel, the line, the program and the address.
absl::Status StatusOfReport(const GpuLaunchReport& report, const ReportMessages& messages,
                            const std::string& kernel);

// The lines of device_print, as runtime/cpu/print_lines words them.
std::string PrintedText(const GpuLaunchReport& report, const ReportMessages& messages);

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_LAUNCH_REPORTS_H_
