// The cache over the wire: what shares an entry, what does not, what stays within its bounds, and bundles.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kModule[] = R"py(
import triton
import triton.language as tl

SCALE: tl.constexpr = 3


@triton.jit
def double(x):
    return x * 2


@triton.jit
def plus_one(x):
    return x + 1


@triton.jit
def scaled(x_ptr, out_ptr, n, ACT: tl.constexpr, BLOCK: tl.constexpr = 128):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, ACT(double(x)) * SCALE, mask=i < n)


@triton.jit
def rows(x_ptr, out_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + i, mask=(i < n_cols) & (row < n_rows), other=0.0)
    tl.store(out_ptr + row * n_cols + i, x + 1.0, mask=(i < n_cols) & (row < n_rows))
)py";

v1::Constant Function(const std::string& name) {
  v1::Constant constant;
  constant.set_function(name);
  return constant;
}

class CacheTest : public DaemonFixture {
 protected:
  struct Scaled {
    std::string module;
    int64_t block = 0;      // 0: the default
    uint32_t num_warps = 0;  // 0: the default
    int64_t n = 100;
    float factor = 3, add = 1;
  };
  // Launches `scaled`, checks its result, and says how its code was come by.
  std::string Outcome(const Scaled& scaled) {
    if (buffer_ == nullptr || buffer_client_ != client_.get()) {
      buffer_ = Allocate(1 << 16);
      buffer_client_ = client_.get();
    }
    for (int i = 0; i < 128; ++i) buffer_->as<float>()[i] = i;
    v1::LaunchRequest launch;
    launch.set_module(scaled.module);
    launch.set_kernel("scaled");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", *buffer_, DType::kFp32, {scaled.n});
    *launch.add_arguments() = TensorArgument("out_ptr", *buffer_, DType::kFp32, {scaled.n}, 4096);
    *launch.add_arguments() = IntArgument("n", scaled.n);
    *launch.add_arguments() = ConstexprArgument("ACT", Function("plus_one"));
    if (scaled.block != 0) *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(scaled.block));
    if (scaled.num_warps != 0) launch.mutable_options()->set_num_warps(scaled.num_warps);
    auto response = client_->Launch(launch, absl::Seconds(60));
    if (!response.ok()) return response.status().ToString();
    for (int64_t i = 0; i < scaled.n; ++i)
      EXPECT_EQ(buffer_->as<float>()[1024 + i], (2 * i + scaled.add) * scaled.factor) << i;
    return response->outcome();
  }
  std::string Rows(const std::string& module, int64_t n_rows) {
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("rows");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", *rows_buffer_, DType::kFp32, {4096, 8});
    *launch.add_arguments() = TensorArgument("out_ptr", *rows_buffer_, DType::kFp32, {4096, 8}, 4096 * 8 * 4);
    *launch.add_arguments() = IntArgument("n_rows", n_rows);
    *launch.add_arguments() = IntArgument("n_cols", 8);
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(8));
    auto response = client_->Launch(launch, absl::Seconds(60));
    return response.ok() ? response->outcome() : response.status().ToString();
  }

  v1::CacheStatsResponse Stats() {
    grpc::ClientContext context;
    v1::CacheStatsResponse stats;
    EXPECT_TRUE(client_->cache().Stats(&context, {}, &stats).ok());
    return stats;
  }
  uint64_t Entries(const std::string& name) {
    const v1::CacheStatsResponse stats = Stats();
    for (const auto& family : stats.families())
      if (family.name() == name) return family.entries();
    ADD_FAILURE() << "no family " << name;
    return 0;
  }
  std::vector<std::string> Keys() {
    grpc::ClientContext context;
    v1::CacheListRequest request;
    request.set_family("artifacts");
    v1::CacheListResponse list;
    EXPECT_TRUE(client_->cache().List(&context, request, &list).ok());
    std::vector<std::string> keys;
    for (const auto& entry : list.entries()) keys.push_back(entry.key());
    return keys;
  }
  std::string Explain(const std::string& key, const std::string& other = "") {
    grpc::ClientContext context;
    v1::CacheExplainRequest request;
    request.set_key(key);
    request.set_other(other);
    v1::CacheExplainResponse response;
    grpc::Status status = client_->cache().Explain(&context, request, &response);
    return status.ok() ? response.text() : status.error_message();
  }
  v1::CacheCollectResponse Collect(bool dry_run) {
    grpc::ClientContext context;
    v1::CacheCollectRequest request;
    request.set_dry_run(dry_run);
    v1::CacheCollectResponse response;
    EXPECT_TRUE(client_->cache().Collect(&context, request, &response).ok());
    return response;
  }
  std::string Export(const v1::CacheExportRequest& request = {}) {
    grpc::ClientContext context;
    auto reader = client_->cache().Export(&context, request);
    v1::CacheExportResponse piece;
    std::string bundle;
    while (reader->Read(&piece)) bundle += piece.data();
    EXPECT_TRUE(reader->Finish().ok());
    return bundle;
  }
  grpc::Status Import(const std::string& bundle, v1::CacheImportResponse* response) {
    grpc::ClientContext context;
    auto writer = client_->cache().Import(&context, response);
    for (size_t at = 0; at < bundle.size(); at += 100000) {
      v1::CacheImportRequest piece;
      piece.set_data(bundle.substr(at, 100000));
      if (!writer->Write(piece)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  std::string StateFolder(const std::string& name) {
    const char* folder = std::getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(folder != nullptr ? folder : "/tmp", "/", name, ".", getpid());
    std::filesystem::remove_all(path);
    return path;
  }

  std::unique_ptr<SharedBuffer> buffer_, rows_buffer_;
  Client* buffer_client_ = nullptr;
};

// The value of a metric's first series, by its text ("name{label=...}").
double Metric(const std::string& address, const std::string& series) {
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << address;
  const std::string request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(write(connection, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(connection, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(connection);
  size_t at = text.find("\n" + series + " ");
  double value = -1;
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << series << " in\n" << text;
  } else {
    at += series.size() + 2;
    EXPECT_TRUE(absl::SimpleAtod(text.substr(at, text.find_first_of("\r\n", at) - at), &value));
  }
  return value;
}

TEST_F(CacheTest, WhatChangesNothingSharesTheEntry) {
  StartDaemon();
  const std::string text = kModule;
  ASSERT_EQ(Outcome({RegisterText(text)}), "compiled");
  // A path, a line shift, comments, and blanks within lines; another function of the file that this kernel does not use.
  EXPECT_EQ(Outcome({RegisterText(text, "/somewhere/else/other.py")}), "hit");
  EXPECT_EQ(Outcome({RegisterText("# A comment.\n\n\n" + text)}), "hit");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"return x + 1", "return x + 1  # the activation"}}))}), "hit");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"    i = tl.program_id(0) * BLOCK", "    # Places.\n    i = tl.program_id(0)*BLOCK"}}))}), "hit");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"x + 1.0", "x + 2.0"}}))}), "hit");
  // Defaults spelled out.
  const std::string module = RegisterText(text);
  EXPECT_EQ(Outcome({module, 128}), "hit");
  EXPECT_EQ(Outcome({module, 0, 4}), "hit");
  EXPECT_EQ(Status().compiles(), 1u);
  EXPECT_EQ(Entries("artifacts"), 1u);
}

TEST_F(CacheTest, WhatChangesTheCodeIsANewEntry) {
  StartDaemon();
  const std::string text = kModule;
  const std::string module = RegisterText(text);
  ASSERT_EQ(Outcome({module}), "compiled");
  // A global, a callee, a function that is passed as a value, the kernel itself, a constant, an option, a specialisation.
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"SCALE: tl.constexpr = 3", "SCALE: tl.constexpr = 5"}})), 0, 0, 100, 5}), "compiled");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"return x * 2", "return x + x"}}))}), "compiled");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"return x + 1", "return x + 4"}})), 0, 0, 100, 3, 4}), "compiled");
  EXPECT_EQ(Outcome({RegisterText(absl::StrReplaceAll(text, {{"* SCALE", "* SCALE * 1"}}))}), "compiled");
  EXPECT_EQ(Outcome({module, 256}), "compiled");
  EXPECT_EQ(Outcome({module, 0, 8}), "compiled");
  EXPECT_EQ(Outcome({module, 0, 0, 96}), "compiled");  // divisible by 16
  EXPECT_EQ(Outcome({module, 0, 0, 1}), "compiled");
  // The old source is as fresh as before.
  EXPECT_EQ(Outcome({RegisterText("# again\n" + text)}), "hit");
}

TEST_F(CacheTest, ExplainsWhyTwoLaunchesDoNotShareAnEntry) {
  StartDaemon();
  const std::string module = RegisterText(kModule);
  ASSERT_EQ(Outcome({module}), "compiled");
  const std::string first = Keys()[0];
  EXPECT_THAT(Explain(first), AllOf(HasSubstr("kernel = scaled\n"), HasSubstr("parameter n: i32\n"),
                                    HasSubstr("parameter BLOCK = 128\n"), HasSubstr("function plus_one = ")));
  ASSERT_EQ(Outcome({module, 0, 8, 96}), "compiled");
  std::vector<std::string> keys = Keys();
  ASSERT_EQ(keys.size(), 2u);
  const std::string second = keys[0] == first ? keys[1] : keys[0];
  EXPECT_EQ(Explain(first, second.substr(0, 12)),
            "- parameter n: i32\n- option num_warps = 4\n+ parameter n: i32, divisible by 16\n+ option num_warps = 8\n");
  EXPECT_THAT(Explain(first), HasSubstr("+ option num_warps = 8"));
  EXPECT_THAT(Explain("0123456789"), HasSubstr("no artifact"));
}

// As Triton: equal to 1, divisible by 16, or neither. Whatever order the shapes arrive in.
TEST_F(CacheTest, RowCountsUpTo4096NeedFewVariants) {
  for (uint32_t seed : {0u, 1u}) {
    StartDaemon();
    rows_buffer_ = Allocate(2 * 4096 * 8 * 4);
    const std::string module = RegisterText(kModule);
    std::vector<int> counts(4096);
    std::iota(counts.begin(), counts.end(), 1);
    if (seed != 0) {
      std::shuffle(counts.begin(), counts.end(), std::mt19937(seed));
      counts.resize(1000);
    }
    int compiled = 0;
    for (int n_rows : counts) {
      const std::string outcome = Rows(module, n_rows);
      ASSERT_TRUE(outcome == "hit" || outcome == "compiled") << outcome;
      compiled += outcome == "compiled";
    }
    std::printf("row counts 1 to 4096: %d variants, %u loaded\n", compiled, Status().kernel_variants());
    EXPECT_LE(compiled, 8);
    EXPECT_LE(Status().kernel_variants(), 8u);
    EXPECT_LE(Entries("artifacts"), 8u);
    rows_buffer_.reset();
  }
}

TEST_F(CacheTest, ManyClientsShareOneCompile) {
  StartDaemon();
  const std::string module = RegisterText(kModule);
  std::vector<std::thread> clients;
  std::map<std::string, int> outcomes;
  std::mutex mutex;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      auto client = Client::Connect(address_);
      ASSERT_TRUE(client.ok());
      auto buffer = (*client)->Allocate(8192);
      ASSERT_TRUE(buffer.ok());
      v1::LaunchRequest launch;
      launch.set_module(module);
      launch.set_kernel("rows");
      launch.add_grid(1);
      *launch.add_arguments() = TensorArgument("x_ptr", **buffer, DType::kFp32, {8});
      *launch.add_arguments() = TensorArgument("out_ptr", **buffer, DType::kFp32, {8}, 4096);
      *launch.add_arguments() = IntArgument("n_rows", 1);
      *launch.add_arguments() = IntArgument("n_cols", 8);
      *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(8));
      auto response = (*client)->Launch(launch, absl::Seconds(60));
      std::lock_guard<std::mutex> lock(mutex);
      ++outcomes[response.ok() ? response->outcome() : response.status().ToString()];
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(outcomes["compiled"], 1);
  EXPECT_EQ(outcomes["compiled"] + outcomes["coalesced"] + outcomes["hit"], 8);
  EXPECT_EQ(Status().compiles(), 1u);
}

TEST_F(CacheTest, StaysWithinItsLimitsAndSparesWhatIsLoaded) {
  const std::string state = StateFolder("limits");
  const std::vector<std::string> flags = {"--cache-entries-per-kernel=4", "--max-variants=1000"};
  StartDaemon(state, flags);
  const std::string module = RegisterText(kModule);
  for (uint32_t warps : {1, 2, 4, 8, 16, 32}) ASSERT_EQ(Outcome({module, 0, warps}), "compiled");
  // All are loaded: nothing may go, whatever the limit says.
  EXPECT_EQ(Collect(false).entries(), 0u);
  EXPECT_EQ(Entries("artifacts"), 6u);
  // After a restart two are in use again, and the rest is bounded.
  buffer_.reset();
  StartDaemon(state, flags);
  RegisterText(kModule);
  ASSERT_EQ(Outcome({module, 0, 1}), "hit");
  ASSERT_EQ(Outcome({module, 0, 2}), "hit");
  // The round that is due at the start of a daemon may have come first.
  const v1::CacheCollectResponse would = Collect(true);
  EXPECT_EQ(would.max_entries_per_kernel(), 4u);
  EXPECT_LE(would.entries(), 2u);
  Collect(false);
  EXPECT_EQ(Entries("artifacts"), 4u);
  EXPECT_EQ(Entries("inventory"), 4u);
  EXPECT_EQ(Stats().evictions(), 2u);
  buffer_.reset();
  StartDaemon(state, flags);
  RegisterText(kModule);
  EXPECT_EQ(Outcome({module, 0, 1}), "hit");
  EXPECT_EQ(Outcome({module, 0, 2}), "hit");
}

TEST_F(CacheTest, ABundleMakesAnEmptyDaemonServeEverythingWithoutACompile) {
  StartDaemon(StateFolder("from"));
  const std::string module = RegisterText(kModule);
  rows_buffer_ = Allocate(2 * 4096 * 8 * 4);
  for (uint32_t warps : {1, 2, 4}) ASSERT_EQ(Outcome({module, 0, warps}), "compiled");
  ASSERT_EQ(Outcome({module, 256}), "compiled");
  for (int n_rows : {1, 16, 17}) ASSERT_EQ(Rows(module, n_rows), "compiled");
  const std::string bundle = Export();
  EXPECT_EQ(bundle, Export());
  v1::CacheExportRequest only_rows;
  only_rows.add_kernels("rows");
  only_rows.add_families("artifacts");
  const std::string rows_bundle = Export(only_rows);
  EXPECT_LT(rows_bundle.size(), bundle.size() / 2);
  rows_buffer_.reset();
  buffer_.reset();

  StartDaemon(StateFolder("to"), {"--metrics=127.0.0.1:0"});
  v1::CacheImportResponse report;
  grpc::Status imported = Import(bundle, &report);
  ASSERT_TRUE(imported.ok()) << imported.error_message();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.rejected(), 0u);
  EXPECT_EQ(report.entries(), 8u);  // 7 artifacts and their module
  EXPECT_EQ(Export(), bundle);
  rows_buffer_ = Allocate(2 * 4096 * 8 * 4);
  // By the module's id alone: its source came along.
  for (uint32_t warps : {1, 2, 4}) EXPECT_EQ(Outcome({module, 0, warps}), "hit");
  EXPECT_EQ(Outcome({module, 256}), "hit");
  for (int n_rows : {1, 16, 17}) EXPECT_EQ(Rows(module, n_rows), "hit");
  EXPECT_EQ(Status().compiles(), 0u);
  const std::string metrics = Status().metrics_address();
  EXPECT_EQ(Metric(metrics, "tessera_compile_requests_total{result=\"miss\"}"), 0);
  EXPECT_EQ(Metric(metrics, "tessera_compile_requests_total{result=\"hit\"}"), 7);
  rows_buffer_.reset();
  buffer_.reset();

  // What the filter took serves its kernel; the other one is compiled.
  StartDaemon(StateFolder("to_rows"));
  ASSERT_TRUE(Import(rows_bundle, &report).ok());
  EXPECT_EQ(report.entries(), 3u);
  rows_buffer_ = Allocate(2 * 4096 * 8 * 4);
  RegisterText(kModule);
  for (int n_rows : {1, 16, 17}) EXPECT_EQ(Rows(module, n_rows), "hit");
  EXPECT_EQ(Outcome({module}), "compiled");
  rows_buffer_.reset();
}

TEST_F(CacheTest, ADamagedBundleBringsWhatIsSoundAndNoForgery) {
  StartDaemon(StateFolder("whole"));
  const std::string module = RegisterText(kModule);
  for (uint32_t warps : {1, 2, 4}) ASSERT_EQ(Outcome({module, 0, warps}), "compiled");
  std::string bundle = Export();
  buffer_.reset();
  bundle[bundle.size() / 2] ^= 1;
  StartDaemon(StateFolder("damaged"));
  v1::CacheImportResponse report;
  ASSERT_TRUE(Import(bundle, &report).ok());
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.rejected(), 1u);
  EXPECT_GT(report.findings_size(), 0);
  RegisterText(kModule);
  int hits = 0;
  for (uint32_t warps : {1, 2, 4}) hits += Outcome({module, 0, warps}) == "hit";
  EXPECT_EQ(hits, 2);
  EXPECT_EQ(Import("this is no bundle, and long enough to see it", &report).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  buffer_.reset();
  StartDaemon(StateFolder("closed"), {"--cache-import=false"});
  EXPECT_EQ(Import(bundle, &report).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace tessera
