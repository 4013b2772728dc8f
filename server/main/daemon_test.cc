// A whole daemon in this process, with a fake compiler and a fake executor, spoken to over its Unix
// sockets.
#include "server/main/daemon.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "cache/layer/forwarding_store.h"
#include "cache/store/memory/memory_store.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/tessera/v1/admin.grpc.pb.h"
#include "proto/tessera/v1/cache.grpc.pb.h"
#include "proto/tessera/v1/launch.grpc.pb.h"
#include "proto/tessera/v1/memory.grpc.pb.h"
#include "proto/tessera/v1/modules.grpc.pb.h"
#include "proto/tessera/v1/ops.grpc.pb.h"
#include "proto/tessera/v1/tuning.grpc.pb.h"
#include "proto/tessera/v1/warmup.grpc.pb.h"
#include "runtime/memory/descriptor_socket.h"
#include "server/compile/fake_backend.h"
#include "server/device/fake_executor.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

class OneOp : public OpCatalog {
 public:
  api::ListOpsResponse List() const override {
    api::ListOpsResponse response;
    response.add_ops()->set_name("add");
    return response;
  }
  absl::StatusOr<storage::SourceFile> Source(const std::string&) const override {
    storage::SourceFile file;
    file.set_text("plain");
    return file;
  }
  absl::StatusOr<api::LaunchRequest> Plan(const api::LaunchOpRequest& request) const override {
    if (request.tensors_size() != 2) return absl::InvalidArgumentError("tensor 'y' is missing");
    api::LaunchRequest launch;
    launch.set_kernel("add_kernel");
    launch.add_grid(1);
    *launch.mutable_arguments() = request.tensors();
    api::Argument* n = launch.add_arguments();
    n->set_name("n");
    n->set_integer(8);
    api::Argument* block = launch.add_arguments();
    block->set_name("BLOCK");
    block->set_integer(32);
    return launch;
  }
};

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    char folder[] = "/tmp/tessera_daemon_XXXXXX";
    folder_ = mkdtemp(folder);
    config_.listen = "unix:" + folder_ + "/t.sock";
    config_.metrics = "off";
  }
  ~DaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }

  absl::Status Start() {
    DaemonParts parts;
    parts.version = "test";
    parts.compiler_build = "build";
    parts.open_store = [this] {
      return absl::StatusOr<std::unique_ptr<cache::CacheStore>>(open_store_());
    };
    auto backend = std::make_unique<FakeBackend>();
    backend->descriptions["plain"] = DescribeAddKernel();
    backend_ = backend.get();
    parts.backend = std::move(backend);
    parts.devices = std::make_unique<DeviceTable>();
    parts.devices->Add({"cpu:0", "cpu", "features", "model", 1},
                       [this]() -> absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> {
                         return std::unique_ptr<runtime::ExecutorClient>(new FakeExecutor(&log_));
                       });
    parts.ops = std::make_unique<OneOp>();
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(config_, std::move(parts));
    if (!daemon.ok()) return daemon.status();
    daemon_ = *std::move(daemon);
    channel_ = grpc::CreateChannel(config_.listen, grpc::InsecureChannelCredentials());
    return absl::OkStatus();
  }

  // Attaches over the descriptor socket and imports `bytes` of memory.
  void Attach(uint64_t bytes = 4096) {
    attached_ = runtime::UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder_ + "/t.sock.fd").c_str());
    ASSERT_EQ(connect(attached_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    api::AttachRequest hello, offer;
    hello.mutable_hello();
    offer.mutable_offer();
    session_ = Exchange(hello).session();
    runtime::UniqueFd memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
    api::ImportMemoryRequest request;
    request.set_session(session_);
    request.set_memfd(Exchange(offer, memory.get()).ticket());
    api::ImportMemoryResponse response;
    grpc::ClientContext context;
    grpc::Status status =
        api::MemoryService::NewStub(channel_)->ImportMemory(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    region_ = response.region();
  }
  api::AttachResponse Exchange(const api::AttachRequest& request, int fd = -1) {
    absl::Span<const int> descriptors =
        fd >= 0 ? absl::MakeConstSpan(&fd, 1) : absl::Span<const int>();
    EXPECT_TRUE(
        runtime::SendPacket(attached_.get(), request.SerializeAsString(), descriptors).ok());
    api::AttachResponse response;
    EXPECT_TRUE(response.ParseFromString(runtime::ReceivePacket(attached_.get(), 4096)->bytes));
    EXPECT_EQ(response.code(), 0) << response.message();
    return response;
  }

  std::string Register() {
    api::RegisterModuleRequest request;
    request.add_files()->set_text("plain");
    api::RegisterModuleResponse response;
    grpc::ClientContext context;
    grpc::Status status =
        api::ModuleService::NewStub(channel_)->RegisterModule(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.kernels_size(), 1);
    return response.module();
  }
  api::LaunchRequest Request(const std::string& module, int64_t n = 100) {
    api::LaunchRequest request;
    request.set_session(session_);
    request.set_module(module);
    request.set_kernel("add_kernel");
    request.add_grid(1);
    for (const char* name : {"x", "y"}) {
      api::Argument* argument = request.add_arguments();
      argument->set_name(name);
      argument->mutable_tensor()->set_region(region_);
      argument->mutable_tensor()->set_dtype("fp32");
      argument->mutable_tensor()->add_shape(n);
    }
    api::Argument* argument = request.add_arguments();
    argument->set_name("n");
    argument->set_integer(n);
    argument = request.add_arguments();
    argument->set_name("BLOCK");
    argument->set_integer(32);
    return request;
  }
  grpc::Status Launch(const api::LaunchRequest& request, api::LaunchResponse* response,
                      grpc::ClientContext* context) {
    return api::LaunchService::NewStub(channel_)->Launch(context, request, response);
  }
  // grpc.health.v1.Health/Check, by hand: 1 is SERVING, 2 is NOT_SERVING.
  int Health(const std::string& service = "") {
    grpc::GenericStub stub(channel_);
    std::string bytes =
        service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
    grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1), response;
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    if (!status.ok()) return -1;
    grpc::Slice answer;
    EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
    return answer.size() >= 2 ? answer.begin()[1] : 0;
  }
  api::GetStatusResponse Status() {
    grpc::ClientContext context;
    api::GetStatusResponse response;
    EXPECT_TRUE(api::AdminService::NewStub(channel_)->GetStatus(&context, {}, &response).ok());
    return response;
  }

  std::string folder_;
  Config config_;
  FakeExecutorLog log_;
  FakeBackend* backend_ = nullptr;
  std::function<std::unique_ptr<cache::CacheStore>()> open_store_ = [] {
    return cache::NewMemoryStore();
  };
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  runtime::UniqueFd attached_;
  std::string session_;
  uint64_t region_ = 0;
};

TEST_F(DaemonTest, LaunchesFromSourceTextToTheExecutor) {
  ASSERT_TRUE(Start().ok());
  Attach();
  api::LaunchResponse response;
  grpc::ClientContext context;
  grpc::Status status = Launch(Request(Register()), &response, &context);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), "compiled");
  EXPECT_EQ(log_.launches.size(), 1u);
  api::GetStatusResponse state = Status();
  EXPECT_EQ(state.state(), "serving");
  EXPECT_EQ(state.launches(), 1u);
  EXPECT_EQ(state.regions(), 1u);
  EXPECT_EQ(state.sessions(), 1u);
  EXPECT_EQ(Health(), 1);
  EXPECT_EQ(Health("tessera.v1.LaunchService"), 1);
  EXPECT_EQ(Health("no.such.Service"), -1);
}

TEST_F(DaemonTest, SendsErrorsWithAMachineReadableReason) {
  ASSERT_TRUE(Start().ok());
  Attach(4096);
  api::LaunchResponse response;
  grpc::ClientContext context;
  grpc::Status status = Launch(Request(Register(), 1025), &response, &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("tensor 'x'"), std::string::npos) << status.error_message();
  auto found = context.GetServerTrailingMetadata().find("tessera-error-bin");
  ASSERT_NE(found, context.GetServerTrailingMetadata().end());
  api::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromArray(found->second.data(), static_cast<int>(found->second.size())));
  EXPECT_EQ(detail.reason(), "REGION_TOO_SMALL");
  EXPECT_EQ(detail.metadata().at("tensor"), "x");
}

TEST_F(DaemonTest, AnswersEveryLaunchOfAStreamUnderItsTag) {
  ASSERT_TRUE(Start().ok());
  Attach();
  api::LaunchRequest request = Request(Register());
  grpc::ClientContext context;
  auto stream = api::LaunchService::NewStub(channel_)->LaunchStream(&context);
  constexpr uint64_t kLaunches = 1500;
  std::thread writer([&] {
    for (uint64_t tag = 1; tag <= kLaunches; ++tag) {
      request.set_tag(tag);
      request.set_device(tag % 100 == 0 ? "nowhere" : "");
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::set<uint64_t> tags;
  uint64_t failed = 0;
  api::LaunchResponse response;
  while (stream->Read(&response)) {
    EXPECT_TRUE(tags.insert(response.tag()).second);
    EXPECT_EQ(response.code() != 0, response.tag() % 100 == 0) << response.message();
    failed += response.code() != 0;
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(tags.size(), kLaunches);
  EXPECT_EQ(failed, kLaunches / 100);
}

TEST_F(DaemonTest, OutlivesAClientThatCancelsItsStream) {
  ASSERT_TRUE(Start().ok());
  Attach();
  api::LaunchRequest request = Request(Register());
  api::LaunchResponse response;
  {
    grpc::ClientContext warm;
    ASSERT_TRUE(Launch(request, &response, &warm).ok());
  }
  {
    std::lock_guard<std::mutex> lock(log_.mutex);
    log_.hold = true;
  }
  grpc::ClientContext context;
  auto stream = api::LaunchService::NewStub(channel_)->LaunchStream(&context);
  for (int i = 0; i < 50; ++i) stream->Write(request);
  auto held = [&] {
    std::lock_guard<std::mutex> lock(log_.mutex);
    return log_.held.size();
  };
  while (held() < 50) std::this_thread::yield();
  context.TryCancel();
  stream->Finish();
  {
    std::lock_guard<std::mutex> lock(log_.mutex);
    log_.hold = false;
  }
  for (auto& done : log_.held) done({});
  grpc::ClientContext after;
  EXPECT_TRUE(Launch(request, &response, &after).ok());
  EXPECT_EQ(Status().launches_in_flight(), 0u);
}

TEST_F(DaemonTest, LaunchesOpsByName) {
  ASSERT_TRUE(Start().ok());
  Attach();
  api::LaunchOpRequest request;
  request.set_session(session_);
  request.set_op("add");
  *request.mutable_tensors() = {};
  api::LaunchResponse response;
  {
    grpc::ClientContext context;
    EXPECT_EQ(
        api::OpsService::NewStub(channel_)->LaunchOp(&context, request, &response).error_code(),
        grpc::StatusCode::INVALID_ARGUMENT);
  }
  api::LaunchRequest tensors = Request("", 8);
  *request.add_tensors() = tensors.arguments(0);
  *request.add_tensors() = tensors.arguments(1);
  for (const char* outcome : {"compiled", "hit"}) {
    grpc::ClientContext context;
    grpc::Status status =
        api::OpsService::NewStub(channel_)->LaunchOp(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.outcome(), outcome);
  }
}

TEST_F(DaemonTest, GivesMemoryBackWhenTheClientIsGone) {
  ASSERT_TRUE(Start().ok());
  Attach();
  ASSERT_EQ(Status().regions(), 1u);
  attached_.reset();
  while (Status().sessions() != 0) std::this_thread::yield();
  while (Status().regions() != 0) std::this_thread::yield();
  EXPECT_EQ(Status().mapped_bytes(), 0u);
}

TEST_F(DaemonTest, SaysServingWhenTheWarmUpIsDone) {
  config_.warmup_manifest = folder_ + "/manifest.yaml";
  std::ofstream(config_.warmup_manifest)
      << "modules:\n  - source: plain\n    kernels:\n      - name: add_kernel\n"
         "        signature: [x=*fp32:16, y=*fp32:16, n=i32]\n"
         "        constants: {BLOCK: 32}\n      - {name: no_kernel, required: false}\n";
  ASSERT_TRUE(Start().ok());
  while (Health() != 1) std::this_thread::yield();
  api::GetStatusResponse state = Status();
  EXPECT_TRUE(state.ready());
  EXPECT_EQ(state.warmup().total(), 2u);
  EXPECT_EQ(state.warmup().compiled(), 1u);
  ASSERT_EQ(state.warmup().failures_size(), 1);
  EXPECT_NE(state.warmup().failures(0).find("no_kernel"), std::string::npos);
  Attach();
  api::LaunchResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(Launch(Request(Register()), &response, &context).ok());
  EXPECT_EQ(response.outcome(), "hit");
}

TEST_F(DaemonTest, HoldsHealthUntilAReloadOfTheManifestSucceeds) {
  config_.warmup_manifest = folder_ + "/manifest.yaml";
  std::ofstream(config_.warmup_manifest) << "modules: 3\n";
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Health(), 2);
  EXPECT_EQ(Health("tessera.v1.LaunchService"), 2);
  EXPECT_EQ(Health("tessera.v1.AdminService"), 1) << "it works whatever is warm";
  EXPECT_NE(Status().warmup().state().find("manifest.yaml:1:10"), std::string::npos)
      << Status().warmup().state();
  std::ofstream(config_.warmup_manifest)
      << "modules:\n  - source: plain\n    kernels:\n      - {name: no_kernel}\n";
  daemon_->Reload();
  while (!Status().warmup().finished() || Status().warmup().required_failed() == 0)
    std::this_thread::yield();
  EXPECT_EQ(Health(), 2);
  EXPECT_FALSE(Status().ready());
  EXPECT_NE(Status().warmup().failures(0).find("no kernel 'no_kernel'"), std::string::npos);
  std::ofstream(config_.warmup_manifest)
      << "modules:\n  - source: plain\n    kernels:\n      - name: add_kernel\n"
         "        arguments: {x: \"*fp32:16\", y: \"*fp32:16\", n: [16, 32, 17], BLOCK: 32}\n";
  daemon_->Reload();
  while (Health() != 1) std::this_thread::yield();
  EXPECT_EQ(Status().warmup().total(), 2u) << "16 and 32 are one variant";
  EXPECT_TRUE(Status().ready());
}

TEST_F(DaemonTest, RefusesToCompileWhileServingIfToldSo) {
  config_.jit_monitor = "error";
  ASSERT_TRUE(Start().ok());
  Attach();
  std::string module = Register();
  api::LaunchResponse response;
  grpc::ClientContext context;
  grpc::Status refused = Launch(Request(module), &response, &context);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(refused.error_message().find("- {name: add_kernel, arguments: {x: \"*fp32:16\", y: "
                                         "\"*fp32:16\", n: 100, BLOCK: 32}"),
            std::string::npos)
      << refused.error_message();
  EXPECT_TRUE(backend_->jobs().empty());
  EXPECT_EQ(Status().jit_during_serving(), 1u);
  // What was asked for by name is compiled, and then launched.
  api::CompileRequest compile;
  compile.set_module(module);
  compile.set_kernel("add_kernel");
  for (const char* entry : {"x=*fp32:16", "y=*fp32:16", "n=i32", "BLOCK=32"})
    compile.add_signature(entry);
  api::CompileResponse compiled;
  grpc::ClientContext compiling, again;
  ASSERT_TRUE(
      api::ModuleService::NewStub(channel_)->Compile(&compiling, compile, &compiled).ok());
  grpc::Status launched = Launch(Request(module), &response, &again);
  EXPECT_TRUE(launched.ok()) << launched.error_message();
}

TEST_F(DaemonTest, WarmsUpOnRequestWithProgress) {
  ASSERT_TRUE(Start().ok());
  api::WarmupRequest request;
  request.set_manifest(
      "modules:\n  - source: plain\n    kernels:\n      - name: add_kernel\n"
      "        signature: [x=*fp32, y=*fp32, n=i32, BLOCK=32]\n");
  grpc::ClientContext context;
  auto stream = api::WarmupService::NewStub(channel_)->Warmup(&context, request);
  api::WarmupProgress progress;
  while (stream->Read(&progress)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(progress.finished());
  EXPECT_EQ(progress.compiled(), 1u);
  request.set_manifest("modules: 3\n");
  grpc::ClientContext bad;
  EXPECT_EQ(api::WarmupService::NewStub(channel_)->Warmup(&bad, request)->Finish().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// A store whose look-ups and writes wait while the gate is shut, as on a disk that has stalled.
struct Gate {
  void Shut(bool shut) {
    absl::MutexLock lock(&mutex);
    is_shut = shut;
  }
  void Pass() {
    absl::MutexLock lock(&mutex);
    ++waiting;
    mutex.Await(absl::Condition(
        +[](bool* shut) { return !*shut; }, &is_shut));
    --waiting;
  }
  absl::Mutex mutex;
  bool is_shut = false;
  int waiting = 0;
};

class GatedStore : public cache::ForwardingStore {
 public:
  explicit GatedStore(Gate* gate) : ForwardingStore(cache::NewMemoryStore()), gate_(gate) {}
  absl::StatusOr<cache::Lookup<storage::ArtifactRecord>> FindArtifact(
      const cache::CompileKey& key) override {
    gate_->Pass();
    return behind_->FindArtifact(key);
  }
  absl::Status PutArtifact(const cache::CompileKey& key,
                           const storage::ArtifactRecord& record) override {
    gate_->Pass();
    return behind_->PutArtifact(key, record);
  }
  absl::StatusOr<cache::Lookup<storage::ModuleRecord>> FindModule(absl::string_view id) override {
    gate_->Pass();
    return behind_->FindModule(id);
  }
  cache::StoreStats Stats() override {
    gate_->Pass();
    return behind_->Stats();
  }
  absl::StatusOr<cache::CollectReport> Collect(const cache::CollectRequest& request) override {
    gate_->Pass();
    return behind_->Collect(request);
  }

 private:
  Gate* const gate_;
};

TEST_F(DaemonTest, LaunchesWhatIsLoadedWhileTheStoreIsHeldUp) {
  Gate gate;
  open_store_ = [&] { return std::make_unique<GatedStore>(&gate); };
  ASSERT_TRUE(Start().ok());
  Attach();
  std::string module = Register();
  api::LaunchResponse response;
  grpc::ClientContext warm;
  ASSERT_TRUE(Launch(Request(module), &response, &warm).ok());
  gate.Shut(true);
  // More variants to compile than the daemon has threads for what blocks: all get stuck.
  std::vector<std::thread> stuck;
  for (int i = 0; i < 8; ++i)
    stuck.emplace_back([&, i] {
      api::LaunchRequest request = Request(module);
      request.mutable_options()->set_num_warps(1u << (i % 6));
      request.mutable_options()->set_num_stages(1 + i);
      api::LaunchResponse late;
      grpc::ClientContext context;
      EXPECT_TRUE(Launch(request, &late, &context).ok());
    });
  {
    absl::MutexLock lock(&gate.mutex);
    gate.mutex.Await(absl::Condition(
        +[](int* waiting) { return *waiting >= 4; }, &gate.waiting));
  }
  for (int i = 0; i < 300; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::Status status = Launch(Request(module), &response, &context);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.outcome(), "hit");
  }
  {
    absl::MutexLock lock(&gate.mutex);
    EXPECT_GE(gate.waiting, 4);
  }
  gate.Shut(false);
  for (std::thread& thread : stuck) thread.join();
}

TEST_F(DaemonTest, PoliciesOfTuningAreSetAndTold) {
  config_.tuning = "candidates(3)";
  ASSERT_TRUE(Start().ok());
  auto tuning = api::TuningService::NewStub(channel_);
  auto set = [&](const api::SetPolicyRequest& request, api::SetPolicyResponse* response) {
    grpc::ClientContext context;
    return tuning->SetPolicy(&context, request, response).error_code();
  };
  api::SetPolicyRequest request;
  api::SetPolicyResponse response;
  EXPECT_EQ(set(request, &response), grpc::StatusCode::OK);
  EXPECT_EQ(response.policy(), "candidates(3)");
  EXPECT_FALSE(response.frozen());
  request.set_kernel("add_kernel");
  request.set_policy("bucketed");
  request.set_frozen(true);
  (*request.mutable_buckets())["n"] = "edges:64,4096";
  EXPECT_EQ(set(request, &response), grpc::StatusCode::OK);
  EXPECT_EQ(response.policy(), "bucketed");
  EXPECT_TRUE(response.frozen());
  EXPECT_EQ(response.buckets().at("n"), "edges:64,4096");
  EXPECT_EQ(set({}, &response), grpc::StatusCode::OK);
  EXPECT_EQ(response.policy(), "candidates(3)") << "other kernels keep theirs";
  request.set_policy("sometimes");
  EXPECT_EQ(set(request, &response), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_policy("");
  (*request.mutable_buckets())["n"] = "edges:";
  EXPECT_EQ(set(request, &response), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DaemonTest, DoesNotStartWithAPolicyThatIsNone) {
  config_.tuning = "sometimes";
  EXPECT_EQ(Start().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DaemonTest, RefusesASecondDaemonOnItsSocketAndLeavesNoFileBehind) {
  ASSERT_TRUE(Start().ok());
  std::unique_ptr<Daemon> first = std::move(daemon_);
  EXPECT_EQ(Start().code(), absl::StatusCode::kAlreadyExists);
  first->Drain();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/t.sock"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/t.sock.fd"));
  EXPECT_TRUE(Start().ok());
}

TEST_F(DaemonTest, LetsLaunchesInFlightFinishBeforeItEnds) {
  ASSERT_TRUE(Start().ok());
  Attach();
  api::LaunchRequest request = Request(Register());
  api::LaunchResponse response;
  {
    grpc::ClientContext warm;
    ASSERT_TRUE(Launch(request, &response, &warm).ok());
  }
  log_.hold = true;
  grpc::Status status;
  std::thread client([&] {
    grpc::ClientContext context;
    status = Launch(request, &response, &context);
  });
  auto held = [&] {
    std::lock_guard<std::mutex> lock(log_.mutex);
    return log_.held.size();
  };
  while (held() == 0) std::this_thread::yield();
  std::thread drainer([&] { daemon_->Drain(); });
  log_.held[0]({});
  client.join();
  drainer.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(DaemonTest, GivesItsSocketsTheModeOfTheConfiguration) {
  config_.socket_mode = 0620;
  ASSERT_TRUE(Start().ok());
  for (const char* name : {"/t.sock", "/t.sock.fd"}) {
    struct stat info;
    ASSERT_EQ(stat((folder_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0620u) << name;
  }
}

}  // namespace
}  // namespace tessera::server
