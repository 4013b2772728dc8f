// The launch path with a fake compiler and a fake executor.
#include "server/launch/launcher.h"

#include <unistd.h>

#include <future>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cache/store/memory/memory_store.h"
#include "gtest/gtest.h"
#include "server/compile/fake_backend.h"
#include "server/device/fake_executor.h"
#include "server/launch/op_launcher.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// What somebody measured, for tests.
class FakeChoices : public ConfigChoices {
 public:
  std::string bucket;
  int index = 0;
  // Seconds of the launches that were told of, by configuration.
  std::multimap<int, double> launched;
  struct Recorder : Observer {
    FakeChoices* choices;
    void Launched(int config, double seconds) override {
      choices->launched.emplace(config, seconds);
    }
  };
  Choice Find(const KernelModel& kernel, const BoundLaunch& bound,
              const api::LaunchRequest* request, const Device&) override {
    Choice choice;
    if (request != nullptr) {
      auto recorder = std::make_shared<Recorder>();
      recorder->choices = this;
      choice.observer = recorder;
    }
    if (index == 0 || TuningBucket(kernel, bound) != bucket) return choice;
    choice.index = index;
    choice.config = std::make_shared<KernelModel::Config>(
        *kernel.ModelConfig(kernel.configs()[index - 1].config));
    return choice;
  }
};

storage::ModuleDescription DescribeTuned() {
  storage::ModuleDescription module = DescribeAddKernel();
  storage::KernelDescription* kernel = module.mutable_kernels(0);
  for (int block : {64, 128, 256}) {
    storage::TuneConfig* config = kernel->add_configs();
    storage::NamedConstant* value = config->add_values();
    value->set_name("BLOCK");
    value->mutable_value()->set_integer(block);
    config->mutable_options()->set_num_warps(block / 32);
  }
  kernel->add_tuning_key("n");
  return module;
}

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    backend_.descriptions["plain"] = DescribeAddKernel();
    backend_.descriptions["tuned"] = DescribeTuned();
    auto starter = [this]() -> absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> {
      return std::unique_ptr<runtime::ExecutorClient>(new FakeExecutor(&log_));
    };
    device_ = devices_.Add({"cpu:0", "cpu", "features", "model", 1}, starter);
    devices_.Add({"interpreter", "interpreter", "", "model", 1}, starter);
    for (const char* sharing : {"mps", "time-slice"}) {
      DeviceDescription gpu = {absl::StrCat("cuda:", sharing), "sm_90a", "", "model", 1};
      gpu.gpu.set_uuid(absl::StrCat("GPU-", sharing));
      gpu.gpu.set_sharing(sharing);
      devices_.Add(std::move(gpu), starter);
    }
    limits_.launches_in_flight = 2;
    sessions_ = std::make_unique<SessionRegistry>(limits_, &pool_, &metrics_);
    modules_ =
        std::make_unique<ModuleTable>(store_.get(), &backend_, &pool_, &timer_, "build", 1 << 20);
    compiler_ = std::make_unique<CompileService>(store_.get(), &backend_, &pool_, &timer_,
                                                 &metrics_, "build", absl::Hours(1));
    launcher_ = std::make_unique<Launcher>(sessions_.get(), &devices_, modules_.get(),
                                           compiler_.get(), store_.get(), &choices_, &pool_,
                                           &timer_, &metrics_, LauncherLimits{8});
    session_ = *sessions_->Open("test", Peer{1, 1, 1});
    region_ = (*AllocateMemory(sessions_.get(), session_.get(), device_, 4096))->id();
  }
  ~LauncherTest() override {
    pool_.Drain();
    sessions_->CloseAll();
    launcher_.reset();
  }

  std::string Register(const std::string& text) {
    storage::SourceFile file;
    file.set_text(text);
    auto id = std::make_shared<std::promise<std::string>>();
    modules_->Register({file}, absl::InfiniteDuration(),
                       [id](auto module) { id->set_value((*module)->id); });
    return id->get_future().get();
  }

  api::LaunchRequest Request(const std::string& module, int64_t n = 100, bool with_block = true) {
    api::LaunchRequest request;
    request.set_session(session_->token());
    request.set_module(module);
    request.set_kernel("add_kernel");
    request.add_grid_expressions("cdiv(n, BLOCK)");
    for (const char* name : {"x", "y"}) {
      api::Argument* argument = request.add_arguments();
      argument->set_name(name);
      argument->mutable_tensor()->set_region(region_);
      argument->mutable_tensor()->set_dtype("float32");
      argument->mutable_tensor()->add_shape(n);
    }
    api::Argument* argument = request.add_arguments();
    argument->set_name("n");
    argument->set_integer(n);
    if (with_block) {
      argument = request.add_arguments();
      argument->set_name("BLOCK");
      argument->mutable_constant()->set_integer(32);
    }
    return request;
  }

  absl::StatusOr<api::LaunchResponse> Launch(const api::LaunchRequest& request,
                                             absl::Duration timeout = absl::InfiniteDuration()) {
    api::LaunchResponse response;
    // Shared: set_value may still run when the waiter has gone on.
    auto ended = std::make_shared<std::promise<absl::Status>>();
    launcher_->Launch(request, {timeout, absl::ZeroDuration()}, &response,
                      [ended](absl::Status s) { ended->set_value(s); });
    RETURN_IF_ERROR(ended->get_future().get());
    return response;
  }
  std::string ReasonOf(const api::LaunchRequest& request) {
    absl::Status status = Launch(request).status();
    std::optional<api::ErrorDetail> detail = DetailOf(status);
    return detail ? detail->reason() : status.ToString();
  }
  const FakeExecutorLog::SubmittedLaunch& LastLaunch() { return log_.launches.back(); }

  SessionLimits limits_;
  FakeExecutorLog log_;
  FakeBackend backend_;
  FakeChoices choices_;
  Metrics metrics_;
  std::unique_ptr<cache::CacheStore> store_ = cache::NewMemoryStore();
  DeviceTable devices_;
  Device* device_ = nullptr;
  Timer timer_;
  TaskPool pool_{2};
  std::unique_ptr<SessionRegistry> sessions_;
  std::unique_ptr<ModuleTable> modules_;
  std::unique_ptr<CompileService> compiler_;
  std::unique_ptr<Launcher> launcher_;
  std::shared_ptr<Session> session_;
  uint64_t region_ = 0;
};

TEST_F(LauncherTest, CompilesTheFirstLaunchAndHitsTheNext) {
  std::string module = Register("plain");
  absl::StatusOr<api::LaunchResponse> first = Launch(Request(module));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->outcome(), "compiled");
  EXPECT_EQ(Launch(Request(module))->outcome(), "hit");
  EXPECT_EQ(backend_.jobs().size(), 1u);
  EXPECT_EQ(launcher_->launches(), 2u);
  EXPECT_EQ(launcher_->variants(), 1u);
  EXPECT_EQ(launcher_->in_flight(), 0u);
}

TEST_F(LauncherTest, HandsTheExecutorGridAndParameters) {
  std::string module = Register("plain");
  api::LaunchRequest request = Request(module, 100);
  request.mutable_arguments(1)->mutable_tensor()->set_byte_offset(16);
  ASSERT_TRUE(Launch(request).ok());
  EXPECT_EQ(LastLaunch().grid[0], 4u);
  ASSERT_EQ(LastLaunch().params.size(), 3u);
  EXPECT_EQ(LastLaunch().params[0].region, region_);
  EXPECT_EQ(LastLaunch().params[0].extent_bytes, 400u);
  EXPECT_EQ(LastLaunch().params[1].value, 16u);
  EXPECT_EQ(LastLaunch().params[2].region, 0u);
  EXPECT_EQ(LastLaunch().params[2].value, 100u);
  const storage::CompileJob job = backend_.jobs()[0];
  EXPECT_EQ(job.parameters(0).divisibility(), 16u);
  EXPECT_EQ(job.parameters(2).type(), "i32");
  EXPECT_EQ(job.parameters(3).constant().integer(), 32);
  EXPECT_EQ(job.cpu_features(), "features");
}

TEST_F(LauncherTest, CompilesOneVariantForEachClassOfAnInteger) {
  std::string module = Register("plain");
  for (int64_t n : {1, 17, 19, 16, 32, 1}) ASSERT_TRUE(Launch(Request(module, n)).ok());
  EXPECT_EQ(backend_.jobs().size(), 3u);
  EXPECT_EQ(LastLaunch().params.size(), 2u);  // n == 1 is not passed
}

TEST_F(LauncherTest, LetsConcurrentFirstLaunchesShareOneCompile) {
  std::string module = Register("plain");
  backend_.hold = true;
  api::LaunchResponse responses[2];
  std::atomic<int> succeeded{0};
  for (api::LaunchResponse& response : responses)
    launcher_->Launch(Request(module), {}, &response, [&](absl::Status s) { succeeded += s.ok(); });
  pool_.Drain();
  backend_.Release();
  pool_.Drain();
  ASSERT_EQ(succeeded, 2);
  EXPECT_EQ(responses[0].outcome(), "compiled");
  EXPECT_EQ(responses[1].outcome(), "coalesced");
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(LauncherTest, NamesWhatIsWrongWithTheArguments) {
  std::string module = Register("plain");
  auto changed = [&](auto change) {
    api::LaunchRequest request = Request(module);
    change(&request);
    return ReasonOf(request);
  };
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->set_name("z"); }), "ARGUMENT_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->set_name("y"); }), "BAD_ARGUMENT");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments()->RemoveLast(); }), "ARGUMENT_MISSING");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_dtype("fp17"); }),
            "BAD_DTYPE");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_region(99); }),
            "REGION_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_shape(0, 1025); }),
            "REGION_TOO_SMALL");
  EXPECT_EQ(
      changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_byte_offset(4000); }),
      "REGION_TOO_SMALL");
  EXPECT_EQ(
      changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_byte_offset(5000); }),
      "REGION_TOO_SMALL");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_byte_offset(2); }),
            "MISALIGNED");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->add_strides(-1); }),
            "REGION_TOO_SMALL");
  EXPECT_EQ(changed([](auto* r) {
              r->mutable_arguments(0)->mutable_tensor()->add_strides(int64_t{1} << 62);
            }),
            "BAD_TENSOR");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(0)->mutable_tensor()->set_shape(0, -1); }),
            "BAD_TENSOR");
  EXPECT_EQ(changed([](auto* r) { r->mutable_arguments(2)->set_type("i4x"); }), "BAD_ARGUMENT");
  EXPECT_EQ(changed([](auto* r) { r->set_kernel("sub_kernel"); }), "KERNEL_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->set_module("0123"); }), "MODULE_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->set_device("cuda:0"); }), "DEVICE_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->set_session("x"); }), "SESSION_UNKNOWN");
  EXPECT_EQ(changed([](auto* r) { r->set_grid_expressions(0, "n // 0"); }), "BAD_EXPRESSION");
  EXPECT_EQ(changed([](auto* r) { r->set_grid_expressions(0, "x"); }), "BAD_GRID");
  EXPECT_EQ(changed([](auto* r) { r->set_grid_expressions(0, "-n"); }), "BAD_GRID");
  EXPECT_EQ(changed([](auto* r) { r->add_grid_expressions("65536"); }), "BAD_GRID");
  EXPECT_EQ(changed([](auto* r) { r->clear_grid_expressions(); }), "BAD_GRID");
  EXPECT_EQ(changed([](auto* r) { r->set_config(1); }), "CONFIG_UNKNOWN");
  EXPECT_TRUE(log_.launches.empty());
  EXPECT_TRUE(Launch(Request(module)).ok());
}

TEST_F(LauncherTest, PassesThePartsOfATensorDescriptor) {
  api::LaunchRequest request = Request(Register("plain"));
  auto* descriptor = request.mutable_arguments(1)->mutable_tensor_descriptor();
  descriptor->mutable_base()->set_region(region_);
  descriptor->mutable_base()->set_dtype("fp16");
  descriptor->mutable_base()->set_byte_offset(32);
  for (int extent : {3, 40}) descriptor->mutable_base()->add_shape(extent);
  for (int stride : {64, 1}) descriptor->mutable_base()->add_strides(stride);
  for (int extent : {16, 32}) descriptor->add_block_shape(extent);
  ASSERT_TRUE(Launch(request).ok()) << Launch(request).status();
  const auto& params = LastLaunch().params;
  ASSERT_EQ(params.size(), 6u);  // x; the base, two extents and a stride of y; n
  EXPECT_NE(params[1].region, 0u);
  EXPECT_EQ(params[1].value, 32u);
  EXPECT_EQ(params[2].value, 3u);
  EXPECT_EQ(params[3].value, 40u);
  EXPECT_EQ(params[4].value, 64u);

  auto error = [&](auto change) {
    api::LaunchRequest bad = request;
    change(bad.mutable_arguments(1)->mutable_tensor_descriptor());
    return std::string(Launch(bad).status().message());
  };
  auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find("'y'"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(error([](auto* d) { d->set_block_shape(0, 24); }), "powers of two");
  expect(error([](auto* d) { d->add_block_shape(1); }), "2 dimensions, but the block has 3");
  expect(error([](auto* d) { d->clear_block_shape(); }), "1 to 5 dimensions");
  expect(error([](auto* d) { d->mutable_base()->set_strides(1, 2); }), "last stride must be 1");
  expect(error([](auto* d) { d->mutable_base()->set_strides(0, 60); }), "no multiple of 16 bytes");
  expect(error([](auto* d) { d->mutable_base()->set_byte_offset(8); }), "aligned to 16 bytes");
  expect(error([](auto* d) { d->mutable_base()->set_dtype("fp7"); }), "fp7");
  expect(error([](auto* d) { d->mutable_base()->set_dtype("int1"); }), "bools");
  expect(error([](auto* d) { d->mutable_base()->set_shape(0, 100); }), "needs");
  expect(error([](auto* d) { d->set_padding("one"); }), "padding");
  expect(error([](auto* d) { d->mutable_base()->set_region(0); }), "null");
}

TEST_F(LauncherTest, RunsNothingOnAnEmptyGrid) {
  std::string module = Register("plain");
  EXPECT_TRUE(Launch(Request(module, 0)).ok());
  EXPECT_TRUE(log_.launches.empty());
  EXPECT_TRUE(backend_.jobs().empty());
}

TEST_F(LauncherTest, TellsWhyAKernelDoesNotCompileAndRemembersIt) {
  std::string module = Register("plain");
  backend_.failures = {absl::InvalidArgumentError("add.py:3:5: unknown function")};
  EXPECT_EQ(Launch(Request(module)).status().message(), "add.py:3:5: unknown function");
  EXPECT_EQ(Launch(Request(module)).status().message(), "add.py:3:5: unknown function");
  EXPECT_EQ(backend_.jobs().size(), 1u);
  EXPECT_EQ(launcher_->in_flight(), 0u);
  EXPECT_TRUE(session_->BeginLaunch());  // none is left counted
}

TEST_F(LauncherTest, GivesUpOnACompileAtTheCallersDeadline) {
  std::string module = Register("plain");
  backend_.hold = true;
  EXPECT_EQ(Launch(Request(module), absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  pool_.Drain();
  backend_.Release();
  pool_.Drain();
  EXPECT_EQ(Launch(Request(module))->outcome(), "hit");
}

TEST_F(LauncherTest, LimitsLaunchesInFlight) {
  std::string module = Register("plain");
  ASSERT_TRUE(Launch(Request(module)).ok());
  log_.hold = true;
  api::LaunchResponse responses[2];
  for (api::LaunchResponse& response : responses)
    launcher_->Launch(Request(module), {}, &response, [](absl::Status) {});
  EXPECT_EQ(ReasonOf(Request(module)), "TOO_MANY_LAUNCHES");
  log_.hold = false;
  for (auto& done : log_.held) done({});
  EXPECT_TRUE(Launch(Request(module)).ok());
}

TEST_F(LauncherTest, KeepsRegionsOfALaunchInFlightWhenTheSessionEnds) {
  std::string module = Register("plain");
  ASSERT_TRUE(Launch(Request(module)).ok());
  log_.hold = true;
  api::LaunchResponse response;
  launcher_->Launch(Request(module), {}, &response, [](absl::Status) {});
  sessions_->Close(session_->token());
  pool_.Drain();
  EXPECT_EQ(log_.regions.size(), 1u);
  log_.held[0]({});
  pool_.Drain();
  EXPECT_EQ(log_.regions.size(), 0u);
}

TEST_F(LauncherTest, MapsRegionsOnTheDeviceThatLaunches) {
  std::string module = Register("plain");
  api::LaunchRequest request = Request(module);
  request.set_device("interpreter");
  ASSERT_TRUE(Launch(request).ok());
  EXPECT_EQ(backend_.jobs()[0].target(), "interpreter");
}

TEST_F(LauncherTest, RefusesLaunchesWhileDraining) {
  std::string module = Register("plain");
  launcher_->StopAccepting();
  EXPECT_EQ(ReasonOf(Request(module)), "DRAINING");
}

TEST_F(LauncherTest, RunsTheFirstConfigurationThatFits) {
  std::string module = Register("tuned");
  absl::StatusOr<api::LaunchResponse> response = Launch(Request(module, 100, false));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->config(), 1);
  EXPECT_EQ(LastLaunch().grid[0], 2u);
  EXPECT_EQ(backend_.jobs()[0].options().num_warps(), 2u);
  backend_.failures = {absl::ResourceExhaustedError("shared memory"),
                       absl::FailedPreconditionError("registers")};
  response = Launch(Request(module, 96, false));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->config(), 3);
}

TEST_F(LauncherTest, RunsTheConfigurationAskedForOrGivenInFull) {
  std::string module = Register("tuned");
  api::LaunchRequest request = Request(module, 100, false);
  request.set_config(2);
  EXPECT_EQ(Launch(request)->config(), 2);
  EXPECT_EQ(Launch(Request(module, 100, true))->config(), 0);
  EXPECT_EQ(LastLaunch().grid[0], 4u);
  request = Request(module, 100, false);
  api::NamedConstant* value = request.add_config_values();
  value->set_name("BLOCK");
  value->mutable_value()->set_integer(50);
  EXPECT_EQ(Launch(request)->config(), 0);
  EXPECT_EQ(LastLaunch().grid[0], 2u);
}

TEST_F(LauncherTest, RunsTheChoiceStoredForTheBucket) {
  std::string module = Register("tuned");
  choices_.bucket = "n=100 | fp32 fp32";
  choices_.index = 3;
  EXPECT_EQ(Launch(Request(module, 100, false))->config(), 3);
  EXPECT_EQ(Launch(Request(module, 101, false))->config(), 1);
}

TEST_F(LauncherTest, UnloadsVariantsUnusedLongest) {
  std::string module = Register("plain");
  for (int i = 0; i < 20; ++i) {
    api::LaunchRequest request = Request(module);
    request.mutable_arguments(3)->mutable_constant()->set_integer(32 + i);
    ASSERT_TRUE(Launch(request).ok());
  }
  pool_.Drain();
  EXPECT_LE(launcher_->variants(), 8u);
  EXPECT_LE(log_.kernels.size(), 8u);
}

TEST_F(LauncherTest, CompilesFromASignatureWhatALaunchThenHits) {
  std::string module = Register("plain");
  api::CompileRequest request;
  request.set_module(module);
  request.set_kernel("add_kernel");
  for (const char* entry : {"x=*fp32:16", "y=*fp32:16", "n=i32", "BLOCK=32"})
    request.add_signature(entry);
  auto compiled = std::make_shared<std::promise<absl::StatusOr<Launcher::CompiledVariant>>>();
  launcher_->Compile(request, absl::InfiniteDuration(),
                     [compiled](auto result) { compiled->set_value(std::move(result)); });
  absl::StatusOr<Launcher::CompiledVariant> variant = compiled->get_future().get();
  ASSERT_TRUE(variant.ok()) << variant.status();
  EXPECT_EQ(variant->outcome, CompileOutcome::kCompiled);
  EXPECT_EQ(Launch(Request(module, 100))->outcome(), "hit");
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(LauncherTest, EvaluatesHeuristicsAndDefaults) {
  storage::ModuleDescription described = DescribeAddKernel();
  storage::KernelDescription* kernel = described.mutable_kernels(0);
  for (const char* name : {"EVEN", "HAS_Y", "SCALE"}) {
    storage::ParameterDescription* parameter = kernel->add_parameters();
    parameter->set_name(name);
    parameter->set_is_constexpr(true);
  }
  kernel->mutable_parameters(6)->set_has_default(true);
  kernel->mutable_parameters(6)->mutable_default_value()->set_real(0.5);
  auto* even = kernel->add_heuristics();
  even->set_name("EVEN");
  even->set_expression("args['n'] % args['BLOCK'] == 0");
  auto* has_y = kernel->add_heuristics();
  has_y->set_name("HAS_Y");
  has_y->set_expression("args[\"y\"] is not None");
  backend_.descriptions["heuristics"] = described;
  std::string module = Register("heuristics");
  ASSERT_TRUE(Launch(Request(module, 96)).ok());
  api::LaunchRequest without_y = Request(module, 95);
  without_y.mutable_arguments(1)->mutable_constant()->mutable_none();
  ASSERT_TRUE(Launch(without_y).ok());
  auto jobs = backend_.jobs();
  EXPECT_TRUE(jobs[0].parameters(4).constant().boolean());
  EXPECT_TRUE(jobs[0].parameters(5).constant().boolean());
  EXPECT_EQ(jobs[0].parameters(6).constant().real(), 0.5);
  EXPECT_FALSE(jobs[1].parameters(4).constant().boolean());
  EXPECT_FALSE(jobs[1].parameters(5).constant().boolean());
  EXPECT_TRUE(jobs[1].parameters(1).constant().has_none());
}

// ---- Guarded variants (server/launch/guard_policy.h).

class GuardTest : public LauncherTest {
 protected:
  GuardTest() { module_ = Register("plain"); }
  // Whether the launch ran guarded.
  bool Guarded(const std::string& device) {
    api::LaunchRequest request = Request(module_);
    request.set_device(device);
    absl::StatusOr<api::LaunchResponse> response = Launch(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() && response->guarded();
  }
  std::string ReasonOn(const std::string& device) {
    api::LaunchRequest request = Request(module_);
    request.set_device(device);
    return ReasonOf(request);
  }
  void UseSessionOf(uid_t user) {
    session_ = *sessions_->Open("test", Peer{1, user, 1});
    region_ = (*AllocateMemory(sessions_.get(), session_.get(), device_, 4096))->id();
  }
  // Those that were compiled for GPUs, in order; false: plain.
  std::multiset<bool> CompiledGuarded() {
    pool_.Drain();
    std::multiset<bool> guarded;
    for (const storage::CompileJob& job : backend_.jobs()) guarded.insert(IsGuarded(job.options()));
    return guarded;
  }
  std::string module_;
};

TEST_F(GuardTest, ByDefaultTheFirstLaunchUnderMpsRunsGuardedAndTheNextPlain) {
  UseSessionOf(geteuid());
  EXPECT_TRUE(Guarded("cuda:mps"));
  EXPECT_FALSE(Guarded("cuda:mps"));
  EXPECT_FALSE(Guarded("cuda:mps"));
  EXPECT_EQ(CompiledGuarded(), (std::multiset<bool>{false, true}));
  EXPECT_FALSE(Guarded("cuda:time-slice"));
}

TEST_F(GuardTest, WithoutMpsClientsOfOtherUsersAreGuardedOnce) {
  UseSessionOf(geteuid() + 1);
  EXPECT_TRUE(Guarded("cuda:time-slice"));
  EXPECT_FALSE(Guarded("cuda:time-slice"));
}

TEST_F(GuardTest, AVariantStaysGuardedUntilALaunchOfItWentThrough) {
  session_->SetGuardPolicy({GuardPolicy::Mode::kFirst, 1});
  log_.launch_status = absl::OutOfRangeError("store outside 'x'");
  EXPECT_EQ(ReasonOn("cuda:mps"), "OUT_OF_BOUNDS");
  EXPECT_EQ(ReasonOn("cuda:mps"), "OUT_OF_BOUNDS");
  log_.launch_status = absl::OkStatus();
  EXPECT_TRUE(Guarded("cuda:mps"));
  EXPECT_FALSE(Guarded("cuda:mps"));
}

TEST_F(GuardTest, ASessionMayAskForAlwaysNeverOrOneInN) {
  session_->SetGuardPolicy({GuardPolicy::Mode::kNever, 1});
  EXPECT_FALSE(Guarded("cuda:mps"));
  EXPECT_EQ(CompiledGuarded(), std::multiset<bool>{false});
  session_->SetGuardPolicy({GuardPolicy::Mode::kAlways, 1});
  EXPECT_TRUE(Guarded("cuda:time-slice"));
  EXPECT_TRUE(Guarded("cuda:time-slice"));
  session_->SetGuardPolicy({GuardPolicy::Mode::kEveryNth, 3});
  int guarded = 0;
  for (int i = 0; i < 9; ++i) guarded += Guarded("cuda:mps");
  EXPECT_EQ(guarded, 3);
}

TEST_F(GuardTest, AKernelThatCannotBeGuardedRunsWithoutUnlessTheSessionInsists) {
  UseSessionOf(geteuid());
  pool_.Drain();
  backend_.refuse_guarded = true;
  api::LaunchRequest request = Request(module_);
  request.set_device("cuda:mps");
  absl::StatusOr<api::LaunchResponse> response = Launch(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->guarded());
  ASSERT_EQ(response->notes_size(), 1);
  EXPECT_TRUE(absl::StrContains(response->notes(0), "add_kernel cannot run guarded"));
  session_->SetGuardPolicy({GuardPolicy::Mode::kAlways, 1});
  EXPECT_EQ(ReasonOn("cuda:mps"), "NOT_GUARDED");
}

TEST_F(GuardTest, CompilingAheadMakesBothVariantsUnderMps) {
  UseSessionOf(geteuid());
  api::CompileRequest ahead;
  ahead.set_module(module_);
  ahead.set_kernel("add_kernel");
  ahead.set_device("cuda:mps");
  for (const char* entry : {"x=*fp32:16", "y=*fp32:16", "n=i32"}) ahead.add_signature(entry);
  api::NamedConstant* block = ahead.add_constants();
  block->set_name("BLOCK");
  block->mutable_value()->set_integer(32);
  auto ended = std::make_shared<std::promise<absl::Status>>();
  launcher_->Compile(ahead, absl::InfiniteDuration(), [ended](auto variant) {
    ended->set_value(variant.status());
  });
  const absl::Status compiled = ended->get_future().get();
  ASSERT_TRUE(compiled.ok()) << compiled;
  EXPECT_EQ(CompiledGuarded(), (std::multiset<bool>{false, true}));
  api::LaunchRequest request = Request(module_);
  request.set_device("cuda:mps");
  absl::StatusOr<api::LaunchResponse> first = Launch(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->guarded());
  EXPECT_EQ(first->outcome(), "hit");
  EXPECT_EQ(backend_.jobs().size(), 2u);
}

}  // namespace
}  // namespace tessera::server
