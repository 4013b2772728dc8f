// Bad input gets a clear error with its place, and the same daemon goes on serving.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInputTest : public DaemonFixture {
 protected:
  void SetUp() override {
    StartDaemon();
    module_ = Register("tests/integration/kernels/fused.py");
    x_ = Allocate(4096);
    out_ = Allocate(4096);
    ExpectServes();
  }

  v1::LaunchRequest Add(int64_t n, int64_t block) {
    v1::LaunchRequest launch;
    launch.set_module(module_);
    launch.set_kernel("add");
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("y_ptr", *x_, DType::kFp32, {n});
    *launch.add_arguments() = TensorArgument("out_ptr", *out_, DType::kFp32, {n});
    *launch.add_arguments() = IntArgument("n", n);
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(block));
    return launch;
  }

  // A right launch works, in the same daemon process as before.
  void ExpectServes() {
    for (int i = 0; i < 1000; ++i) x_->as<float>()[i] = i;
    std::memset(out_->data(), 0xff, out_->size());
    auto response = client_->Launch(Add(1000, 128));
    ASSERT_TRUE(response.ok()) << response.status();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(out_->as<float>()[i], 2.0f * i);
    pid_t pid = Status().pid();
    if (pid_ == 0) pid_ = pid;
    EXPECT_EQ(pid, pid_) << "the daemon restarted";
  }

  // Registers `body` inside a kernel file and launches kernel `k` with one fp32 tensor and BLOCK.
  absl::Status LaunchSource(const std::string& source, int64_t block, DType dtype = DType::kFp32) {
    auto module = client_->RegisterModule({{"user.py", source}});
    if (!module.ok()) return module.status();
    v1::LaunchRequest launch;
    launch.set_module(module->module());
    launch.set_kernel("k");
    launch.add_grid(1);
    *launch.add_arguments() = TensorArgument("x_ptr", *x_, dtype, {64});
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(block));
    return client_->Launch(launch).status();
  }

  static std::string Kernel(const std::string& body) {
    return "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x_ptr, BLOCK: tl.constexpr):\n" + body;
  }

  std::string module_;
  std::unique_ptr<SharedBuffer> x_, out_;
  pid_t pid_ = 0;
};

TEST_F(BadInputTest, SyntaxErrorsCarryPlaceAndCaret) {
  absl::Status status = LaunchSource(Kernel("    y = tl.load(x_ptr +\n    tl.store(x_ptr, y\n"), 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("user.py:"), HasSubstr("error:"), HasSubstr("^")));
  ExpectServes();
}

TEST_F(BadInputTest, UnknownFunctionsAreNamed) {
  absl::Status status = LaunchSource(Kernel("    i = tl.arange(0, BLOCK)\n    tl.store(x_ptr + i, tl.expp(tl.load(x_ptr + i)))\n"), 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("user.py:8:"), HasSubstr("expp"), HasSubstr("^"), HasSubstr("tl.store(x_ptr + i, tl.expp")));
  ExpectServes();
}

TEST_F(BadInputTest, WrongDtypesAreRefused) {
  absl::Status status = LaunchSource(Kernel("    i = tl.arange(0, BLOCK)\n    tl.store(x_ptr + i, tl.exp(tl.load(x_ptr + i)))\n"), 16, DType::kInt32);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("user.py:8:"), HasSubstr("^")));
  ExpectServes();
}

TEST_F(BadInputTest, BlocksMustBePowersOfTwo) {
  absl::Status status = client_->Launch(Add(1000, 100)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("power"), HasSubstr("100"), HasSubstr("fused.py:"), HasSubstr("^")));
  ExpectServes();
}

TEST_F(BadInputTest, MismatchedDotsAreRefused) {
  absl::Status status = LaunchSource(Kernel("    a = tl.zeros((16, 32), tl.float32)\n    b = tl.zeros((16, 32), tl.float32)\n    c = tl.dot(a, b)\n"), 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("user.py:9:"), HasSubstr("dot"), HasSubstr("^")));
  ExpectServes();
}

TEST_F(BadInputTest, RegionsSmallerThanTheTensorAreRefused) {
  absl::Status status = client_->Launch(Add(1025, 128)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("x_ptr"), HasSubstr("4096")));
  ExpectServes();
}

TEST_F(BadInputTest, WrongArgumentsAreNamed) {
  v1::LaunchRequest launch = Add(1000, 128);
  launch.mutable_arguments(3)->set_name("count");
  absl::Status status = client_->Launch(launch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("count"));
  launch = Add(1000, 128);
  launch.mutable_arguments()->RemoveLast();
  status = client_->Launch(launch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("BLOCK"));
  launch = Add(1000, 128);
  launch.set_kernel("addd");
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kNotFound);
  launch = Add(1000, 128);
  launch.set_module("0123");
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kNotFound);
  launch = Add(1000, 128);
  launch.set_device("cuda:7");
  EXPECT_FALSE(client_->Launch(launch).ok());
  launch = Add(1000, 128);
  launch.clear_grid_expressions();
  launch.add_grid_expressions("cdiv(n, BLOCKS)");
  status = client_->Launch(launch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("BLOCKS"));
  launch.set_grid_expressions(0, "n * 9223372036854775807");
  EXPECT_EQ(client_->Launch(launch).status().code(), absl::StatusCode::kOutOfRange);
  ExpectServes();
}

TEST_F(BadInputTest, ForeignAndReleasedRegionsAreRefused) {
  auto other = Client::Connect(address_);
  ASSERT_TRUE(other.ok()) << other.status();
  auto theirs = (*other)->Allocate(4096);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  v1::LaunchRequest launch = Add(1000, 128);
  launch.mutable_arguments(0)->mutable_tensor()->set_region((*theirs)->region());
  absl::Status status = client_->Launch(launch).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("x_ptr"));
  auto mine = Allocate(4096);
  launch.mutable_arguments(0)->mutable_tensor()->set_region(mine->region());
  EXPECT_TRUE(client_->Launch(launch).ok());
  ASSERT_TRUE(client_->Release(mine->region()).ok());
  EXPECT_FALSE(client_->Launch(launch).ok());
  ExpectServes();
}

TEST_F(BadInputTest, SessionsMustBeOpen) {
  grpc::ClientContext context;
  v1::LaunchRequest launch = Add(1000, 128);
  launch.set_session(std::string(16, 'x'));
  v1::LaunchResponse response;
  grpc::Status status = client_->launches().Launch(&context, launch, &response);
  EXPECT_FALSE(status.ok());
  v1::ErrorDetail detail;
  StatusOf(status, context, &detail).IgnoreError();
  EXPECT_FALSE(detail.reason().empty()) << "errors are machine-readable";
  ExpectServes();
}

TEST_F(BadInputTest, MemoryThatCanShrinkCannotHurtTheExecutor) {
  int fd = memfd_create("shrinks", MFD_CLOEXEC);  // sealing is not allowed on it
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  auto region = client_->ImportMemfd(fd, 8192);
  if (region.ok()) {  // accepted: then truncating it must not take the executor down
    ASSERT_EQ(ftruncate(fd, 0), 0);
    v1::LaunchRequest launch = Add(1000, 128);
    launch.mutable_arguments(0)->mutable_tensor()->set_region(*region);
    EXPECT_FALSE(client_->Launch(launch).ok());
  } else {
    EXPECT_THAT(std::string(region.status().message()), HasSubstr("seal"));
  }
  close(fd);
  ExpectServes();
}

TEST_F(BadInputTest, OversizedMessagesAreRefused) {
  auto module = client_->RegisterModule({{"big.py", std::string(80 << 20, '#')}});
  EXPECT_FALSE(module.ok());
  ExpectServes();
}

TEST_F(BadInputTest, ADiagnosticTravelsAsDetail) {
  grpc::ClientContext context;
  v1::RegisterModuleRequest request;
  v1::RegisterModuleResponse response;
  request.set_session(client_->session());
  v1::SourceFile* file = request.add_files();
  file->set_path("broken.py");
  file->set_text("import triton\n\n\n@triton.jit\ndef k(x_ptr):\n    y = = 1\n");
  grpc::Status status = client_->modules().RegisterModule(&context, request, &response);
  ASSERT_FALSE(status.ok());
  v1::ErrorDetail detail;
  absl::Status converted = StatusOf(status, context, &detail);
  EXPECT_EQ(converted.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_GE(detail.diagnostics_size(), 1);
  EXPECT_EQ(detail.diagnostics(0).file(), "broken.py");
  EXPECT_EQ(detail.diagnostics(0).line(), 6u);
  EXPECT_EQ(detail.diagnostics(0).source_line(), "    y = = 1");
}

}  // namespace
}  // namespace tessera
