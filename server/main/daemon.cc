#include "server/main/daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/compile/cache_keeper.h"
#include "server/compile/compile_service.h"
#include "server/compile/module_table.h"
#include "server/launch/launcher.h"
#include "server/launch/op_launcher.h"
#include "server/launch/recipe.h"
#include "server/main/gpu_status.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/cache_service.h"
#include "server/rpc/launch_service.h"
#include "server/rpc/memory_service.h"
#include "server/rpc/module_service.h"
#include "server/rpc/ops_service.h"
#include "server/rpc/socket_polling.h"
#include "server/rpc/tuning_service.h"
#include "server/rpc/warmup_service.h"
#include "server/session/descriptor_socket.h"
#include "server/session/session_registry.h"
#include "server/session/socket_file.h"
#include "server/status_page/status_page.h"
#include "server/telemetry/exposition.h"
#include "server/telemetry/history.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/process_info.h"
#include "server/telemetry/sampled_metrics.h"
#include "server/telemetry/service_manager.h"
#include "server/tuning/online_tuner.h"
#include "server/tuning/policy.h"
#include "server/tuning/tuner.h"
#include "server/tuning/tuning_table.h"
#include "server/warmup/jit_monitor.h"
#include "server/warmup/observed_traffic.h"
#include "server/warmup/warmup.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

// For work that may block: store look-ups, control messages to executors. More would compete with
// kernels for cores.
constexpr int kPoolThreads = 4;
constexpr absl::Duration kUpkeepPeriod = absl::Seconds(2);
constexpr absl::Duration kWorkerDelay = absl::Milliseconds(100);
constexpr const char* kDraining = "draining";
// After the drain limit, for gRPC to send the last answers.
constexpr std::chrono::seconds kShutdownGrace(2);

// What observed traffic is kept in, below the state directory.
constexpr char kTrafficFile[] = "traffic.pb";
constexpr int kUpkeepsPerTrafficWrite = 30;
constexpr size_t kKernelsShown = 50;
constexpr size_t kTuningsShown = 30;

// These work as soon as the daemon answers at all.
constexpr const char* kEarlyServices[] = {"tessera.v1.ModuleService", "tessera.v1.MemoryService",
                                          "tessera.v1.TuningService", "tessera.v1.WarmupService",
                                          "tessera.v1.CacheService",  "tessera.v1.AdminService"};
// These say SERVING when nothing of the manifest is left to compile.
constexpr const char* kWarmServices[] = {"", "tessera.v1.LaunchService", "tessera.v1.OpsService"};

JitMode JitModeOf(const Config& config) {
  if (config.jit_monitor == "off") return JitMode::kOff;
  return config.jit_monitor == "error" ? JitMode::kError : JitMode::kWarn;
}

// A bar for whoever starts the daemon by hand.
void DrawProgress(const api::WarmupProgress& progress) {
  if (progress.total() == 0) return;
  constexpr uint32_t kWidth = 30;
  uint32_t filled = kWidth * progress.done() / progress.total();
  std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\rwarm-up [%s] %u of %u%s", bar.c_str(), progress.done(), progress.total(),
               progress.finished() ? "\n" : "");
}

void FillTuning(const storage::TuningRecord& record,
                api::GetStatusResponse::TuningDecision* decision) {
  decision->set_kernel(record.kernel());
  decision->set_bucket(record.bucket());
  decision->set_device(record.device());
  decision->set_reason(record.reason());
  decision->set_unix_seconds(record.measured_unix_seconds());
  decision->set_pinned(record.pinned());
  decision->set_trials(static_cast<uint32_t>(record.trials_size()));
  if (record.trials_size() > 0) decision->set_default_seconds(record.trials(0).median_seconds());
  if (record.chosen() >= static_cast<uint32_t>(record.trials_size())) return;
  const storage::TuningRecord::Trial& chosen = record.trials(record.chosen());
  decision->set_seconds(chosen.median_seconds());
  std::string text;
  for (const storage::NamedConstant& value : chosen.config().values())
    text += (text.empty() ? "" : " ") + value.name() + "=" + LiteralText(value.value());
  if (chosen.config().options().num_warps() != 0)
    text += " num_warps=" + std::to_string(chosen.config().options().num_warps());
  if (chosen.config().options().num_stages() != 0)
    text += " num_stages=" + std::to_string(chosen.config().options().num_stages());
  decision->set_chosen(text);
}

// The limits that compiles run under, in words.
std::string LimitsText(const Config& config) {
  return absl::StrCat(absl::FormatDuration(config.compile_limit), ", ", config.worker_memory_bytes,
                      " bytes");
}

// Checked by Daemon::Start.
TuningPolicy PolicyOf(const Config& config) {
  TuningPolicy policy;
  TuningPolicy::ParseKind(config.tuning, &policy).IgnoreError();
  policy.frozen = config.tuning_frozen;
  return policy;
}

TunerLimits TunerLimitsOf(const Config& config) {
  TunerLimits limits;
  limits.scratch_bytes = config.tuning_scratch_bytes;
  limits.candidates = static_cast<int>(config.tuning_candidates);
  limits.cpu.device_share = limits.gpu.device_share = config.tuning_device_share;
  limits.cpu.latency_bound = config.tuning_latency_cpu;
  limits.cpu.yields = true;
  limits.gpu.latency_bound = config.tuning_latency_gpu;
  limits.cpu.bound_in_launches = limits.gpu.bound_in_launches =
      static_cast<double>(config.tuning_latency_launches);
  return limits;
}

OnlineTunerOptions OnlineTunerOptionsOf(const Config& config) {
  OnlineTunerOptions options;
  options.horizon_seconds = absl::ToDoubleSeconds(config.tuning_horizon);
  return options;
}

SessionLimits LimitsOf(const Config& config) {
  SessionLimits limits;
  limits.sessions = static_cast<uint32_t>(config.max_sessions);
  limits.regions = static_cast<uint32_t>(config.session_regions);
  limits.bytes = config.session_bytes;
  limits.launches_in_flight = static_cast<uint32_t>(config.session_launches);
  limits.lease = config.session_lease;
  return limits;
}

}  // namespace

// Everything, in the order of construction: what is later uses what is earlier. Regions and
// variants that go with the sessions and the launcher leave tasks for the pool, which runs them
// before the devices go.
struct Daemon::Running {
  Running(const Config& config, DaemonParts parts, std::unique_ptr<cache::CacheStore> opened)
      : config(config),
        version(std::move(parts.version)),
        store(std::move(opened)),
        devices(std::move(parts.devices)),
        ops_catalog(std::move(parts.ops)),
        pool(kPoolThreads),
        backend(std::move(parts.backend)),
        sessions(LimitsOf(config), &pool, &metrics),
        modules(store.get(), backend.get(), &pool, &timer, parts.compiler_build,
                config.max_source_bytes),
        compiler(store.get(), backend.get(), &pool, &timer, &metrics, parts.compiler_build,
                 config.remember_failures, LimitsText(config)),
        policies(PolicyOf(config)),
        tunings(store.get(), &policies),
        launcher(&sessions, devices.get(), &modules, &compiler, store.get(), &tunings, &pool,
                 &timer, &metrics, LauncherLimits{static_cast<uint32_t>(config.max_variants)}),
        op_launcher(ops_catalog.get(), &modules, &launcher),
        config_pruner(backend.get()),
        tuner(&launcher, &sessions, &modules, &tunings, &config_pruner, &metrics, parts.compiler_build,
              TunerLimitsOf(config)),
        online_tuner(&tunings, &tuner, &policies, devices.get(), &metrics,
                     OnlineTunerOptionsOf(config)),
        jit_monitor(JitModeOf(config)),
        warmup({&modules, &launcher, ops_catalog.get(), &tunings, devices.get(), store.get(), &pool,
                &metrics, &jit_monitor, &traffic, &sessions, config.tuning_scratch_bytes}),
        tuning_thread(1),
        module_service(&modules, &launcher, &pool),
        memory_service(&sessions, devices.get(), &pool, config.memory_over_tcp, config.posix_shm),
        launch_service(&launcher, config.launch_spin),
        ops_service(&op_launcher, config.launch_spin),
        tuning_service({&tuner, &online_tuner, &tunings, &policies, devices.get(), &modules,
                        &tuning_thread, &pool}),
        warmup_service(&warmup, &pool,
                       [this](OnWarmupProgress on_progress) {
                         return StartWarmup(std::move(on_progress));
                       }),
        cache_keeper(
            store.get(), {config.cache_bytes, config.cache_entries_per_kernel},
            [this](CacheKeeper::InUse* in_use) {
              for (std::string& hash : launcher.LoadedKeys())
                in_use->artifacts.insert(std::move(hash));
              for (std::string& id : modules.LoadedIds()) in_use->modules.insert(std::move(id));
            },
            [this](absl::string_view hash) { return warmup.NamesArtifact(hash); }),
        cache_service(store.get(), &cache_keeper, &pool,
                      {parts.compiler_build, config.cache_import,
                       [this](uint64_t entries) {
                         imported += entries;
                         if (absl::Status loaded = tunings.Load(); !loaded.ok())
                           spdlog::warn("reading imported tunings: {}", loaded.ToString());
                       }}),
        admin_service([this](api::GetStatusResponse* response) { FillStatus(response); }) {
    launcher.SetJitObserver(&jit_monitor);
    launcher.SetOnUsage([this](const KernelModel&, const Variant& variant, uint64_t launches,
                               int64_t unix_seconds) {
      traffic.Add(variant.key.hex(), variant.recipe, launches, unix_seconds);
    });
    if (TrafficPath().empty()) return;
    if (absl::Status read = traffic.ReadFile(TrafficPath()); !read.ok())
      spdlog::warn("{}", std::string(read.message()));
  }

  absl::Status Serve();
  void BeginWarmup();
  // By the daemon's own manifest, at start and again. FAILED_PRECONDITION: it has none.
  absl::Status StartWarmup(OnWarmupProgress on_progress);
  void Ready();
  void SetHealth(bool serving);
  void Upkeep();
  void SampleCache();
  void CollectCache();
  void RecordHistory();
  void FillStatus(api::GetStatusResponse* response);
  void FillActivity(api::GetStatusResponse* response);
  void Expose();
  DaemonState ReadState();
  std::string TrafficPath() const {
    return config.state_dir.empty() ? "" : config.state_dir + "/" + kTrafficFile;
  }

  const Config config;
  const std::string version;
  const absl::Time started = absl::Now();
  std::atomic<const char*> state{"starting"};
  std::atomic<bool> ready{false};

  Metrics metrics;
  GpuMetrics gpu_metrics{metrics.registry()};
  std::unique_ptr<cache::CacheStore> store;
  std::unique_ptr<DeviceTable> devices;
  std::unique_ptr<OpCatalog> ops_catalog;
  TaskPool pool;
  Timer timer;
  std::unique_ptr<CompileBackend> backend;
  SessionRegistry sessions;
  ModuleTable modules;
  CompileService compiler;
  TuningPolicies policies;
  TuningTable tunings;
  Launcher launcher;
  OpLauncher op_launcher;
  ConfigPruner config_pruner;
  Tuner tuner;
  OnlineTuner online_tuner;
  ObservedTraffic traffic;
  JitMonitor jit_monitor;
  Warmup warmup;
  TaskPool tuning_thread;

  ModuleService module_service;
  MemoryService memory_service;
  LaunchService launch_service;
  OpsService ops_service;
  TuningService tuning_service;
  WarmupService warmup_service;
  std::atomic<uint64_t> imported{0};  // entries of bundles
  CacheKeeper cache_keeper;
  CacheService cache_service;
  AdminService admin_service;

  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<DescriptorSocket> descriptor_socket;

  History history;
  std::mutex cache_stats_mutex;
  api::CacheStatsResponse cache_stats;  // as of the start or the last upkeep
  int upkeeps = 0;
  std::unique_ptr<SampledMetrics> sampled_metrics;
  std::unique_ptr<Exposition> exposition;
  std::string metrics_address;
};

absl::Status Daemon::Running::Serve() {
  SetSocketPolling(config.socket_poll);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::string path = config.socket_path();
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  int tcp_port = -1;
  if (config.tcp_listen != "off" && !config.tcp_listen.empty()) {
    builder.AddListeningPort(config.tcp_listen, grpc::InsecureServerCredentials(), &tcp_port);
    // Two daemons on one port would share its clients between them.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  }
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<uint64_t>(config.max_message_bytes, INT32_MAX)));
  builder.SetMaxSendMessageSize(-1);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &module_service, &memory_service, &launch_service, &ops_service, &tuning_service,
           &warmup_service, &cache_service, &admin_service})
    builder.RegisterService(service);
  // The file exists before its mode can be set; the mask keeps others out meanwhile.
  mode_t mask = umask(0777 & ~static_cast<mode_t>(config.socket_mode));
  server = builder.BuildAndStart();
  umask(mask);
  if (server == nullptr)
    return absl::UnavailableError(
        "gRPC does not listen on " + config.listen +
        (tcp_port >= 0 || config.tcp_listen == "off" ? "" : " and " + config.tcp_listen));
  SetHealth(false);
  RETURN_IF_ERROR(
      SetSocketAccess(path, static_cast<mode_t>(config.socket_mode), config.socket_group));
  ASSIGN_OR_RETURN(descriptor_socket,
                   DescriptorSocket::Listen(path + ".fd", static_cast<mode_t>(config.socket_mode),
                                            config.socket_group, &sessions));
  NotifyServiceManager("READY=1");
  return absl::OkStatus();
}

void Daemon::Running::SetHealth(bool serving) {
  ready = serving;
  metrics.ready->Set(serving ? 1 : 0);
  grpc::HealthCheckServiceInterface* health = server->GetHealthCheckService();
  if (health == nullptr) return;
  bool up = state.load() != kDraining;
  for (const char* service : kEarlyServices) health->SetServingStatus(service, up);
  for (const char* service : kWarmServices) health->SetServingStatus(service, serving);
}

void Daemon::Running::Ready() {
  if (ready || state.load() == kDraining) return;
  state = "serving";
  launcher.SetServing();
  SetHealth(true);
  spdlog::info("ready");
}

void Daemon::Running::BeginWarmup() {
  if (config.warmup_manifest.empty()) {
    Ready();
    return;
  }
  absl::Status begun = StartWarmup(nullptr);
  if (begun.ok()) return;
  spdlog::error("no warm-up: {}", std::string(begun.message()));
  if (config.warmup_on_failure == "serve")
    Ready();
  else
    state = "held: the manifest does not read";
}

absl::Status Daemon::Running::StartWarmup(OnWarmupProgress on_progress) {
  if (config.warmup_manifest.empty())
    return absl::FailedPreconditionError(
        "this daemon has no manifest of its own; start it with --warmup-manifest=FILE, or send "
        "one: tessera warmup FILE");
  static const bool on_terminal = isatty(STDERR_FILENO) != 0;
  absl::Status begun = warmup.StartFile(
      config.warmup_manifest, [this, on_progress](const api::WarmupProgress& progress) {
        if (on_terminal) DrawProgress(progress);
        bool resolved = progress.state() != "reading";
        bool required_done = resolved && progress.required_done() == progress.required();
        if (required_done && progress.required_failed() == 0)
          Ready();
        else if (required_done && config.warmup_on_failure == "serve")
          Ready();
        else if (required_done && !ready)
          state = "held: required warm-up items failed";
        if (progress.finished())
          spdlog::log(progress.failed() == 0 ? spdlog::level::info : spdlog::level::warn,
                      "warm-up by {}: {} of {} done in {:.2f} s, {} compiled, {} from the cache, "
                      "{} failed ({} of them required)",
                      progress.manifest(), progress.done(), progress.total(), progress.seconds(),
                      progress.compiled(), progress.cached(), progress.failed(),
                      progress.required_failed());
        if (on_progress) on_progress(progress);
      });
  if (!begun.ok()) warmup.NoteUnreadable(config.warmup_manifest, begun);
  return begun;
}

void Daemon::Running::CollectCache() {
  // What a manifest names is known when it was resolved.
  if (!ready) return;
  if (!cache_keeper.Due(compiler.compiles() + imported, std::chrono::steady_clock::now())) return;
  absl::StatusOr<cache::CollectReport> report = cache_keeper.Collect(false, absl::Now());
  if (!report.ok())
    spdlog::warn("keeping the cache within its budget: {}", report.status().ToString());
  else if (report->entries > 0)
    spdlog::info("evicted {} cache entries of {} bytes; {} bytes stay", report->entries,
                 report->bytes, report->kept_bytes);
}

void Daemon::Running::SampleCache() {
  api::CacheStatsResponse read;
  FillCacheStats(store->Stats(), &read);
  std::lock_guard<std::mutex> lock(cache_stats_mutex);
  cache_stats = std::move(read);
}

void Daemon::Running::Upkeep() {
  sessions.ExpireLeases();
  RefreshGpus(*devices, &gpu_metrics);
  launcher.FlushUsage();
  online_tuner.RefreshMetrics();
  SampleCache();
  CollectCache();
  RecordHistory();
  if (++upkeeps % kUpkeepsPerTrafficWrite == 0 && !TrafficPath().empty())
    if (absl::Status written = traffic.WriteFile(TrafficPath()); !written.ok())
      spdlog::warn("keeping what was launched: {}", written.ToString());
}

void Daemon::Running::RecordHistory() {
  HistoryCounters now;
  now.monotonic_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  now.launches = launcher.launches();
  now.failures = launcher.failures();
  now.compiles = compiler.compiles();
  now.jit = metrics.jit_during_serving();
  now.compile_hits = static_cast<uint64_t>(metrics.compile_hit->Value());
  now.compile_requests =
      now.compile_hits + static_cast<uint64_t>(metrics.compile_miss->Value() +
                                               metrics.compile_failed->Value() +
                                               metrics.compile_timeout->Value());
  for (const Metrics::DeviceTime& time : metrics.device_time)
    now.busy_seconds += static_cast<double>(time.nanoseconds.load()) * 1e-9;
  now.mapped_bytes = sessions.mapped_bytes();
  if (std::optional<ProcessInfo> self = ReadProcessInfo(getpid()))
    now.resident_bytes = self->resident_bytes;
  now.in_flight = launcher.in_flight();
  now.launch_latency = metrics.launch_latency.Read();
  history.Add(now);
}

void Daemon::Running::Expose() {
  sampled_metrics = std::make_unique<SampledMetrics>(&metrics, [this] { return ReadState(); });
  HttpServer::Handlers pages;
  pages["/"] = [this] {
    double now =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    return HttpResponse{200, "text/html; charset=utf-8",
                        RenderStatusPage(ReadState(), history.Points(now), absl::Now())};
  };
  // Alive, and ready, for those who probe by HTTP.
  pages["/healthz"] = [] { return HttpResponse{200, "text/plain; charset=utf-8", "ok\n"}; };
  pages["/readyz"] = [this] {
    return HttpResponse{ready ? 200 : 503, "text/plain; charset=utf-8",
                        std::string(state.load()) + "\n"};
  };
  exposition = std::make_unique<Exposition>(
      config.metrics, Collectables{metrics.registry().get(), sampled_metrics.get()},
      std::move(pages));
  metrics_address = exposition->address();
}

DaemonState Daemon::Running::ReadState() {
  DaemonState read;
  FillStatus(&read.status);
  std::lock_guard<std::mutex> lock(cache_stats_mutex);
  read.cache = cache_stats;
  return read;
}

void Daemon::Running::FillActivity(api::GetStatusResponse* response) {
  std::map<std::string, uint32_t> variants = launcher.VariantsByKernel();
  for (const KernelStats* stats : metrics.kernels.Busiest(kKernelsShown)) {
    if (stats->launches.load() + stats->failures.load() == 0) continue;
    api::GetStatusResponse::Kernel* to = response->add_kernels();
    to->set_name(stats->name);
    to->set_launches(stats->launches.load());
    to->set_failures(stats->failures.load());
    to->set_seconds(stats->seconds());
    to->set_max_seconds(static_cast<double>(stats->most_nanoseconds.load()) * 1e-9);
    to->set_jit_during_serving(stats->jit.load());
    LatencyHistogram::Counts latency = stats->latency.Read();
    to->set_p50_seconds(latency.Quantile(0.5));
    to->set_p99_seconds(latency.Quantile(0.99));
    to->set_variants(variants[stats->name]);
  }
  auto add_quantiles = [&](const char* name, const LatencyHistogram& histogram) {
    LatencyHistogram::Counts counts = histogram.Read();
    api::GetStatusResponse::Quantiles* to = response->add_latencies();
    to->set_name(name);
    to->set_count(counts.total);
    to->set_p50_seconds(counts.Quantile(0.5));
    to->set_p90_seconds(counts.Quantile(0.9));
    to->set_p99_seconds(counts.Quantile(0.99));
  };
  add_quantiles("launch", metrics.launch_latency);
  add_quantiles("queue", metrics.queue_latency);
  add_quantiles("compile", metrics.compile_latency);
  for (const JitMonitor::Event& event : jit_monitor.Events()) *response->add_jit_events() = event;
  response->set_jit_during_serving(metrics.jit_during_serving());
  response->set_jit_monitor(jit_monitor.mode_name());
  api::GetStatusResponse::Compiles* requests = response->mutable_compile_requests();
  requests->set_queued(static_cast<uint32_t>(backend->queued()));
  requests->set_hit(static_cast<uint64_t>(metrics.compile_hit->Value()));
  requests->set_miss(static_cast<uint64_t>(metrics.compile_miss->Value()));
  requests->set_coalesced(static_cast<uint64_t>(metrics.compile_coalesced->Value()));
  requests->set_failed(static_cast<uint64_t>(metrics.compile_failed->Value()));
  requests->set_timeout(static_cast<uint64_t>(metrics.compile_timeout->Value()));
  {
    std::lock_guard<std::mutex> lock(cache_stats_mutex);
    api::GetStatusResponse::Cache* to = response->mutable_cache();
    to->set_hits(cache_stats.hits());
    to->set_misses(cache_stats.misses());
    to->set_corrupt_entries(cache_stats.corrupt_entries());
    to->set_evictions(cache_stats.evictions());
    to->set_disk_bytes(cache_stats.disk_bytes());
    to->set_state(cache_stats.state());
    for (const auto& family : cache_stats.families())
      to->set_entries(to->entries() + family.entries());
  }
  response->set_launches_rejected(metrics.launches_rejected());
  for (const auto& [reason, count] : metrics.FailureReasons()) {
    api::GetStatusResponse::Reason* to = response->add_failure_reasons();
    to->set_reason(reason);
    to->set_count(count);
  }
  response->set_tune_trials(static_cast<uint64_t>(metrics.tune_trials->Value()));
  std::vector<storage::TuningRecord> records = tunings.List("");
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.measured_unix_seconds() > b.measured_unix_seconds();
  });
  if (records.size() > kTuningsShown) records.resize(kTuningsShown);
  for (const storage::TuningRecord& record : records)
    FillTuning(record, response->add_tunings());
  auto add_process = [&](const std::string& role, int64_t pid) {
    std::optional<ProcessInfo> info;
    if (pid > 0) info = ReadProcessInfo(static_cast<pid_t>(pid));
    if (!info) return;
    api::GetStatusResponse::Process* to = response->add_processes();
    to->set_role(role);
    to->set_pid(pid);
    to->set_resident_bytes(info->resident_bytes);
    to->set_descriptors(info->descriptors);
    to->set_cpu_seconds(info->cpu_seconds);
    to->set_threads(info->threads);
  };
  add_process("daemon", getpid());
  for (const std::unique_ptr<Device>& device : devices->all())
    if (runtime::ExecutorClient* executor = device->started())
      add_process("executor " + device->name(), executor->pid());
  for (const std::unique_ptr<Device>& device : devices->all())
    if (device->tuning() != nullptr && device->tuning()->started() != nullptr)
      add_process("tuning " + device->name(), device->tuning()->started()->pid());
  for (const BackendWorker& worker : backend->Workers()) add_process("worker", worker.pid);
}

void Daemon::Running::FillStatus(api::GetStatusResponse* response) {
  response->set_version(version);
  response->set_compiler_build(compiler.compiler_build());
  response->set_started_unix_seconds(absl::ToUnixSeconds(started));
  response->set_ready(ready);
  response->set_state(state.load());
  *response->mutable_warmup() = warmup.Progress();
  for (const std::unique_ptr<Device>& device : devices->all()) {
    api::GetStatusResponse::Device* to = response->add_devices();
    to->set_name(device->name());
    to->set_description(device->description().model);
    to->set_threads(device->description().threads);
    runtime::ExecutorClient* executor = device->started();
    to->set_state(executor == nullptr ? "not started" : "running");
    FillGpuStatus(*device, to);
    if (executor == nullptr) continue;
    to->set_executor_pid(executor->pid());
    to->set_restarts(executor->restarts());
    for (const std::string& kernel : executor->quarantined_names())
      to->add_quarantined_kernels(kernel);
  }
  for (const BackendWorker& worker : backend->Workers()) {
    api::GetStatusResponse::Worker* to = response->add_workers();
    to->set_pid(worker.pid);
    to->set_state(worker.state);
    to->set_compiles(worker.compiles);
    to->set_restarts(worker.restarts);
  }
  response->set_sessions(sessions.sessions());
  response->set_regions(sessions.regions());
  response->set_mapped_bytes(sessions.mapped_bytes());
  response->set_launches(launcher.launches());
  response->set_launch_failures(launcher.failures());
  response->set_compiles(compiler.compiles());
  response->set_kernel_variants(launcher.variants());
  response->set_launches_in_flight(launcher.in_flight());
  response->set_pid(getpid());
  response->set_state_dir(config.state_dir);
  response->set_metrics_address(metrics_address);
  FillActivity(response);
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config, DaemonParts parts) {
  TuningPolicy policy;
  RETURN_IF_ERROR(TuningPolicy::ParseKind(config.tuning, &policy));
  // Before anything else: another daemon's sockets must not be touched.
  RETURN_IF_ERROR(PrepareSocketPath(config.socket_path(), SOCK_STREAM));
  RETURN_IF_ERROR(PrepareSocketPath(config.socket_path() + ".fd", SOCK_SEQPACKET));
  // The database opens while the executor starts.
  std::future<absl::StatusOr<std::unique_ptr<cache::CacheStore>>> opening =
      std::async(std::launch::async, parts.open_store);
  absl::StatusOr<Device*> device = parts.devices->Find("");
  absl::Status executor = device.ok() ? (*device)->Start().status() : device.status();
  absl::StatusOr<std::unique_ptr<cache::CacheStore>> store = opening.get();
  RETURN_IF_ERROR(store.status());
  // A GPU that nobody asked for by name may be busy or broken: the others serve, and it is tried
  // again when it is needed.
  const bool may_wait =
      device.ok() && (*device)->description().is_gpu() && config.default_device.empty();
  if (!executor.ok() && !may_wait) return executor;
  auto running = std::make_unique<Running>(config, std::move(parts), *std::move(store));
  Running* raw = running.get();
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(running)));
  if (absl::Status loaded = raw->tunings.Load(); !loaded.ok())
    spdlog::warn("reading tunings: {}", loaded.ToString());
  raw->online_tuner.Start();
  raw->pool.Run([raw] { raw->SampleCache(); });
  RETURN_IF_ERROR(raw->Serve());
  spdlog::info("serving at {}, state in {}", config.listen, config.state_dir);
  raw->Expose();
  raw->BeginWarmup();
  // Not at once: a launch from a warm cache needs no worker, and should not share its cores with
  // their start.
  raw->timer.After(kWorkerDelay, [raw] { raw->backend->Start(); });
  raw->timer.Every(kUpkeepPeriod, [raw] { raw->pool.Run([raw] { raw->Upkeep(); }); });
  return daemon;
}

Daemon::Daemon(std::unique_ptr<Running> running) : running_(std::move(running)) {}

Daemon::~Daemon() { Drain(); }

void Daemon::Drain() {
  if (running_ == nullptr) return;
  Running& r = *running_;
  r.state = kDraining;
  r.launcher.StopAccepting();
  // Nobody waits for candidates.
  for (const std::unique_ptr<Device>& device : r.devices->all())
    if (device->tuning() != nullptr)
      if (runtime::ExecutorClient* executor = device->tuning()->started();
          executor != nullptr && executor->pid() > 1)
        kill(executor->pid(), SIGKILL);
  if (r.server != nullptr) {
    r.SetHealth(false);
    spdlog::info("draining: {} launches in flight", r.launcher.in_flight());
    auto limit =
        std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(r.config.drain_limit);
    while (r.launcher.in_flight() > 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (r.launcher.in_flight() > 0) {
      spdlog::warn("{} launches outlive the drain limit and are ended", r.launcher.in_flight());
      for (const std::unique_ptr<Device>& device : r.devices->all())
        if (runtime::ExecutorClient* executor = device->started();
            executor != nullptr && executor->pid() > 1)
          kill(executor->pid(), SIGKILL);
    }
    // Answers every compile that is waited for, so that their calls can end.
    r.timer.Stop();
    r.backend->Stop();
    r.server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    r.server->Wait();
  }
  r.timer.Stop();
  r.backend->Stop();
  r.descriptor_socket.reset();
  r.exposition.reset();
  // gRPC leaves the file behind.
  if (r.server != nullptr) unlink(r.config.socket_path().c_str());
  r.online_tuner.Stop();
  r.tuning_thread.Drain();
  r.pool.Drain();
  r.launcher.FlushUsage();
  if (!r.TrafficPath().empty())
    if (absl::Status written = r.traffic.WriteFile(r.TrafficPath()); !written.ok())
      spdlog::warn("keeping what was launched: {}", written.ToString());
  r.sessions.CloseAll();
  running_.reset();
  spdlog::info("stopped");
}

void Daemon::Reload() {
  if (absl::Status begun = running_->StartWarmup(nullptr); !begun.ok())
    spdlog::error("reload: {}", std::string(begun.message()));
}

api::GetStatusResponse Daemon::Status() {
  api::GetStatusResponse response;
  running_->FillStatus(&response);
  return response;
}

}  // namespace tessera::server
