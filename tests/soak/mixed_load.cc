#include "tests/soak/mixed_load.h"

#include <cmath>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"

namespace tessera {
namespace {

constexpr int64_t kMost = 1 << 15;  // elements of the vectors
constexpr int kRoundsPerSession = 40;

struct Shared {
  std::mutex mutex;
  MixedLoadReport report;
};

// One client's life: rounds of launches on a session that is replaced now and then.
class LoadClient {
 public:
  LoadClient(const MixedLoadOptions& options, int index, Shared* shared)
      : options_(options), index_(index), random_(options.seed * 1000 + index), shared_(shared) {}

  absl::Status Run() {
    absl::Time end = absl::Now() + options_.duration;
    bool timed = options_.duration > absl::ZeroDuration();
    RETURN_IF_ERROR(Connect());
    for (int round = 0; timed ? absl::Now() < end : round < options_.rounds; ++round) {
      if (options_.churn && round > 0 && round % kRoundsPerSession == 0) RETURN_IF_ERROR(Connect());
      Round(round);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Connect() {
    x_.reset();
    y_.reset();
    out_.reset();
    client_.reset();
    ASSIGN_OR_RETURN(client_, Client::Connect(options_.address, absl::StrCat("load ", index_)));
    ASSIGN_OR_RETURN(v1::RegisterModuleResponse module,
                     client_->RegisterModule({{"fused.py", options_.kernels}}));
    module_ = module.module();
    ASSIGN_OR_RETURN(x_, client_->Allocate(kMost * 4));
    ASSIGN_OR_RETURN(y_, client_->Allocate(kMost * 4));
    ASSIGN_OR_RETURN(out_, client_->Allocate(kMost * 4));
    for (int64_t i = 0; i < kMost; ++i) {
      x_->as<float>()[i] = static_cast<float>(i % 97);
      y_->as<float>()[i] = static_cast<float>(i % 31);
    }
    Count([](MixedLoadReport& report) { ++report.sessions; });
    return absl::OkStatus();
  }

  template <typename Change>
  void Count(Change change) {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    change(shared_->report);
  }
  void Fault(const std::string& what) {
    Count([&](MixedLoadReport& report) { ++report.errors[what]; });
  }
  void Pace() {
    if (options_.launches_per_second > 0)
      absl::SleepFor(absl::Seconds(1 / options_.launches_per_second));
  }
  void Ended(const absl::StatusOr<v1::LaunchResponse>& launched, const char* kernel) {
    if (!launched.ok()) return Fault(absl::StrCat(kernel, ": ", launched.status().ToString()));
    Count([&](MixedLoadReport& report) {
      ++report.launches;
      report.compiled += launched->outcome() == "compiled";
    });
  }

  void Round(int round) {
    // Vectors of a few lengths: each class of integers, and lengths that were never seen before.
    static constexpr int64_t kLengths[] = {1, 16, 1000, 1024, 4096, 31 * 16, 20011};
    int64_t n = kLengths[random_() % std::size(kLengths)];
    if (random_() % 4 == 0) n = 2 + static_cast<int64_t>(random_() % (kMost - 2));
    Add(n, random_() % 2 == 0 ? 256 : 1024, random_() % 8 == 0);
    ScaleRows(1 + static_cast<int64_t>(random_() % 16),
              64 + static_cast<int64_t>(random_() % 3) * 36, random_() % 2 == 0);
    if (round % 4 == 0) Matmul(16 << (random_() % 2), 64, 64, round == 0 && index_ == 0);
    if (round % 3 == 0) Ops();
    if (options_.mistakes && round % 5 == 0) Mistakes();
    if (options_.churn && round % 7 == 0) Memory();
  }

  void Add(int64_t n, int64_t block, bool unaligned) {
    uint64_t offset = unaligned && n < kMost ? 4 : 0;
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("add");
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {n}, offset);
    *launch.add_arguments() = TensorArgument("y_ptr", *y_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("out_ptr", *out_, DType::kFp32, {n});
    *launch.add_arguments() = IntArgument("n", n);
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(block));
    out_->as<float>()[n - 1] = -1;
    Ended(client_->Launch(launch), "add");
    int64_t last = n - 1;
    float want = x_->as<float>()[last + static_cast<int64_t>(offset / 4)] + y_->as<float>()[last];
    if (out_->as<float>()[last] != want) Fault("add: a wrong result");
    Pace();
  }

  void ScaleRows(int64_t rows, int64_t columns, bool relu) {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("scale_rows");
    launch.add_grid_expressions("rows");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {rows, columns});
    *launch.add_arguments() = NoneArgument("bias_ptr");
    *launch.add_arguments() = TensorArgument("out_ptr", *out_, DType::kFp32, {rows, columns});
    *launch.add_arguments() = IntArgument("rows", rows);
    *launch.add_arguments() = IntArgument("cols", columns);
    *launch.add_arguments() = FloatArgument("factor", 2.0);
    *launch.add_arguments() = ConstexprArgument("MODE", TextConstant(relu ? "relu" : "none"));
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(256));
    Ended(client_->Launch(launch), "scale_rows");
    if (out_->as<float>()[rows * columns - 1] != 2 * x_->as<float>()[rows * columns - 1])
      Fault("scale_rows: a wrong result");
    Pace();
  }

  void Matmul(int64_t m, int64_t n, int64_t k, bool tune) {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("matmul_bias_gelu");
    launch.add_grid_expressions("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)");
    *launch.add_arguments() = TensorArgument("a_ptr", *x_, DType::kFp16, {m, k});
    *launch.add_arguments() = TensorArgument("b_ptr", *y_, DType::kFp16, {k, n});
    *launch.add_arguments() = TensorArgument("bias_ptr", *y_, DType::kFp16, {n});
    *launch.add_arguments() = TensorArgument("c_ptr", *out_, DType::kFp16, {m, n});
    const std::pair<const char*, int64_t> integers[] = {
        {"M", m},         {"N", n},         {"K", k},         {"stride_am", k}, {"stride_ak", 1},
        {"stride_bk", n}, {"stride_bn", 1}, {"stride_cm", n}, {"stride_cn", 1}};
    for (const auto& [name, value] : integers) *launch.add_arguments() = IntArgument(name, value);
    *launch.add_arguments() = ConstexprArgument("APPLY_GELU", BoolConstant(true));
    if (tune && options_.tune) {
      v1::TuneRequest request;
      *request.mutable_launch() = launch;
      request.mutable_launch()->set_session(client_->session());
      request.set_effort("quick");
      request.set_budget_seconds(20);
      v1::TuneResponse response;
      grpc::ClientContext call;
      absl::Status tuned = StatusOf(client_->tuning().Tune(&call, request, &response), call);
      if (!tuned.ok()) Fault(absl::StrCat("tuning: ", tuned.ToString()));
      Count([](MixedLoadReport& report) { ++report.tunings; });
    }
    Ended(client_->Launch(launch), "matmul_bias_gelu");
    Pace();
  }

  void Ops() {
    v1::LaunchOpRequest softmax;
    softmax.set_op("softmax");
    *softmax.add_tensors() = TensorArgument("x", *x_, DType::kFp32, {8, 128});
    *softmax.add_tensors() = TensorArgument("out", *out_, DType::kFp32, {8, 128});
    Ended(client_->LaunchOp(softmax), "softmax");
    float sum = 0;
    for (int i = 0; i < 128; ++i) sum += out_->as<float>()[i];
    if (std::fabs(sum - 1) > 1e-3) Fault("softmax: a row does not add up to 1");
    Pace();
  }

  // Each must be refused, and leave the session as it was.
  void Mistakes() {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("add");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {kMost * 2});
    Refused(launch, "a tensor larger than its region");
    launch.set_kernel("no_such_kernel");
    Refused(launch, "an unknown kernel");
    launch.set_module("00");
    Refused(launch, "an unknown module");
  }
  void Refused(const v1::LaunchRequest& launch, const char* what) {
    if (client_->Launch(launch).ok()) return Fault(absl::StrCat("not refused: ", what));
    Count([](MixedLoadReport& report) { ++report.refused_as_expected; });
  }

  void Memory() {
    for (uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 20}) {
      absl::StatusOr<std::unique_ptr<SharedBuffer>> buffer = client_->Allocate(bytes);
      if (!buffer.ok()) Fault(absl::StrCat("allocating: ", buffer.status().ToString()));
    }
  }

  const MixedLoadOptions& options_;
  const int index_;
  std::mt19937_64 random_;
  Shared* const shared_;
  std::unique_ptr<Client> client_;
  std::string module_;
  std::unique_ptr<SharedBuffer> x_, y_, out_;
};

}  // namespace

absl::StatusOr<MixedLoadReport> RunMixedLoad(const MixedLoadOptions& options) {
  Shared shared;
  std::vector<std::thread> threads;
  std::vector<absl::Status> ends(static_cast<size_t>(options.clients));
  for (int i = 0; i < options.clients; ++i)
    threads.emplace_back([&, i] { ends[i] = LoadClient(options, i, &shared).Run(); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) RETURN_IF_ERROR(end);
  return shared.report;
}

}  // namespace tessera
