#include "server/telemetry/sampled_metrics.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Families in the order in which they are begun.
class Families {
 public:
  Families& Counter(const char* name, const char* help) {
    return Begin(name, help, MetricType::Counter);
  }
  Families& Gauge(const char* name, const char* help) {
    return Begin(name, help, MetricType::Gauge);
  }
  Families& Add(double value, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  Families& Begin(const char* name, const char* help, MetricType type) {
    MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = type;
    families_.push_back(std::move(family));
    return *this;
  }
  std::vector<MetricFamily> families_;
};

void AddDevices(const tessera::v1::GetStatusResponse& status, const Metrics& metrics,
                Families* families) {
  auto each = [&](auto visit) {
    for (int i = 0; i < status.devices_size(); ++i) visit(status.devices(i), i);
  };
  families->Gauge("tessera_executor_up", "1 while the device's executor process runs.");
  each([&](const auto& device, int) {
    families->Add(device.state() == "running", {{"device", device.name()}});
  });
  families->Counter("tessera_executor_restarts_total", "Executor processes replaced.");
  each([&](const auto& device, int) {
    families->Add(device.restarts(), {{"device", device.name()}});
  });
  families->Gauge("tessera_quarantined_kernels",
                  "Kernels that killed an executor and are not launched any more.");
  each([&](const auto& device, int) {
    families->Add(device.quarantined_kernels_size(), {{"device", device.name()}});
  });
  families->Counter("tessera_device_launches_total", "Launches that ran on the device.");
  each([&](const auto& device, int i) {
    if (i < static_cast<int>(metrics.device_time.size()))
      families->Add(static_cast<double>(metrics.device_time[i].launches.load()),
                    {{"device", device.name()}});
  });
  families->Counter("tessera_device_busy_seconds_total", "Sum of the device times of launches.");
  each([&](const auto& device, int i) {
    if (i < static_cast<int>(metrics.device_time.size()))
      families->Add(static_cast<double>(metrics.device_time[i].nanoseconds.load()) * 1e-9,
                    {{"device", device.name()}});
  });
}

void AddCache(const DaemonState& state, Families* families) {
  const tessera::v1::CacheStatsResponse& cache = state.cache;
  families->Gauge("tessera_cache_entries", "Entries of the cache, by family.");
  for (const auto& family : cache.families())
    families->Add(static_cast<double>(family.entries()), {{"family", family.name()}});
  families->Gauge("tessera_cache_bytes", "Bytes of the cache's entries, by family.");
  for (const auto& family : cache.families())
    families->Add(static_cast<double>(family.bytes()), {{"family", family.name()}});
  families->Gauge("tessera_cache_disk_bytes", "Bytes of the cache's files.")
      .Add(static_cast<double>(cache.disk_bytes()));
  families->Counter("tessera_cache_hits_total", "Look-ups that found their entry.")
      .Add(static_cast<double>(cache.hits()));
  families->Counter("tessera_cache_misses_total", "Look-ups that did not.")
      .Add(static_cast<double>(cache.misses()));
  families->Counter("tessera_cache_evictions_total", "Entries removed for space.")
      .Add(static_cast<double>(cache.evictions()));
  families->Counter("tessera_cache_corrupt_entries_total", "Damaged entries dropped.")
      .Add(static_cast<double>(cache.corrupt_entries()));
  families->Gauge("tessera_cache_degraded", "1 while the cache does not work as it should.")
      .Add(!cache.state().empty() && cache.state() != "ok");
}

void AddProcesses(const tessera::v1::GetStatusResponse& status, Families* families) {
  // Workers come and go; they share one series.
  std::map<std::string, tessera::v1::GetStatusResponse::Process> by_role;
  for (const auto& process : status.processes()) {
    auto& sum = by_role[process.role()];
    sum.set_resident_bytes(sum.resident_bytes() + process.resident_bytes());
    sum.set_descriptors(sum.descriptors() + process.descriptors());
    sum.set_cpu_seconds(sum.cpu_seconds() + process.cpu_seconds());
  }
  families->Gauge("tessera_process_resident_memory_bytes", "Resident memory, by process.");
  for (const auto& [role, process] : by_role)
    families->Add(static_cast<double>(process.resident_bytes()), {{"process", role}});
  families->Gauge("tessera_process_open_descriptors", "Open file descriptors, by process.");
  for (const auto& [role, process] : by_role)
    families->Add(process.descriptors(), {{"process", role}});
  families->Counter("tessera_process_cpu_seconds_total",
                    "Processor time, by process; starts again where a process was replaced.");
  for (const auto& [role, process] : by_role)
    families->Add(process.cpu_seconds(), {{"process", role}});
  // The names that every exporter uses for itself.
  auto daemon = by_role.find("daemon");
  if (daemon == by_role.end()) return;
  families->Gauge("process_resident_memory_bytes", "Resident memory of the daemon.")
      .Add(static_cast<double>(daemon->second.resident_bytes()));
  families->Gauge("process_open_fds", "Open file descriptors of the daemon.")
      .Add(daemon->second.descriptors());
  families->Counter("process_cpu_seconds_total", "Processor time of the daemon.")
      .Add(daemon->second.cpu_seconds());
  families->Gauge("process_start_time_seconds", "Start of the daemon, Unix time.")
      .Add(static_cast<double>(status.started_unix_seconds()));
}

}  // namespace

std::vector<MetricFamily> SampledMetrics::Collect() const {
  DaemonState state = read_();
  const tessera::v1::GetStatusResponse& status = state.status;
  Families families;
  families.Gauge("tessera_build_info", "1; what runs here.")
      .Add(1, {{"version", status.version()}, {"compiler_build", status.compiler_build()}});
  families.Gauge("tessera_start_time_seconds", "Start of the daemon, Unix time.")
      .Add(static_cast<double>(status.started_unix_seconds()));
  families.Gauge("tessera_jit_monitor_mode", "1 for the mode: off, warn, error.")
      .Add(1, {{"mode", status.jit_monitor()}});
  AddDevices(status, *metrics_, &families);
  std::map<std::string, int> workers = {
      {"idle", 0}, {"compiling", 0}, {"starting", 0}, {"stopped", 0}};
  double restarts = 0;
  for (const auto& worker : status.workers()) {
    ++workers[worker.state()];
    restarts += worker.restarts();
  }
  families.Gauge("tessera_compiler_workers", "Compiler workers, by state.");
  for (const auto& [name, count] : workers) families.Add(count, {{"state", name}});
  families.Gauge("tessera_compile_queue_length", "Compiles that wait for a worker.")
      .Add(status.compile_requests().queued());
  families.Counter("tessera_compiler_worker_restarts_total", "Compiler workers replaced.")
      .Add(restarts);
  AddCache(state, &families);
  families.Gauge("tessera_tunings", "Choices of configuration in force.").Add([&] {
    for (const auto& family : state.cache.families())
      if (family.name() == "tunings") return static_cast<double>(family.entries());
    return 0.0;
  }());
  std::vector<TopKernels::Series> kernels;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    kernels = top_kernels_.Sample(metrics_->kernels);
  }
  families.Counter("tessera_kernel_launches_total",
                   "Launches that succeeded, by kernel; the busiest have series of their own.");
  for (const auto& kernel : kernels)
    families.Add(static_cast<double>(kernel.values.launches), {{"kernel", kernel.kernel}});
  families.Counter("tessera_kernel_failures_total", "Launches that failed on a device, by kernel.");
  for (const auto& kernel : kernels)
    families.Add(static_cast<double>(kernel.values.failures), {{"kernel", kernel.kernel}});
  families.Counter("tessera_kernel_device_seconds_total", "Device time, by kernel.");
  for (const auto& kernel : kernels)
    families.Add(static_cast<double>(kernel.values.nanoseconds) * 1e-9,
                 {{"kernel", kernel.kernel}});
  AddProcesses(status, &families);
  return families.Take();
}

}  // namespace tessera::server
