#include "server/telemetry/gpu_metrics.h"

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace tessera::server {
namespace {

TEST(GpuMetricsTest, HaveTheNamesThatDashboardsRelyOn) {
  auto registry = std::make_shared<prometheus::Registry>();
  GpuMetrics metrics(registry);
  worker::DeviceProbe::Gpu gpu;
  gpu.set_uuid("GPU-1");
  gpu.set_name("H200");
  gpu.set_sharing("mps");
  gpu.set_memory_bytes(1000);
  worker::DeviceStats stats;
  stats.set_memory_free_bytes(400);
  stats.set_handles_open(3);
  metrics.Set("cuda:0", gpu, stats);
  stats.set_handles_open(2);
  metrics.Set("cuda:0", gpu, stats);
  const std::string text = prometheus::TextSerializer().Serialize(registry->Collect());
  for (const char* line : {"tessera_gpu_memory_bytes{device=\"cuda:0\"} 1000",
                           "tessera_gpu_memory_free_bytes{device=\"cuda:0\"} 400",
                           "tessera_gpu_handles_open{device=\"cuda:0\"} 2",
                           "tessera_gpu_events_open{device=\"cuda:0\"} 0",
                           "tessera_gpu_modules_loaded{device=\"cuda:0\"} 0",
                           "tessera_gpu_streams{device=\"cuda:0\"} 0",
                           "tessera_gpu_launches_on_device{device=\"cuda:0\"} 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_NE(text.find("sharing=\"mps\""), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::server
