#include "server/launch/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/launch/detached_answer.h"
#include "server/launch/guard_policy.h"
#include "server/launch/launch_checks.h"
#include "server/launch/recipe.h"
#include "server/launch/placement.h"
#include "server/launch/signature.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

// A launch is tried again after the module, the mappings and the variant were made ready, and once
// for each configuration that does not fit the device; more means that what is made ready goes
// again at once.
constexpr int kMaxTries = 40;
constexpr size_t kMaxKernels = 16384;

// One a thread: its vectors keep their memory from launch to launch. Regions do not stay in it:
// they may end with their session at any time.
class ThreadBoundLaunch {
 public:
  ThreadBoundLaunch() { Of().Clear(); }
  ~ThreadBoundLaunch() { Of().regions.clear(); }
  BoundLaunch* get() { return &Of(); }

 private:
  static BoundLaunch& Of() {
    thread_local BoundLaunch bound;
    return bound;
  }
};

// Why a configuration may be passed over: it outgrows a limit of the target.
bool OutgrowsTarget(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
}

// Whether a variant can never be had, unlike one that comes too late.
bool CannotBeHad(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
         !absl::IsCancelled(status);
}

// For metrics: the machine-readable reason, else the code's name.
std::string ReasonOf(const absl::Status& status) {
  std::optional<api::ErrorDetail> detail = DetailOf(status);
  return detail ? detail->reason() : absl::StatusCodeToString(status.code());
}

// What the compile key holds of the source.
cache::SourceText SourceOf(const KernelModel& kernel, const storage::CompileJob& job) {
  cache::SourceText source(kernel.description().closure());
  for (const std::string& name : cache::FunctionsOf(job))
    if (const storage::KernelDescription* function = kernel.module().FindKernel(name))
      source.functions[name] = function->closure();
  return source;
}

void AppendModuleAndKernel(const std::string& module, const std::string& kernel, std::string* key) {
  key->assign(module);
  *key += '/';
  *key += kernel;
}

}  // namespace

// A launch on its way to the executor.
struct Launcher::Attempt {
  const api::LaunchRequest* request = nullptr;
  api::LaunchRequest copy;  // once it must wait
  std::shared_ptr<Session> session;
  Device* device = nullptr;
  LaunchWait wait;
  api::LaunchResponse* response = nullptr;
  Done done;
  CompileOutcome outcome = CompileOutcome::kHit;
  double compile_seconds = 0;
  int tries = 0;
  // Set by TrySubmit for what it finds missing.
  std::shared_ptr<KernelModel> kernel;
  std::string key;
  storage::CompileJob job;
  std::shared_ptr<const api::CompileRequest> recipe;
  absl::InlinedVector<std::shared_ptr<Region>, 8> regions;
  int config_index = 0;         // counts from 1
  bool config_is_ours = false;  // nobody asked for it: another one will do
  bool default_meanwhile = false;  // see RunsDefaultMeanwhile
  std::shared_ptr<ConfigChoices::Observer> observer;
  bool compiled_anew = false, stages_made = false;  // what the request asks for once
  bool guard_decided = false;
  std::shared_ptr<GuardRecord> guard;  // of a launch that is to run guarded
  GuardPolicy guard_policy;
  std::string guard_note;  // why it does not
};

namespace {

// The executor's word on a launch, with a reason that programs can read.
absl::Status LaunchError(const absl::Status& status, const std::string& kernel,
                         const std::string& device, const std::string& blame) {
  const char* reason = "LAUNCH_FAILED";
  if (absl::IsUnavailable(status)) reason = "EXECUTOR_DIED";
  if (absl::IsFailedPrecondition(status)) reason = "KERNEL_QUARANTINED";
  if (absl::IsAborted(status)) reason = "DEVICE_ASSERT";
  if (absl::IsOutOfRange(status)) reason = "OUT_OF_BOUNDS";
  return Error(status.code(), reason,
               absl::StrCat("launching ", kernel, " on ", device, ": ", status.message(), blame),
               {{"kernel", kernel}, {"device", device}});
}

// From here on an element of one byte is out of reach of a signed 32-bit offset.
constexpr uint64_t kLargeBuffer = uint64_t{1} << 31;

std::vector<LaunchWarning> CheckVariant(const Variant& variant, const BoundLaunch& bound,
                                        const uint32_t grid[3]) {
  std::vector<CheckedParameter> parameters(bound.params.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const runtime::LaunchParam& param = bound.params[i];
    parameters[i].name = variant.slot_names[i];
    parameters[i].bits = param.value;
    parameters[i].has_buffer = variant.slots[i].pointer && param.region != 0;
    parameters[i].bytes_before = param.value;
    parameters[i].bytes = param.extent_bytes;
  }
  return CheckLaunch(variant.facts, parameters, grid);
}

// The variant's notes with its first launch, and those that the launch's values give rise to. Returns what may explain
// a failure of the launch.
std::string AddNotes(Variant& variant, const BoundLaunch& bound, const uint32_t grid[3],
                     api::LaunchResponse* response) {
  bool first = !variant.notes_told.load(std::memory_order_relaxed) &&
               !variant.notes_told.exchange(true, std::memory_order_relaxed);
  bool large = false;
  if (!variant.large_checked.load(std::memory_order_relaxed))
    for (const runtime::LaunchParam& param : bound.params) large |= param.extent_bytes >= kLargeBuffer;
  if (!first && !large) return "";
  if (large) variant.large_checked.store(true, std::memory_order_relaxed);
  if (first)
    for (const std::string& note : variant.notes) response->add_notes(note);
  std::string blame;
  for (LaunchWarning& warning : CheckVariant(variant, bound, grid)) {
    if (!first && warning.kind == LaunchWarning::Kind::kPadding) continue;
    if (warning.kind != LaunchWarning::Kind::kPadding) absl::StrAppend(&blame, "\n", warning.text);
    response->add_notes(std::move(warning.text));
  }
  return blame;
}

bool SharedByMps(const Device& device) { return device.description().gpu.sharing() == "mps"; }

GuardPolicy GuardOf(const Session& session, const Device& device) {
  const bool same_user = session.peer() && session.peer()->uid == geteuid();
  return GuardInForce(session.guard_policy(), SharedByMps(device), same_user);
}

// How many programs the device runs at once, blocks that share a multiprocessor aside.
uint32_t ParallelPrograms(const Device& device) {
  const DeviceDescription& description = device.description();
  return description.is_gpu() ? static_cast<uint32_t>(description.gpu.multiprocessors())
                              : description.threads;
}

// What a submitted launch holds until its result comes.
struct InFlight {
  std::shared_ptr<Session> session;
  absl::InlinedVector<std::shared_ptr<Region>, 8> regions;
  std::shared_ptr<Variant> variant;
  std::shared_ptr<KernelModel> kernel;
  const Device* device;
  api::LaunchResponse* response;
  std::string blame;  // see AddNotes
  Launcher::Done done;
  std::vector<std::shared_ptr<DeviceEvent>> events;
  std::shared_ptr<ConfigChoices::Observer> observer;
  int config_index = 0;
  MeasurementGate* gate = nullptr;  // null: a launch of the tuner, which counts nowhere
  std::shared_ptr<GuardRecord> guard;
};

}  // namespace

Launcher::Launcher(SessionRegistry* sessions, DeviceTable* devices, ModuleTable* modules,
                   CompileService* compiler, cache::CacheStore* store, ConfigChoices* choices,
                   TaskPool* pool, Timer* timer, Metrics* metrics, LauncherLimits limits)
    : sessions_(sessions),
      devices_(devices),
      modules_(modules),
      compiler_(compiler),
      store_(store),
      choices_(choices),
      pool_(pool),
      metrics_(metrics),
      limits_(limits),
      flights_(timer, "compiling the kernel") {}

void Launcher::Launch(const api::LaunchRequest& request, LaunchWait wait,
                      api::LaunchResponse* response, Done done) {
  response->set_tag(request.tag());
  auto refuse = [&](const absl::Status& status) {
    if (wait.tuning_device == nullptr) metrics_->CountRejectedLaunch(ReasonOf(status));
    done(status);
  };
  if (!accepting_.load(std::memory_order_relaxed))
    return refuse(Error(absl::StatusCode::kUnavailable, "DRAINING",
                        "the daemon is stopping and takes no more launches"));
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_->Find(request.session());
  if (!session.ok()) return refuse(session.status());
  if (!(*session)->BeginLaunch())
    return refuse(Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_LAUNCHES",
                        absl::StrCat("the session has its limit of ", (*session)->launch_limit(),
                                     " launches in flight")));
  // Nobody waits for those of the tuner, at the end either.
  const bool counts = wait.tuning_device == nullptr && !wait.prepare_only;
  if (counts) in_flight_.fetch_add(1, std::memory_order_relaxed);
  Attempt attempt;
  attempt.request = &request;
  attempt.session = *std::move(session);
  attempt.wait = wait;
  attempt.response = response;
  attempt.done = std::move(done);
  Missing missing = Missing::kNothing;
  absl::Status status = TrySubmit(&attempt, &missing);
  if (!status.ok()) {
    Finish(&attempt, std::move(status));
    return;
  }
  if (missing == Missing::kNothing) return;
  auto kept = std::make_shared<Attempt>(std::move(attempt));
  kept->copy = request;
  kept->copy.clear_more();  // launches of their own
  kept->request = &kept->copy;
  kept->wait.spin = absl::ZeroDuration();
  MakeReady(std::move(kept), missing);
}

absl::Status Launcher::TrySubmit(Attempt* attempt, Missing* missing) {
  const api::LaunchRequest& request = *attempt->request;
  if (request.plan() != 0)
    return Error(absl::StatusCode::kUnimplemented, "PLANS",
                 "launch plans are not supported yet; send the launch in full");
  attempt->device = attempt->wait.tuning_device;
  if (attempt->device == nullptr) {
    ASSIGN_OR_RETURN(attempt->device, devices_->Find(request.device()));
  }
  if (request.program_order_seed() != 0 && attempt->device->description().target != "interpreter")
    return Error(absl::StatusCode::kInvalidArgument, "PROGRAM_ORDER",
                 absl::StrCat("device ", attempt->device->name(),
                              " chooses the order of programs itself; the device interpreter runs "
                              "them in order or in a random one"));
  std::shared_ptr<KernelModel> kernel = FindKernel(request.module(), request.kernel());
  if (kernel == nullptr) {
    std::shared_ptr<const Module> module = modules_->FindLoaded(request.module());
    if (module == nullptr) {
      *missing = Missing::kModule;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(kernel, KernelOf(std::move(module), request.kernel()));
  }
  ThreadBoundLaunch scratch;
  BoundLaunch* bound = scratch.get();
  RETURN_IF_ERROR(BindArguments(request.arguments(), *kernel, attempt->session.get(), bound));
  attempt->kernel = std::move(kernel);
  ChosenConfig chosen;
  RETURN_IF_ERROR(ChooseConfig(attempt, *bound, &chosen));
  const ConfigChoice& choice = chosen.choice;
  attempt->config_index = choice.index;
  RETURN_IF_ERROR(
      CompleteAndSpecialise(*attempt->kernel, *attempt->device, choice, request.options(), bound));
  uint32_t grid[3];
  ASSIGN_OR_RETURN(bool runs, EvaluateGrid(request, attempt->kernel.get(), *bound, grid));
  if (!runs) {
    attempt->response->set_outcome("hit");
    attempt->response->set_config(choice.index);
    Finish(attempt, absl::OkStatus());
    return absl::OkStatus();
  }
  std::shared_ptr<Variant> variant = attempt->kernel->FindVariant(bound->key);
  const bool anew = request.compile_anew() && !attempt->compiled_anew;
  const bool stages = request.emit_size() > 0 && !attempt->stages_made;
  if (!anew && !stages) ApplyGuard(attempt, choice, bound, &variant);
  if (variant == nullptr || anew || stages) {
    if (!anew && !stages && RunsDefaultMeanwhile(attempt, choice, *bound))
      return TrySubmit(attempt, missing);
    attempt->key = bound->key;
    attempt->job = MakeCompileJob(*attempt->kernel, *attempt->device, *bound);
    attempt->recipe = std::make_shared<const api::CompileRequest>(
        MakeRecipe(request, *attempt->device, choice, bound->options));
    *missing = variant == nullptr || anew ? Missing::kVariant : Missing::kStages;
    return absl::OkStatus();
  }
  for (const std::shared_ptr<Region>& region : bound->regions)
    if (!region->MappedOn(*attempt->device)) {
      attempt->regions = bound->regions;
      *missing = Missing::kMappings;
      return absl::OkStatus();
    }
  if (attempt->wait.prepare_only) {
    attempt->response->set_compile_seconds(attempt->compile_seconds);
    Finish(attempt, absl::OkStatus());
    return absl::OkStatus();
  }
  if (attempt->wait.grid_share != nullptr && !attempt->wait.is_part)
    ReduceGrid(ParallelPrograms(*attempt->device), attempt->wait.grid_share.get(), grid);
  return Submit(attempt, std::move(variant), grid, bound);
}

bool Launcher::RunsDefaultMeanwhile(Attempt* attempt, const ConfigChoice& choice,
                                    const BoundLaunch& bound) {
  const KernelModel& kernel = *attempt->kernel;
  if (!attempt->config_is_ours || attempt->default_meanwhile || attempt->observer == nullptr ||
      attempt->wait.prepare_only)
    return false;
  ChosenConfig chosen;
  if (!DefaultConfig(kernel, *attempt->device, &chosen).ok() ||
      chosen.choice.index == attempt->config_index)
    return false;
  BoundLaunch other;
  if (!BindArguments(attempt->request->arguments(), kernel, attempt->session.get(), &other).ok() ||
      !CompleteAndSpecialise(kernel, *attempt->device, chosen.choice, attempt->request->options(),
                             &other)
           .ok() ||
      kernel.FindVariant(other.key) == nullptr)
    return false;
  attempt->default_meanwhile = true;
  attempt->guard_decided = false;  // of the other variant
  attempt->guard.reset();
  EnsureVariant(attempt->kernel, attempt->device, bound.key,
                MakeCompileJob(kernel, *attempt->device, bound),
                std::make_shared<const api::CompileRequest>(
                    MakeRecipe(*attempt->request, *attempt->device, choice, bound.options)),
                /*anew=*/false, absl::InfiniteDuration(),
                [kernel = attempt->kernel, device = attempt->device, index = choice.index](absl::StatusOr<LoadedVariant> loaded) {
                  if (!loaded.ok() && index > 0 && OutgrowsTarget(loaded.status()))
                    kernel->MarkUnusable(index, *device);
                },
                /*background=*/true);
  return true;
}

void Launcher::ApplyGuard(Attempt* attempt, const ConfigChoice& choice, BoundLaunch* bound,
                          std::shared_ptr<Variant>* variant) {
  if (!attempt->device->description().is_gpu() || IsGuarded(bound->options)) return;
  const bool first_time = !std::exchange(attempt->guard_decided, true);
  if (first_time) {
    attempt->guard_policy = GuardOf(*attempt->session, *attempt->device);
    if (attempt->guard_policy.mode == GuardPolicy::Mode::kNever) return;
    std::shared_ptr<GuardRecord> record =
        *variant != nullptr ? (*variant)->guard : attempt->kernel->GuardRecordOf(bound->key);
    if (record->Due(attempt->guard_policy)) attempt->guard = std::move(record);
  }
  if (attempt->guard == nullptr) return;
  // The next launch will want the plain one: made meanwhile. Not on this thread, whose `bound` it
  // could need.
  if (first_time && *variant == nullptr && !RefusesCompiles(*attempt) &&
      attempt->guard_policy.mode != GuardPolicy::Mode::kAlways) {
    pool_->Run([this, kernel = attempt->kernel, device = attempt->device, key = bound->key,
                job = MakeCompileJob(*attempt->kernel, *attempt->device, *bound),
                recipe = std::make_shared<const api::CompileRequest>(
                    MakeRecipe(*attempt->request, *attempt->device, choice, bound->options))] {
      EnsureVariant(kernel, device, key, job, recipe, /*anew=*/false, absl::InfiniteDuration(),
                    [](const absl::StatusOr<LoadedVariant>&) {});
    });
  }
  std::shared_ptr<Variant> plain = std::move(*variant);
  (*bound->options.mutable_extra())[kGuardedOption] = "1";
  MakeVariantKey(*attempt->device, bound);
  *variant = attempt->kernel->FindVariant(bound->key);
  // Compiling ahead makes guarded variants under MPS alone. Elsewhere nobody's launch is refused
  // for the want of one.
  if (*variant != nullptr || !RefusesCompiles(*attempt) || SharedByMps(*attempt->device) ||
      attempt->session->guard_policy().mode != GuardPolicy::Mode::kDefault)
    return;
  attempt->guard.reset();
  bound->options.mutable_extra()->erase(kGuardedOption);
  MakeVariantKey(*attempt->device, bound);
  *variant = std::move(plain);
}

bool Launcher::RefusesCompiles(const Attempt& attempt) const {
  return jit_observer_ != nullptr && !attempt.wait.may_compile &&
         serving_.load(std::memory_order_relaxed) && jit_observer_->refuses();
}

// In this order: given in full (by value or as arguments), forced by number, stored for the bucket,
// the first that fits.
absl::Status Launcher::ChooseConfig(Attempt* attempt, const BoundLaunch& bound,
                                    ChosenConfig* chosen) {
  const KernelModel& kernel = *attempt->kernel;
  const api::LaunchRequest& request = *attempt->request;
  attempt->config_is_ours = false;
  if (request.config_values_size() > 0) {
    storage::TuneConfig config;
    for (const api::NamedConstant& value : request.config_values()) {
      storage::NamedConstant* named = config.add_values();
      named->set_name(value.name());
      ASSIGN_OR_RETURN(*named->mutable_value(), ToConstant(value.value()));
    }
    ASSIGN_OR_RETURN(KernelModel::Config modelled, kernel.ModelConfig(std::move(config)));
    chosen->keep = std::make_shared<KernelModel::Config>(std::move(modelled));
    chosen->choice = {0, chosen->keep.get()};
    return absl::OkStatus();
  }
  int count = static_cast<int>(kernel.configs().size());
  if (request.config() < 0 || request.config() > count)
    return Error(absl::StatusCode::kInvalidArgument, "CONFIG_UNKNOWN",
                 absl::StrCat("kernel ", kernel.name(), " has ", count,
                              " configurations; there is no number ", request.config()));
  if (request.config() > 0) {
    chosen->choice = {request.config(), &kernel.configs()[request.config() - 1]};
    return absl::OkStatus();
  }
  if (count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(bool given_in_full, ConfigIsGivenInFull(kernel, bound));
  if (given_in_full) return absl::OkStatus();
  attempt->config_is_ours = true;
  if (attempt->default_meanwhile) return DefaultConfig(kernel, *attempt->device, chosen);
  return ConfigInForce(kernel, *attempt->device, bound, &request, chosen, &attempt->observer);
}

absl::Status Launcher::ConfigInForce(const KernelModel& kernel, const Device& device,
                                     const BoundLaunch& bound, const api::LaunchRequest* request,
                                     ChosenConfig* chosen,
                                     std::shared_ptr<ConfigChoices::Observer>* observer) const {
  ConfigChoices::Choice stored = choices_->Find(kernel, bound, request, device);
  if (observer != nullptr) *observer = std::move(stored.observer);
  if (stored.config != nullptr && kernel.Usable(stored.index, device)) {
    chosen->keep = std::move(stored.config);
    chosen->choice = {stored.index, chosen->keep.get()};
    return absl::OkStatus();
  }
  return DefaultConfig(kernel, device, chosen);
}

absl::Status Launcher::DefaultConfig(const KernelModel& kernel, const Device& device,
                                     ChosenConfig* chosen) const {
  int count = static_cast<int>(kernel.configs().size());
  for (int i = 1; i <= count; ++i)
    if (kernel.Usable(i, device)) {
      chosen->choice = {i, &kernel.configs()[i - 1]};
      return absl::OkStatus();
    }
  return Error(absl::StatusCode::kFailedPrecondition, "NO_CONFIG_FITS",
               absl::StrCat("none of the ", count, " configurations of ", kernel.name(), " fits ",
                            device.name()));
}

absl::Status Launcher::Submit(Attempt* attempt, std::shared_ptr<Variant> variant,
                              const uint32_t grid[3], BoundLaunch* bound) {
  runtime::ExecutorClient* executor = attempt->device->started();
  if (executor == nullptr)
    return absl::InternalError("a variant is loaded on a device that was never started");
  FillParams(*variant, bound);
  api::LaunchResponse* response = attempt->response;
  response->set_outcome(OutcomeName(attempt->outcome));
  response->set_compile_seconds(attempt->compile_seconds);
  response->set_config(attempt->config_index);
  response->set_guarded(variant->guarded);
  if (!attempt->guard_note.empty()) response->add_notes(attempt->guard_note);
  std::string blame;
  if (attempt->wait.is_traffic) {
    blame = AddNotes(*variant, *bound, grid, response);
    variant->launches.fetch_add(1, std::memory_order_relaxed);
  }
  variant->last_use.store(launches_.load(std::memory_order_relaxed), std::memory_order_relaxed);

  runtime::LaunchCommand command;
  command.kernel = variant->id;
  for (int i = 0; i < 3; ++i) command.grid[i] = grid[i];
  command.program_order_seed = attempt->request->program_order_seed();
  if (attempt->wait.is_part) {
    uint32_t part[3] = {grid[0], grid[1], grid[2]};
    if (attempt->wait.grid_share != nullptr)
      ReduceGrid(ParallelPrograms(*attempt->device), attempt->wait.grid_share.get(), part);
    command.part = uint64_t{part[0]} * part[1] * part[2];
  }
  command.params = bound->params.data();
  command.num_params = static_cast<uint32_t>(bound->params.size());
  std::vector<std::shared_ptr<DeviceEvent>> events;
  RETURN_IF_ERROR(PlaceLaunch(*attempt->request, *attempt->device, *attempt->session, &command,
                              &events));
  if (attempt->request->answer() == api::LaunchRequest::ENQUEUED) {
    auto answer = std::make_shared<DetachedAnswer>(attempt->session->detached(), response,
                                                   std::move(attempt->done));
    response = answer->later();
    attempt->done = [answer](absl::Status status) { answer->Ended(std::move(status)); };
    command.on_enqueued = [answer] { answer->Enqueued(); };
  }
  // Owned by the callback, which the executor runs exactly once.
  auto* launch =
      new InFlight{std::move(attempt->session), std::move(bound->regions), std::move(variant),
                   std::move(attempt->kernel),  attempt->device,           response,
                   std::move(blame),            std::move(attempt->done)};
  launch->events = std::move(events);
  // A run on scratch memory proves nothing of clients' launches.
  if (attempt->wait.is_traffic) launch->guard = std::move(attempt->guard);
  launch->observer = std::move(attempt->observer);
  launch->config_index = attempt->config_index;
  if (attempt->wait.tuning_device == nullptr) {
    launch->gate = launch->device->gate();
    launch->gate->Enter();
    metrics_->launches_in_flight->Increment();
  }
  executor->Submit(command, attempt->wait.spin, [this, launch](runtime::LaunchResult result) {
    std::unique_ptr<InFlight> owned(launch);
    const bool counts = owned->gate != nullptr;
    if (counts) {
      owned->gate->Leave(result.status.ok() ? result.kernel_seconds : 0);
      metrics_->launches_in_flight->Decrement();
    }
    owned->response->set_queue_seconds(result.queue_seconds);
    owned->response->set_kernel_seconds(result.kernel_seconds);
    if (!result.printed.empty()) owned->response->set_printed(std::move(result.printed));
    if (result.status.ok() && owned->observer != nullptr)
      owned->observer->Launched(owned->config_index, result.kernel_seconds);
    if (counts && result.status.ok()) {
      metrics_->launch_queue_seconds->Observe(result.queue_seconds);
      metrics_->launch_seconds->Observe(result.kernel_seconds);
      metrics_->CountDeviceTime(owned->device->index(), result.queue_seconds,
                                result.kernel_seconds);
      if (owned->kernel->stats != nullptr) owned->kernel->stats->CountLaunch(result.kernel_seconds);
    } else if (counts && owned->kernel->stats != nullptr) {
      owned->kernel->stats->failures.fetch_add(1, std::memory_order_relaxed);
    }
    if (owned->guard != nullptr && result.status.ok()) owned->guard->SetProven();
    // Regions and the variant go before the answer: a client that has its answer may rely on it.
    owned->regions.clear();
    owned->variant.reset();
    if (!result.status.ok())
      result.status =
          LaunchError(result.status, owned->kernel->name(), owned->device->name(), owned->blame);
    owned->kernel.reset();
    End(owned->session.get(), result.status, true, counts);
    owned->done(std::move(result.status));
  });
  return absl::OkStatus();
}

void Launcher::End(Session* session, const absl::Status& status, bool reached_device,
                   bool counts) {
  session->EndLaunch();
  if (!counts) return;
  launches_.fetch_add(1, std::memory_order_relaxed);
  if (status.ok()) {
    metrics_->launch_ok->Increment();
  } else {
    failures_.fetch_add(1, std::memory_order_relaxed);
    if (reached_device)
      metrics_->CountFailedLaunch(ReasonOf(status));
    else
      metrics_->CountRejectedLaunch(ReasonOf(status));
  }
  in_flight_.fetch_sub(1, std::memory_order_release);
}

void Launcher::Finish(Attempt* attempt, absl::Status status) {
  End(attempt->session.get(), status, false,
      attempt->wait.tuning_device == nullptr && !attempt->wait.prepare_only);
  Done done = std::move(attempt->done);
  done(std::move(status));
}

void Launcher::MakeReady(std::shared_ptr<Attempt> attempt, Missing missing) {
  if (++attempt->tries > kMaxTries) {
    Finish(attempt.get(), absl::InternalError("the launch could not be made ready"));
    return;
  }
  switch (missing) {
    case Missing::kNothing:
      return;
    case Missing::kModule:
      modules_->Load(attempt->request->module(), attempt->wait.timeout,
                     [this, attempt](absl::StatusOr<std::shared_ptr<const Module>> module) {
                       absl::Status status = module.status();
                       if (status.ok())
                         status = KernelOf(*std::move(module), attempt->request->kernel()).status();
                       status.ok() ? TryAgain(attempt) : Finish(attempt.get(), status);
                     });
      return;
    case Missing::kMappings:
      pool_->Run([this, attempt] {
        absl::Status status;
        for (const std::shared_ptr<Region>& region : attempt->regions)
          if (status.ok()) status = region->EnsureMapped(attempt->device);
        attempt->regions.clear();
        status.ok() ? TryAgain(attempt) : Finish(attempt.get(), status);
      });
      return;
    case Missing::kStages:
      attempt->stages_made = true;
      *attempt->job.mutable_emit() = attempt->request->emit();
      compiler_->CompileUncached(
          attempt->job, [this, attempt](absl::StatusOr<CompiledArtifact> compiled) {
            if (!compiled.ok()) {
              Finish(attempt.get(), compiled.status());
              return;
            }
            for (const auto& [stage, text] : compiled->artifact->stages())
              (*attempt->response->mutable_stages())[stage] = text;
            TryAgain(attempt);
          });
      return;
    case Missing::kVariant:
      MakeVariantReady(std::move(attempt));
      return;
  }
}

void Launcher::MakeVariantReady(std::shared_ptr<Attempt> attempt) {
  // Who asks for a compile by name gets it.
  attempt->wait.may_compile |= attempt->request->compile_anew();
  bool watched = jit_observer_ != nullptr && !attempt->wait.may_compile &&
                 serving_.load(std::memory_order_relaxed);
  if (!watched || !jit_observer_->refuses()) {
    EnsureAttemptsVariant(std::move(attempt));
    return;
  }
  // What is stored may still be loaded. Looking costs a read of the store: not on this thread.
  pool_->Run([this, attempt] {
    if (compiler_->IsStored(attempt->job, SourceOf(*attempt->kernel, attempt->job))) {
      EnsureAttemptsVariant(attempt);
      return;
    }
    metrics_->CountJitDuringServing(attempt->kernel->name());
    if (attempt->kernel->stats != nullptr) attempt->kernel->stats->jit.fetch_add(1);
    std::string told = TellJitObserver(*attempt, 0, true);
    Finish(attempt.get(), Error(absl::StatusCode::kFailedPrecondition, "JIT_DURING_SERVING", told,
                                {{"kernel", attempt->kernel->name()}}));
  });
}

void Launcher::EnsureAttemptsVariant(std::shared_ptr<Attempt> attempt) {
  bool anew = attempt->request->compile_anew() && !std::exchange(attempt->compiled_anew, true);
  EnsureVariant(
      attempt->kernel, attempt->device, attempt->key, attempt->job, attempt->recipe, anew,
      attempt->wait.timeout, [this, attempt](absl::StatusOr<LoadedVariant> loaded) {
        if (loaded.ok()) {
          attempt->outcome = std::max(attempt->outcome, loaded->outcome);
          attempt->compile_seconds +=
              attempt->wait.background ? loaded->cpu_seconds : loaded->compile_seconds;
          if (loaded->outcome == CompileOutcome::kCompiled && !attempt->wait.may_compile &&
              serving_.load(std::memory_order_relaxed)) {
            metrics_->CountJitDuringServing(attempt->kernel->name());
            if (attempt->kernel->stats != nullptr) attempt->kernel->stats->jit.fetch_add(1);
            if (jit_observer_ != nullptr)
              TellJitObserver(*attempt, loaded->compile_seconds, false);
          }
          TryAgain(attempt);
        } else if (attempt->guard != nullptr && CannotBeHad(loaded.status())) {
          WithoutGuard(attempt, loaded.status());
        } else if (attempt->config_is_ours && OutgrowsTarget(loaded.status())) {
          spdlog::info("configuration {} of {} does not fit {}: {}", attempt->config_index,
                       attempt->kernel->name(), attempt->device->name(),
                       loaded.status().ToString());
          attempt->kernel->MarkUnusable(attempt->config_index, *attempt->device);
          TryAgain(attempt);
        } else {
          Finish(attempt.get(), loaded.status());
        }
      },
      attempt->wait.background);
}

// The guarded variant cannot be had. Where nobody asked for it by name the launch goes without.
void Launcher::WithoutGuard(std::shared_ptr<Attempt> attempt, const absl::Status& reason) {
  const std::string text =
      absl::StrCat("kernel ", attempt->kernel->name(), " cannot run guarded: ", reason.message());
  if (attempt->session->guard_policy().mode != GuardPolicy::Mode::kDefault) {
    Finish(attempt.get(),
           Error(reason.code(), "NOT_GUARDED", text, {{"kernel", attempt->kernel->name()}}));
    return;
  }
  spdlog::warn("{}", text);
  attempt->guard_note = text;
  attempt->guard->SetProven();
  attempt->guard.reset();
  TryAgain(attempt);
}

std::string Launcher::TellJitObserver(const Attempt& attempt, double seconds, bool refused) {
  std::string key =
      compiler_->KeyOf(attempt.job, SourceOf(*attempt.kernel, attempt.job)).hex();
  return jit_observer_->OnJit({*attempt.kernel, *attempt.device, *attempt.recipe, attempt.job, key,
                               seconds, refused});
}

void Launcher::TryAgain(const std::shared_ptr<Attempt>& attempt) {
  Missing missing = Missing::kNothing;
  absl::Status status = TrySubmit(attempt.get(), &missing);
  if (!status.ok())
    Finish(attempt.get(), std::move(status));
  else if (missing != Missing::kNothing)
    MakeReady(attempt, missing);
}

std::shared_ptr<KernelModel> Launcher::FindKernel(const std::string& module,
                                                  const std::string& kernel) const {
  thread_local std::string key;
  AppendModuleAndKernel(module, kernel, &key);
  absl::ReaderMutexLock lock(&mutex_);
  auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : found->second;
}

absl::StatusOr<std::shared_ptr<KernelModel>> Launcher::KernelOf(
    std::shared_ptr<const Module> module, const std::string& kernel) {
  std::string key;
  AppendModuleAndKernel(module->id, kernel, &key);
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto found = kernels_.find(key);
    if (found != kernels_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<KernelModel> model,
                   KernelModel::Create(std::move(module), kernel));
  model->stats = metrics_->kernels.Of(kernel);
  std::shared_ptr<KernelModel> dropped;
  absl::MutexLock lock(&mutex_);
  if (kernels_.size() >= kMaxKernels) {
    dropped = std::move(kernels_.begin()->second);
    kernels_.erase(kernels_.begin());
  }
  return kernels_.emplace(key, std::move(model)).first->second;
}

void Launcher::EnsureVariant(std::shared_ptr<KernelModel> kernel, Device* device,
                             const std::string& key, const storage::CompileJob& job,
                             Recipe recipe, bool anew, absl::Duration timeout,
                             std::function<void(absl::StatusOr<LoadedVariant>)> done,
                             bool background) {
  std::string flight = absl::StrCat(kernel->id(), "/", key);
  bool lead =
      flights_.Join(flight, timeout, [done](const absl::StatusOr<LoadedVariant>& loaded, bool led) {
        if (!loaded.ok()) {
          done(loaded.status());
          return;
        }
        LoadedVariant mine = *loaded;
        if (!led && mine.outcome == CompileOutcome::kCompiled)
          mine.outcome = CompileOutcome::kCoalesced;
        done(std::move(mine));
      });
  if (!lead) return;
  // Somebody may have finished it between our look-up and now.
  if (std::shared_ptr<Variant> there = anew ? nullptr : kernel->FindVariant(key)) {
    LoadedVariant loaded;
    loaded.variant = std::move(there);
    flights_.Finish(flight, loaded);
    return;
  }
  auto compile = anew ? &CompileService::CompileAnew : &CompileService::GetOrCompile;
  (compiler_->*compile)(
      job, SourceOf(*kernel, job), absl::InfiniteDuration(),
      [this, flight, kernel, device, key, recipe](absl::StatusOr<CompiledArtifact> compiled) {
        if (!compiled.ok()) {
          flights_.Finish(flight, compiled.status());
          return;
        }
        pool_->Run([this, flight, kernel, device, key, recipe, compiled = *std::move(compiled)] {
          LoadVariant(flight, kernel, device, key, recipe, compiled);
        });
      },
      background);
}

void Launcher::LoadVariant(const std::string& flight, std::shared_ptr<KernelModel> kernel,
                           Device* device, const std::string& key, Recipe recipe,
                           const CompiledArtifact& compiled) {
  absl::StatusOr<runtime::ExecutorClient*> executor = device->Start();
  if (!executor.ok()) {
    flights_.Finish(flight, executor.status());
    return;
  }
  uint64_t id = next_kernel_id_.fetch_add(1, std::memory_order_relaxed);
  absl::Status loaded_on_device = (*executor)->LoadKernel(id, *compiled.artifact);
  if (!loaded_on_device.ok()) {
    flights_.Finish(
        flight, absl::Status(loaded_on_device.code(),
                             absl::StrCat("loading ", kernel->name(), " on ", device->name(), ": ",
                                          loaded_on_device.message())));
    return;
  }
  LoadedVariant loaded;
  loaded.variant =
      std::make_shared<Variant>(id, compiled.key, compiled.artifact->metadata(), *executor, pool_);
  loaded.variant->last_use = launches_.load(std::memory_order_relaxed);
  loaded.variant->recipe = std::move(recipe);
  loaded.outcome = compiled.outcome;
  loaded.compile_seconds = compiled.compile_seconds;
  loaded.cpu_seconds = compiled.cpu_seconds;
  loaded.artifact = compiled.artifact;
  kernel->AddVariant(key, loaded.variant);
  metrics_->kernel_variants->Set(++variant_count_);
  if (variant_count_.load() > limits_.variants) TrimVariants();
  flights_.Finish(flight, loaded);
}

void Launcher::TrimVariants() {
  std::vector<uint64_t> uses;
  std::vector<std::shared_ptr<KernelModel>> kernels;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [key, kernel] : kernels_) kernels.push_back(kernel);
  }
  for (const auto& kernel : kernels)
    kernel->ForEachVariant([&](Variant& variant) {
      uses.push_back(variant.last_use.load(std::memory_order_relaxed));
    });
  if (uses.empty()) return;
  FlushUsage();
  // An eighth at a time, so that this is rare.
  size_t drop = std::max<size_t>(uses.size() / 8, 1);
  std::nth_element(uses.begin(), uses.begin() + drop, uses.end());
  int dropped = 0;
  for (const auto& kernel : kernels) dropped += kernel->DropVariantsUnusedSince(uses[drop]);
  metrics_->kernel_variants->Set(variant_count_ -= dropped);
  spdlog::info("unloaded {} kernel variants unused longest", dropped);
}

std::map<std::string, uint32_t> Launcher::VariantsByKernel() const {
  std::vector<std::shared_ptr<KernelModel>> kernels;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [key, kernel] : kernels_) kernels.push_back(kernel);
  }
  std::map<std::string, uint32_t> counts;
  for (const auto& kernel : kernels)
    kernel->ForEachVariant([&](Variant&) { ++counts[kernel->name()]; });
  return counts;
}

std::vector<std::string> Launcher::LoadedKeys() const {
  std::vector<std::shared_ptr<KernelModel>> kernels;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [key, kernel] : kernels_) kernels.push_back(kernel);
  }
  std::vector<std::string> keys;
  for (const auto& kernel : kernels)
    kernel->ForEachVariant([&](Variant& variant) { keys.push_back(variant.key.hash); });
  return keys;
}

void Launcher::FlushUsage() {
  std::vector<std::shared_ptr<KernelModel>> kernels;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [key, kernel] : kernels_) kernels.push_back(kernel);
  }
  int64_t now = absl::ToUnixSeconds(absl::Now());
  for (const auto& kernel : kernels)
    kernel->ForEachVariant([&](Variant& variant) {
      uint64_t launches = variant.launches.exchange(0, std::memory_order_relaxed);
      if (launches == 0) return;
      store_->AddUsage(variant.key, kernel->name(), kernel->module().id, launches, now);
      if (on_usage_ && !variant.guarded) on_usage_(*kernel, variant, launches, now);
    });
}

void Launcher::Synchronize(absl::string_view session, SynchronizeDone done) {
  absl::StatusOr<std::shared_ptr<Session>> found = sessions_->Find(session);
  if (!found.ok()) return done(found.status(), {});
  (*found)->detached()->Await([done](api::SynchronizeResponse failures) {
    done(absl::OkStatus(), std::move(failures));
  });
}

int Launcher::CountVariants(const std::string& module, const std::string& kernel,
                            int device) const {
  std::shared_ptr<KernelModel> model = FindKernel(module, kernel);
  return model == nullptr ? 0 : model->CountVariantsOf(device);
}

void Launcher::UnloadVariants(const std::string& module, const std::string& kernel, int device) {
  if (std::shared_ptr<KernelModel> model = FindKernel(module, kernel))
    metrics_->kernel_variants->Set(variant_count_ -= model->DropVariantsOf(device));
}

absl::Status Launcher::Inspect(const api::LaunchRequest& request, Look look) {
  ASSIGN_OR_RETURN(Device * device, devices_->Find(request.device()));
  std::shared_ptr<const Module> module = modules_->FindLoaded(request.module());
  if (module == nullptr)
    return Error(absl::StatusCode::kNotFound, "MODULE_UNKNOWN",
                 absl::StrCat("module ", request.module(), " is not loaded"));
  ASSIGN_OR_RETURN(std::shared_ptr<KernelModel> kernel,
                   KernelOf(std::move(module), request.kernel()));
  ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions_->Find(request.session()));
  BoundLaunch bound;
  RETURN_IF_ERROR(BindArguments(request.arguments(), *kernel, session.get(), &bound));
  look(kernel, bound, device);
  return absl::OkStatus();
}

void Launcher::Compile(const api::CompileRequest& request, absl::Duration timeout,
                       CompileDone done) {
  modules_->Load(
      request.module(), timeout,
      [this, request, timeout, done](absl::StatusOr<std::shared_ptr<const Module>> module) {
        if (module.ok())
          CompileKnown(*std::move(module), request, timeout, done);
        else
          done(module.status());
      });
}

void Launcher::CompileKnown(std::shared_ptr<const Module> module,
                            const api::CompileRequest& request, absl::Duration timeout,
                            CompileDone done) {
  BoundCompile bound;
  if (absl::Status bad = BindCompile(module, request, &bound); !bad.ok()) {
    done(bad);
    return;
  }
  storage::CompileJob& job = bound.job;
  if (request.emit_size() > 0) {
    *job.mutable_emit() = request.emit();
    compiler_->CompileUncached(job, [done](absl::StatusOr<CompiledArtifact> compiled) {
      if (!compiled.ok()) {
        done(compiled.status());
        return;
      }
      CompiledVariant variant;
      variant.outcome = compiled->outcome;
      variant.compile_seconds = compiled->compile_seconds;
      variant.stages.insert(compiled->artifact->stages().begin(),
                            compiled->artifact->stages().end());
      variant.notes.assign(compiled->artifact->metadata().notes().begin(),
                           compiled->artifact->metadata().notes().end());
      done(std::move(variant));
    });
    return;
  }
  auto recipe = std::make_shared<api::CompileRequest>(request);
  recipe->set_device(bound.device->name());
  // First launches will run guarded: that variant too. One that cannot be guarded runs without.
  auto ensure_guarded = [this, bound, recipe, timeout](std::function<void()> done) {
    if (bound.guarded_key.empty()) return done();
    EnsureVariant(bound.kernel, bound.device, bound.guarded_key, bound.guarded_job, recipe,
                  /*anew=*/false, timeout,
                  [done](const absl::StatusOr<LoadedVariant>&) { done(); });
  };
  EnsureVariant(bound.kernel, bound.device, bound.key, job, recipe, /*anew=*/false, timeout,
                [this, done, module, request, timeout, ensure_guarded, kernel = bound.kernel,
                 device = bound.device, ours = bound.config_is_ours,
                 index = bound.chosen.choice.index](absl::StatusOr<LoadedVariant> loaded) {
                  if (!loaded.ok() && ours && OutgrowsTarget(loaded.status())) {
                    // As a launch does: the next configuration that fits.
                    kernel->MarkUnusable(index, *device);
                    CompileKnown(module, request, timeout, done);
                    return;
                  }
                  if (!loaded.ok()) {
                    done(loaded.status());
                    return;
                  }
                  CompiledVariant variant;
                  variant.outcome = loaded->outcome;
                  variant.compile_seconds = loaded->compile_seconds;
                  variant.key_hex = loaded->variant->key.hex();
                  variant.notes = loaded->variant->notes;
                  ensure_guarded([done, variant] { done(variant); });
                });
}

absl::Status Launcher::BindCompile(std::shared_ptr<const Module> module,
                                   const api::CompileRequest& request, BoundCompile* bound) {
  ASSIGN_OR_RETURN(bound->device, devices_->Find(request.device()));
  ASSIGN_OR_RETURN(bound->kernel, KernelOf(std::move(module), request.kernel()));
  BoundLaunch facts;
  auto choose = [&](const BoundLaunch& so_far) -> absl::StatusOr<ConfigChoice> {
    bound->config_is_ours = true;
    RETURN_IF_ERROR(ConfigInForce(*bound->kernel, *bound->device, so_far, nullptr, &bound->chosen,
                                  nullptr));
    return bound->chosen.choice;
  };
  ASSIGN_OR_RETURN(bound->chosen.choice,
                   BindSignature(request, *bound->kernel, *bound->device, choose, &facts));
  bound->key = facts.key;
  bound->job = MakeCompileJob(*bound->kernel, *bound->device, facts);
  if (!SharedByMps(*bound->device) || IsGuarded(facts.options)) return absl::OkStatus();
  (*facts.options.mutable_extra())[kGuardedOption] = "1";
  MakeVariantKey(*bound->device, &facts);
  bound->guarded_key = facts.key;
  bound->guarded_job = MakeCompileJob(*bound->kernel, *bound->device, facts);
  return absl::OkStatus();
}

absl::StatusOr<Launcher::PlannedVariant> Launcher::Plan(std::shared_ptr<const Module> module,
                                                        const api::CompileRequest& request) {
  BoundCompile bound;
  RETURN_IF_ERROR(BindCompile(std::move(module), request, &bound));
  PlannedVariant planned;
  planned.identity = absl::StrCat(bound.kernel->id(), "/", bound.key);
  planned.key = compiler_->KeyOf(bound.job, SourceOf(*bound.kernel, bound.job));
  planned.key_hex = planned.key.hex();
  planned.text = VariantText(bound.job);
  planned.device = bound.device->name();
  planned.config = bound.chosen.choice.index;
  planned.loaded = bound.kernel->FindVariant(bound.key) != nullptr;
  return planned;
}

}  // namespace tessera::server
