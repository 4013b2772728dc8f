// The worker loop over a socket pair.
#include "compiler/driver/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "proto/worker/worker.pb.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

class Worker : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fd_ = fds[0];
    thread_ = std::thread([this, other = fds[1]] {
      exit_status_ = RunWorker(other);
      ::close(other);
    });
  }
  void TearDown() override {
    ::close(fd_);
    thread_.join();
    EXPECT_EQ(exit_status_, 0) << "the worker ends quietly when its socket closes";
  }

  void SendBytes(const std::string& bytes) { ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size())); }
  void SendFrame(const std::string& payload) {
    std::string frame(4, '\0');
    for (int i = 0; i < 4; ++i) frame[i] = char(payload.size() >> (8 * i));
    SendBytes(frame + payload);
  }
  worker::WorkerResponse Receive() {
    unsigned char header[4];
    EXPECT_EQ(::recv(fd_, header, 4, MSG_WAITALL), 4);
    std::string bytes(header[0] | header[1] << 8 | header[2] << 16 | header[3] << 24, '\0');
    EXPECT_EQ(::recv(fd_, bytes.data(), bytes.size(), MSG_WAITALL), ssize_t(bytes.size()));
    worker::WorkerResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    return response;
  }

  int fd_ = -1;

 private:
  std::thread thread_;
  int exit_status_ = -1;
};

worker::WorkerRequest Describe(uint64_t id, const std::string& text) {
  worker::WorkerRequest request;
  request.set_id(id);
  request.mutable_describe()->add_files()->set_text(text);
  return request;
}

const char kKernel[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef f(p, N: tl.constexpr):\n    tl.store(p, N)\n";

TEST_F(Worker, AnswersDescriptionsAndCompilesWithTheirIds) {
  SendFrame(Describe(41, kKernel).SerializeAsString());
  worker::WorkerResponse response = Receive();
  EXPECT_EQ(response.id(), 41u);
  EXPECT_EQ(response.code(), int(absl::StatusCode::kOk));
  ASSERT_EQ(response.description().kernels_size(), 1);

  worker::WorkerRequest request;
  request.set_id(42);
  storage::CompileJob* job = request.mutable_compile();
  job->add_files()->set_text(kKernel);
  job->set_kernel("f");
  job->set_target("interpreter");
  job->add_parameters()->set_name("p");
  job->mutable_parameters(0)->set_type("*i32");
  job->add_parameters()->set_name("N");
  job->mutable_parameters(1)->mutable_constant()->set_integer(7);
  SendFrame(request.SerializeAsString());
  response = Receive();
  EXPECT_EQ(response.id(), 42u);
  EXPECT_EQ(response.code(), int(absl::StatusCode::kOk)) << response.message();
  EXPECT_FALSE(response.artifact().code().empty());
}

TEST_F(Worker, SurvivesBadInputAndGoesOnServing) {
  SendFrame("this is no protobuf message \xff\xff\xff");
  EXPECT_EQ(Receive().code(), int(absl::StatusCode::kInvalidArgument));
  SendFrame("");
  EXPECT_EQ(Receive().code(), int(absl::StatusCode::kInvalidArgument));
  SendFrame(Describe(1, "def f(:\n").SerializeAsString());
  Receive();
  worker::WorkerRequest request;
  request.set_id(2);
  request.mutable_compile()->add_files()->set_text(kKernel);
  request.mutable_compile()->set_kernel("missing");
  request.mutable_compile()->set_target("interpreter");
  SendFrame(request.SerializeAsString());
  worker::WorkerResponse response = Receive();
  EXPECT_EQ(response.code(), int(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(response.message(), HasSubstr("missing"));
  EXPECT_GT(response.diagnostics_size(), 0);
  SendFrame(Describe(3, kKernel).SerializeAsString());
  EXPECT_EQ(Receive().code(), int(absl::StatusCode::kOk));
}

TEST_F(Worker, RequestsInPiecesArePutTogether) {
  const std::string payload = Describe(9, kKernel).SerializeAsString();
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = char(payload.size() >> (8 * i));
  frame += payload;
  for (char c : frame) SendBytes(std::string(1, c));
  EXPECT_EQ(Receive().id(), 9u);
}

TEST_F(Worker, EndsWhenTheSocketClosesInsideARequest) { SendBytes(std::string("\x10\0\0\0abc", 7)); }

}  // namespace
}  // namespace tessera::compiler
