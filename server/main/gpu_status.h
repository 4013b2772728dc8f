// What status and metrics say about GPUs.
#ifndef TESSERA_SERVER_MAIN_GPU_STATUS_H_
#define TESSERA_SERVER_MAIN_GPU_STATUS_H_

#include "proto/tessera/v1/admin.pb.h"
#include "server/device/device_table.h"
#include "server/telemetry/gpu_metrics.h"

namespace tessera::server {

// Nothing for a device that is no GPU.
void FillGpuStatus(const Device& device, tessera::v1::GetStatusResponse::Device* status);

// Asks the executors of all GPUs that are started, and sets their metrics. Blocks.
void RefreshGpus(const DeviceTable& devices, GpuMetrics* metrics);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_GPU_STATUS_H_
