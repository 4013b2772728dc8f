// One compiled entry, run over a grid by a thread pool.
#ifndef TESSERA_RUNTIME_CPU_CPU_KERNEL_H_
#define TESSERA_RUNTIME_CPU_CPU_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/kernel_abi.h"
#include "proto/storage/artifacts.pb.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/device/device.h"

namespace tessera::runtime {

// Spreads the program instances of a launch over `pool`; short launches stay on the calling thread, without waking
// another. Lines of device_print come out when the launch has ended, in program order. Thread-safe.
class CpuKernel : public LoadedKernel {
 public:
  // `code` keeps the memory of `entry` alive. `pool` must outlive the kernel.
  CpuKernel(KernelEntry entry, const storage::KernelMetadata& metadata, ThreadPool* pool, std::shared_ptr<void> code);

  // INVALID_ARGUMENT: wrong number of parameters, or a grid of 2^63 instances and more. RESOURCE_EXHAUSTED: no scratch
  // memory. ABORTED: a device_assert failed; the message is that of the first failing piece in program order.
  absl::Status Run(const Launch& launch) override;
  void SweepCaches() override { pool_->SweepCaches(); }

 private:
  uint64_t RunShort(class CpuLaunch& launch, uint64_t first, uint64_t last);

  const KernelEntry entry_;
  const std::string name_;
  const size_t parameters_;
  const uint64_t scratch_bytes_;
  const uint64_t scratch_align_;
  ThreadPool* const pool_;
  const std::shared_ptr<void> code_;
  // What an instance cost in the last launch, and so perhaps in the next.
  std::atomic<double> instance_nanos_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CPU_CPU_KERNEL_H_
