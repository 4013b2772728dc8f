#include "server/main/daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
#include "server/main/gpu_status.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/cache_service.h"
#include "server/rpc/launch_service.h"
#include "server/rpc/memory_service.h"
#include "server/rpc/module_service.h"
#include "server/rpc/ops_service.h"
#include "server/rpc/tuning_service.h"
#include "server/rpc/warmup_service.h"
#include "server/session/descriptor_socket.h"
#include "server/session/session_registry.h"
#include "server/session/socket_file.h"
#include "server/telemetry/exposition.h"
#include "server/telemetry/metrics.h"
#include "server/tuning/tuner.h"
#include "server/tuning/tuning_table.h"
#include "server/warmup/warmup.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

// For work that may block: store look-ups, control messages to executors. More would compete with
// kernels for cores.
constexpr int kPoolThreads = 4;
constexpr absl::Duration kUpkeepPeriod = absl::Seconds(2);
constexpr absl::Duration kWorkerDelay = absl::Milliseconds(100);
// After the drain limit, for gRPC to send the last answers.
constexpr std::chrono::seconds kShutdownGrace(2);

constexpr const char* kServices[] = {"tessera.v1.ModuleService", "tessera.v1.MemoryService",
                                     "tessera.v1.LaunchService", "tessera.v1.OpsService",
                                     "tessera.v1.TuningService", "tessera.v1.WarmupService",
                                     "tessera.v1.CacheService",  "tessera.v1.AdminService"};

// The limits that compiles run under, in words.
std::string LimitsText(const Config& config) {
  return absl::StrCat(absl::FormatDuration(config.compile_limit), ", ", config.worker_memory_bytes,
                      " bytes");
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
        tunings(store.get()),
        launcher(&sessions, devices.get(), &modules, &compiler, store.get(), &tunings, &pool,
                 &timer, &metrics, LauncherLimits{static_cast<uint32_t>(config.max_variants)}),
        op_launcher(ops_catalog.get(), &modules, &launcher),
        tuner(&launcher, &sessions, &modules, &tunings, &metrics,
              TunerLimits{config.tuning_scratch_bytes}),
        warmup(&modules, &launcher, &metrics),
        tuning_thread(1),
        module_service(&modules, &launcher, &pool),
        memory_service(&sessions, devices.get(), &pool, config.memory_over_tcp, config.posix_shm),
        launch_service(&launcher, config.launch_spin),
        ops_service(&op_launcher, config.launch_spin),
        tuning_service(&tuner, &tunings, devices.get(), &tuning_thread, &pool),
        warmup_service(&warmup),
        cache_keeper(
            store.get(), {config.cache_bytes, config.cache_entries_per_kernel},
            [this](CacheKeeper::InUse* in_use) {
              for (std::string& hash : launcher.LoadedKeys())
                in_use->artifacts.insert(std::move(hash));
              for (std::string& id : modules.LoadedIds()) in_use->modules.insert(std::move(id));
            },
            [](absl::string_view) { return false; }),
        cache_service(store.get(), &cache_keeper, &pool,
                      {parts.compiler_build, config.cache_import,
                       [this](uint64_t entries) {
                         imported += entries;
                         if (absl::Status loaded = tunings.Load(); !loaded.ok())
                           spdlog::warn("reading imported tunings: {}", loaded.ToString());
                       }}),
        admin_service([this](api::GetStatusResponse* response) { FillStatus(response); }) {}

  absl::Status Serve();
  void BeginWarmup();
  void SetHealth(bool serving);
  void Upkeep();
  void CollectCache();
  void FillStatus(api::GetStatusResponse* response);

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
  TuningTable tunings;
  Launcher launcher;
  OpLauncher op_launcher;
  Tuner tuner;
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
  std::unique_ptr<Exposition> exposition;
};

absl::Status Daemon::Running::Serve() {
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
  return absl::OkStatus();
}

void Daemon::Running::SetHealth(bool serving) {
  ready = serving;
  metrics.ready->Set(serving ? 1 : 0);
  grpc::HealthCheckServiceInterface* health = server->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus("", serving);
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

void Daemon::Running::BeginWarmup() {
  auto serve = [this] {
    state = "serving";
    launcher.SetServing();
    SetHealth(true);
    spdlog::info("ready");
  };
  if (config.warmup_manifest.empty()) {
    serve();
    return;
  }
  absl::Status begun =
      warmup.StartFile(config.warmup_manifest, [serve](const api::WarmupProgress& progress) {
        if (!progress.finished()) return;
        spdlog::info("warm-up: {} of {} done, {} compiled, {} from the cache, {} failed",
                     progress.done(), progress.total(), progress.compiled(), progress.cached(),
                     progress.failed());
        serve();
      });
  if (begun.ok()) return;
  // A manifest with a mistake must not keep a machine from serving, nor be overlooked.
  spdlog::error("no warm-up: {}", begun.ToString());
  serve();
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

void Daemon::Running::Upkeep() {
  sessions.ExpireLeases();
  RefreshGpus(*devices, &gpu_metrics);
  launcher.FlushUsage();
  CollectCache();
  uint32_t restarts = 0;
  for (const std::unique_ptr<Device>& device : devices->all())
    if (runtime::ExecutorClient* executor = device->started()) restarts += executor->restarts();
  metrics.executor_restarts->Set(restarts);
  uint32_t worker_restarts = 0;
  for (const BackendWorker& worker : backend->Workers()) worker_restarts += worker.restarts;
  metrics.worker_restarts->Set(worker_restarts);
  cache::StoreStats stats = store->Stats();
  uint64_t entries = 0;
  for (const cache::FamilyStats& family : stats.families) entries += family.entries;
  metrics.cache_entries->Set(static_cast<double>(entries));
  metrics.cache_bytes->Set(static_cast<double>(stats.disk_bytes));
  metrics.cache_hits->Set(static_cast<double>(stats.hits));
  metrics.cache_misses->Set(static_cast<double>(stats.misses));
  metrics.cache_evictions->Set(static_cast<double>(stats.evictions));
  metrics.cache_corrupt->Set(static_cast<double>(stats.corrupt_entries));
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
  if (exposition != nullptr) response->set_metrics_address(exposition->address());
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config, DaemonParts parts) {
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
  RETURN_IF_ERROR(executor);
  auto running = std::make_unique<Running>(config, std::move(parts), *std::move(store));
  Running* raw = running.get();
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(running)));
  if (absl::Status loaded = raw->tunings.Load(); !loaded.ok())
    spdlog::warn("reading tunings: {}", loaded.ToString());
  RETURN_IF_ERROR(raw->Serve());
  spdlog::info("serving at {}, state in {}", config.listen, config.state_dir);
  raw->BeginWarmup();
  raw->exposition = std::make_unique<Exposition>(config.metrics, raw->metrics);
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
  r.state = "draining";
  r.launcher.StopAccepting();
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
  r.tuning_thread.Drain();
  r.pool.Drain();
  r.launcher.FlushUsage();
  r.sessions.CloseAll();
  running_.reset();
  spdlog::info("stopped");
}

api::GetStatusResponse Daemon::Status() {
  api::GetStatusResponse response;
  running_->FillStatus(&response);
  return response;
}

}  // namespace tessera::server
