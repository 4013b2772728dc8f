#include "server/telemetry/metrics.h"

#include "prometheus/text_serializer.h"

namespace tessera::server {
namespace {

// Stages and kernel names come from outside; beyond these many they share one series, "other".
constexpr size_t kMaxStages = 32;
constexpr size_t kMaxKernels = 100;
constexpr size_t kMaxReasons = 64;

// Launches: 1 us to minutes. Compiles: a stage may take 100 us, the whole is cut off by the compile
// limit.
const prometheus::Histogram::BucketBoundaries& LaunchBuckets() {
  static const auto* buckets = new prometheus::Histogram::BucketBoundaries{
      1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3,
      2e-3, 5e-3, 1e-2, 5e-2, 0.1,  0.5,  1,    5,    30,   120};
  return *buckets;
}

const prometheus::Histogram::BucketBoundaries& CompileBuckets() {
  static const auto* buckets = new prometheus::Histogram::BucketBoundaries{
      1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300};
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
  launch_failed_ = &launches.Add({{"result", "failed"}});
  launch_rejected_ = &launches.Add({{"result", "rejected"}});
  launch_failures_ =
      &counter("tessera_launch_failures_total", "Failed and rejected launches, by reason.");
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
  warmup_compiled = &warmup.Add({{"state", "compiled"}});
  warmup_cached = &warmup.Add({{"state", "cached"}});
  warmup_required = &warmup.Add({{"state", "required"}});
  warmup_seconds = gauge("tessera_warmup_duration_seconds", "Of the last warm-up, so far.");
  warmup_failed_manifests = gauge("tessera_warmup_manifest_error",
                                  "1 when the manifest could not be read the last time.");
  ready = gauge("tessera_ready", "1 when health says SERVING.");

  tune_trials = &counter("tessera_tune_trials_total", "Configurations measured.").Add({});
  tune_config_changes =
      &counter("tessera_tune_config_changes_total", "Choices of configuration changed.").Add({});
  tune_seconds = &histogram("tessera_tune_duration_seconds", "Time of a tuning run.")
                      .Add({}, CompileBuckets());

  tune_budget_used =
      gauge("tessera_tune_budget_used_ratio", "Share of its budget that the last tuning used.");

  tune_rejected_ = &counter("tessera_tune_rejected_total", "Configurations rejected, by reason.");
  // There from the start, at zero.
  for (const char* reason : {"out_of_bounds", "wrong_result", "hangs", "faults", "limits", "slow", "other"})
    tune_rejected_->Add({{"reason", reason}});
  auto& decisions = counter("tessera_tune_decisions_total",
                            "Whether a kernel was to be tuned for a bucket, by outcome.");
  tune_tuned = &decisions.Add({{"decision", "tuned"}});
  tune_abstained = &decisions.Add({{"decision", "abstained"}});
  tune_held_up = &counter("tessera_tune_held_up_launches_total",
                          "Launches that waited for a measurement.")
                      .Add({});
  tune_held_up_seconds = &counter("tessera_tune_held_up_seconds_total",
                                  "How long launches waited for measurements.")
                              .Add({});
  tune_violations = &counter("tessera_tune_latency_violations_total",
                             "Measurements that went on beyond the latency bound beside launches.")
                         .Add({});
  tune_device_seconds = &counter("tessera_tune_device_seconds_total",
                                 "Device time that measurements while serving took.")
                             .Add({});
  auto& kills = counter("tessera_compiler_worker_kills_total",
                        "Compiler workers that ended before their work, by reason.");
  workers_killed_deadline = &kills.Add({{"reason", "deadline"}});
  workers_died = &kills.Add({{"reason", "died"}});
  // There from the start, at zero: the first compile counts as an increase.
  for (const char* stage : {"total", "parse", "emit", "simplify"})
    compile_stages_[stage] = &compile_seconds_->Add({{"stage", stage}}, CompileBuckets());
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
  if (stage == "total") compile_latency.Add(seconds);
}

void Metrics::CountRejectedCandidate(const std::string& reason) {
  tune_rejected_->Add({{"reason", reason}}).Increment();
}

void Metrics::CountFailedLaunch(const std::string& reason) {
  launch_failed_->Increment();
  CountReason(reason);
}

void Metrics::CountRejectedLaunch(const std::string& reason) {
  rejected_.fetch_add(1, std::memory_order_relaxed);
  launch_rejected_->Increment();
  CountReason(reason);
}

void Metrics::CountReason(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string name =
      failure_reasons_.count(reason) || failure_reasons_.size() < kMaxReasons ? reason : "other";
  prometheus::Counter*& slot = failure_reasons_[name];
  if (slot == nullptr) slot = &launch_failures_->Add({{"reason", name}});
  slot->Increment();
}

std::map<std::string, uint64_t> Metrics::FailureReasons() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, uint64_t> reasons;
  for (const auto& [reason, counter] : failure_reasons_)
    reasons[reason] = static_cast<uint64_t>(counter->Value());
  return reasons;
}

void Metrics::CountDeviceTime(int device, double queue, double busy) {
  launch_latency.Add(busy);
  queue_latency.Add(queue);
  if (device < 0 || device >= static_cast<int>(device_time.size())) return;
  device_time[device].launches.fetch_add(1, std::memory_order_relaxed);
  device_time[device].nanoseconds.fetch_add(busy > 0 ? static_cast<uint64_t>(busy * 1e9) : 0,
                                            std::memory_order_relaxed);
}

void Metrics::CountJitDuringServing(const std::string& kernel) {
  jit_.fetch_add(1, std::memory_order_relaxed);
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
