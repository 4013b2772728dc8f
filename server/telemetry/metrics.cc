#include "server/telemetry/metrics.h"

#include "prometheus/text_serializer.h"

namespace tessera::server {
namespace {

// Stages and kernel names come from outside; beyond these many they share one series, "other".
constexpr size_t kMaxStages = 32;
constexpr size_t kMaxKernels = 100;

// Launches: 1 us to some seconds. Compiles: 1 ms to two minutes.
const prometheus::Histogram::BucketBoundaries& LaunchBuckets() {
  static const auto* buckets = new prometheus::Histogram::BucketBoundaries{
      1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3,
      2e-3, 5e-3, 1e-2, 5e-2, 0.1,  0.5,  1,    5,    30};
  return *buckets;
}

const prometheus::Histogram::BucketBoundaries& CompileBuckets() {
  static const auto* buckets = new prometheus::Histogram::BucketBoundaries{
      1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120};
  return *buckets;
}

}  // namespace

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {
  prometheus::Registry& registry = *registry_;
  auto counter = [&](const char* name, const char* help) -> auto& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  };
  auto gauge = [&](const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  };
  auto histogram = [&](const char* name, const char* help) -> auto& {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  };

  auto& requests =
      counter("tessera_compile_requests_total", "Requests for a compiled kernel, by result.");
  compile_hit = &requests.Add({{"result", "hit"}});
  compile_miss = &requests.Add({{"result", "miss"}});
  compile_coalesced = &requests.Add({{"result", "coalesced"}});
  compile_failed = &requests.Add({{"result", "failed"}});
  compile_timeout = &requests.Add({{"result", "timeout"}});
  compile_seconds_ =
      &histogram("tessera_compile_duration_seconds", "Time to compile a kernel, by stage.");

  auto& launches = counter("tessera_launches_total", "Launches, by result.");
  launch_ok = &launches.Add({{"result", "ok"}});
  launch_failed = &launches.Add({{"result", "failed"}});
  launch_queue_seconds = &histogram("tessera_launch_queue_duration_seconds",
                                    "From the request to the start on the device.")
                              .Add({}, LaunchBuckets());
  launch_seconds = &histogram("tessera_launch_duration_seconds", "Time of a launch on the device.")
                        .Add({}, LaunchBuckets());
  launches_in_flight = gauge("tessera_launches_in_flight", "Launches accepted and not answered.");
  kernel_variants = gauge("tessera_kernel_variants", "Compiled variants loaded on devices.");
  jit_during_serving_ =
      &counter("tessera_jit_during_serving_total",
               "Kernels compiled while a launch waited, after the daemon was ready.");

  sessions = gauge("tessera_sessions", "Open client sessions.");
  regions = gauge("tessera_memory_regions", "Memory regions known to the daemon.");
  mapped_bytes = gauge("tessera_memory_mapped_bytes", "Bytes of those regions.");
  leases_expired =
      &counter("tessera_memory_leases_expired_total", "Sessions ended because nobody renewed them.")
           .Add({});

  auto& warmup = prometheus::BuildGauge()
                     .Name("tessera_warmup_items")
                     .Help("Warm-up items, by state.")
                     .Register(registry);
  warmup_total = &warmup.Add({{"state", "total"}});
  warmup_done = &warmup.Add({{"state", "done"}});
  warmup_failed = &warmup.Add({{"state", "failed"}});
  ready = gauge("tessera_ready", "1 when health says SERVING.");

  tune_trials = &counter("tessera_tune_trials_total", "Configurations measured.").Add({});
  tune_config_changes =
      &counter("tessera_tune_config_changes_total", "Choices of configuration changed.").Add({});
  tune_seconds = &histogram("tessera_tune_duration_seconds", "Time of a tuning run.")
                      .Add({}, CompileBuckets());

  executor_restarts = gauge("tessera_executor_restarts", "Executor processes replaced.");
  worker_restarts = gauge("tessera_compiler_worker_restarts", "Compiler workers replaced.");

  cache_entries = gauge("tessera_cache_entries", "Entries of the cache.");
  cache_bytes = gauge("tessera_cache_bytes", "Bytes of the cache on disk.");
  cache_hits = gauge("tessera_cache_hits_total", "Lookups that found their entry.");
  cache_misses = gauge("tessera_cache_misses_total", "Lookups that did not.");
  cache_evictions = gauge("tessera_cache_evictions_total", "Entries removed for space.");
  cache_corrupt = gauge("tessera_cache_corrupt_entries_total", "Damaged entries dropped.");
}

void Metrics::ObserveCompile(const std::string& stage, double seconds) {
  prometheus::Histogram* histogram;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string name =
        compile_stages_.count(stage) || compile_stages_.size() < kMaxStages ? stage : "other";
    prometheus::Histogram*& slot = compile_stages_[name];
    if (slot == nullptr) slot = &compile_seconds_->Add({{"stage", name}}, CompileBuckets());
    histogram = slot;
  }
  histogram->Observe(seconds);
}

void Metrics::CountJitDuringServing(const std::string& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string name =
      jit_kernels_.count(kernel) || jit_kernels_.size() < kMaxKernels ? kernel : "other";
  prometheus::Counter*& slot = jit_kernels_[name];
  if (slot == nullptr) slot = &jit_during_serving_->Add({{"kernel", name}});
  slot->Increment();
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace tessera::server
