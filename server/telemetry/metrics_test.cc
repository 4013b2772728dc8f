#include "server/telemetry/metrics.h"

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

TEST(Metrics, HaveTheNamesThatDashboardsRelyOn) {
  Metrics metrics;
  metrics.ObserveCompile("total", 0.25);
  metrics.CountJitDuringServing("add_kernel");
  metrics.compile_hit->Increment();
  std::string text = metrics.Text();
  for (const char* line :
       {"tessera_compile_requests_total{result=\"hit\"} 1",
        "tessera_compile_requests_total{result=\"timeout\"} 0",
        "tessera_compile_duration_seconds_count{stage=\"total\"} 1",
        "tessera_jit_during_serving_total{kernel=\"add_kernel\"} 1",
        "tessera_launch_duration_seconds_count 0", "tessera_launch_queue_duration_seconds_count 0",
        "tessera_memory_regions 0", "tessera_memory_leases_expired_total 0",
        "tessera_warmup_items{state=\"total\"} 0", "tessera_ready 0", "tessera_kernel_variants 0",
        "tessera_tune_trials_total 0", "tessera_cache_corrupt_entries_total 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(Metrics, CapTheSeriesThatKernelNamesMake) {
  Metrics metrics;
  for (int i = 0; i < 500; ++i) metrics.CountJitDuringServing("kernel_" + std::to_string(i));
  std::string text = metrics.Text();
  EXPECT_EQ(text.find("kernel_499"), std::string::npos);
  EXPECT_NE(text.find("tessera_jit_during_serving_total{kernel=\"other\"} 400"), std::string::npos);
}

}  // namespace
}  // namespace tessera::server
