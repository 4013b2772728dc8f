#include "server/main/gpu_devices.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TEST(GpuDevicesTest, NamesDevicesInCudasOrderWithTheTargetOfEach) {
  worker::DeviceProbe probe;
  probe.set_driver_version(13000);
  for (const auto& [major, minor] : {std::pair<int, int>{9, 0}, {7, 5}, {8, 9}}) {
    worker::DeviceProbe::Gpu* gpu = probe.add_gpus();
    gpu->set_uuid("GPU-" + std::to_string(major));
    gpu->set_name("a GPU");
    gpu->set_compute_major(major);
    gpu->set_compute_minor(minor);
  }
  std::vector<DeviceDescription> devices = DescribeGpus(probe);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "cuda:0");
  EXPECT_EQ(devices[0].target, "sm_90a");
  EXPECT_TRUE(devices[0].is_gpu());
  EXPECT_EQ(devices[1].name, "cuda:2");
  EXPECT_EQ(devices[1].target, "sm_89");
  EXPECT_EQ(devices[1].uuid(), "GPU-8");
}

TEST(GpuDevicesTest, AProbeThatCannotRunSaysSo) {
  setenv("TESSERA_LIBCUDA", "off", 1);
  EXPECT_FALSE(ProbeGpusInChild("/bin/true").problem().empty());
  setenv("TESSERA_LIBCUDA", "/bin/true", 1);  // "installed"
  EXPECT_FALSE(ProbeGpusInChild("/bin/false").problem().empty());
  EXPECT_FALSE(ProbeGpusInChild("/nonexistent").problem().empty());
}

}  // namespace
}  // namespace tessera::server
