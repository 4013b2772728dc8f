// The GPUs of this machine as devices of the daemon.
#ifndef TESSERA_SERVER_MAIN_GPU_DEVICES_H_
#define TESSERA_SERVER_MAIN_GPU_DEVICES_H_

#include <string>
#include <vector>

#include "proto/worker/worker.pb.h"
#include "server/device/device_table.h"

namespace tessera::server {

// Asks a process of its own (`binary` --role=probe), so that a driver that hangs or crashes costs
// no more than the time limit. `problem` says why there are none.
worker::DeviceProbe ProbeGpusInChild(const std::string& binary);

// "cuda:0" and so on, in CUDA's order. GPUs too old for the compiler are left out.
std::vector<DeviceDescription> DescribeGpus(const worker::DeviceProbe& probe);

// The compiler's target for a compute capability: "sm_90a"; empty: there is none.
std::string GpuTarget(int major, int minor);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_MAIN_GPU_DEVICES_H_
