#include "server/telemetry/metrics.h"

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/telemetry/sampled_metrics.h"

namespace tessera::server {
namespace {

std::string Text(const prometheus::Collectable& collectable) {
  return prometheus::TextSerializer().Serialize(collectable.Collect());
}

TEST(Metrics, HaveTheNamesThatDashboardsRelyOn) {
  Metrics metrics;
  metrics.ObserveCompile("total", 0.25);
  metrics.CountJitDuringServing("add_kernel");
  metrics.CountRejectedLaunch("DRAINING");
  metrics.CountFailedLaunch("OUT_OF_BOUNDS");
  metrics.compile_hit->Increment();
  std::string text = metrics.Text();
  for (const char* line : {"tessera_compile_requests_total{result=\"hit\"} 1",
                           "tessera_compile_requests_total{result=\"timeout\"} 0",
                           "tessera_compile_duration_seconds_count{stage=\"total\"} 1",
                           "tessera_jit_during_serving_total{kernel=\"add_kernel\"} 1",
                           "tessera_launches_total{result=\"ok\"} 0",
                           "tessera_launches_total{result=\"failed\"} 1",
                           "tessera_launches_total{result=\"rejected\"} 1",
                           "tessera_launch_failures_total{reason=\"DRAINING\"} 1",
                           "tessera_launch_failures_total{reason=\"OUT_OF_BOUNDS\"} 1",
                           "tessera_launch_duration_seconds_count 0",
                           "tessera_launch_queue_duration_seconds_count 0",
                           "tessera_launch_duration_seconds_bucket{le=\"1e-06\"} 0",
                           "tessera_launch_duration_seconds_bucket{le=\"120\"} 0",
                           "tessera_launches_in_flight 0",
                           "tessera_memory_regions 0",
                           "tessera_memory_mapped_bytes 0",
                           "tessera_memory_leases_expired_total 0",
                           "tessera_sessions 0",
                           "tessera_warmup_items{state=\"total\"} 0",
                           "tessera_warmup_duration_seconds 0",
                           "tessera_ready 0",
                           "tessera_kernel_variants 0",
                           "tessera_tune_trials_total 0",
                           "tessera_tune_duration_seconds_count 0",
                           "tessera_tune_config_changes_total 0",
                           "tessera_tune_budget_used_ratio 0",
                           "tessera_compiler_worker_kills_total{reason=\"deadline\"} 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(Metrics, CapTheSeriesThatNamesFromOutsideMake) {
  Metrics metrics;
  for (int i = 0; i < 500; ++i) {
    metrics.CountJitDuringServing("kernel_" + std::to_string(i));
    metrics.ObserveCompile("stage_" + std::to_string(i), 1);
    metrics.CountFailedLaunch("REASON_" + std::to_string(i));
  }
  std::string text = metrics.Text();
  EXPECT_EQ(text.find("kernel_499"), std::string::npos);
  EXPECT_EQ(text.find("stage_499"), std::string::npos);
  EXPECT_EQ(text.find("REASON_499"), std::string::npos);
  EXPECT_NE(text.find("tessera_jit_during_serving_total{kernel=\"other\"} 400"), std::string::npos);
  EXPECT_EQ(metrics.jit_during_serving(), 500u);
}

TEST(SampledMetrics, ShowTheStateOfDevicesCacheAndProcesses) {
  Metrics metrics;
  metrics.CountDeviceTime(0, 1e-6, 0.5);
  metrics.kernels.Of("add")->CountLaunch(0.5);
  SampledMetrics sampled(&metrics, [] {
    DaemonState state;
    state.status.set_version("1.2");
    state.status.set_compiler_build("build");
    state.status.set_jit_monitor("warn");
    auto* gpu = state.status.add_devices();
    gpu->set_name("cuda:0");
    gpu->set_state("running");
    gpu->set_restarts(2);
    gpu->add_quarantined_kernels("k");
    auto* worker = state.status.add_workers();
    worker->set_state("compiling");
    worker->set_restarts(3);
    for (int i = 0; i < 2; ++i) {
      auto* process = state.status.add_processes();
      process->set_role("worker");
      process->set_resident_bytes(1000);
    }
    state.status.add_processes()->set_role("daemon");
    state.cache.set_hits(7);
    state.cache.set_state("memory only: the disk is full");
    auto* family = state.cache.add_families();
    family->set_name("artifacts");
    family->set_entries(5);
    return state;
  });
  std::string text = Text(sampled);
  for (const char* line :
       {"tessera_build_info{version=\"1.2\",compiler_build=\"build\"} 1",
        "tessera_executor_up{device=\"cuda:0\"} 1",
        "# TYPE tessera_executor_restarts_total counter",
        "tessera_executor_restarts_total{device=\"cuda:0\"} 2",
        "tessera_quarantined_kernels{device=\"cuda:0\"} 1",
        "tessera_device_busy_seconds_total{device=\"cuda:0\"} 0.5",
        "tessera_device_launches_total{device=\"cuda:0\"} 1",
        "tessera_compiler_workers{state=\"compiling\"} 1",
        "tessera_compiler_worker_restarts_total 3", "# TYPE tessera_cache_hits_total counter",
        "tessera_cache_hits_total 7", "tessera_cache_degraded 1",
        "tessera_cache_entries{family=\"artifacts\"} 5",
        "tessera_kernel_launches_total{kernel=\"add\"} 1",
        "tessera_kernel_device_seconds_total{kernel=\"add\"} 0.5",
        "tessera_kernel_launches_total{kernel=\"other\"} 0",
        "tessera_process_resident_memory_bytes{process=\"worker\"} 2000",
        "process_resident_memory_bytes 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace tessera::server
