// The main job over the wire: kernels from source text to results in shared memory, on both CPU targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "base/small_float.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr char kFused[] = "tests/integration/kernels/fused.py";

uint64_t RoundUp(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// A tensor in shared memory. `at_end`: it ends where the region's last page ends, so that the first byte behind it
// belongs to the executor's guard page; else it begins where the region begins.
struct Tensor {
  std::unique_ptr<SharedBuffer> buffer;
  uint64_t offset = 0, bytes = 0;
  template <typename T>
  T* as() const { return reinterpret_cast<T*>(buffer->as<char>() + offset); }
};


class LaunchOn : public DaemonFixture {
 protected:
  Tensor MakeTensor(uint64_t bytes, bool at_end) {
    Tensor tensor;
    tensor.bytes = bytes;
    tensor.buffer = Allocate(RoundUp(std::max<uint64_t>(bytes, 1)));
    std::memset(tensor.buffer->data(), 0xff, tensor.buffer->size());
    if (at_end) tensor.offset = tensor.buffer->size() - bytes;
    return tensor;
  }
  Tensor RandomHalf(int64_t count, double scale, bool at_end, std::mt19937& random) {
    Tensor tensor = MakeTensor(count * 2, at_end);
    std::normal_distribution<float> normal(0, scale);
    for (int64_t i = 0; i < count; ++i) tensor.as<uint16_t>()[i] = FloatToHalf(normal(random));
    return tensor;
  }
  // No byte of the region outside the tensor changed.
  void ExpectMarginsUntouched(const Tensor& tensor) {
    for (uint64_t i = 0; i < tensor.buffer->size(); ++i)
      if (i < tensor.offset || i >= tensor.offset + tensor.bytes)
        ASSERT_EQ(tensor.buffer->as<uint8_t>()[i], 0xff) << "byte " << i << " outside the tensor was written";
  }
  static v1::Argument Arg(const std::string& name, const Tensor& tensor, DType dtype, const std::vector<int64_t>& shape) {
    return TensorArgument(name, *tensor.buffer, dtype, shape, tensor.offset);
  }

  void RunMatmul(const std::string& device, const std::string& module, int64_t m, int64_t n, int64_t k, bool gelu, bool at_end) {
    SCOPED_TRACE(::testing::Message() << device << " " << m << "x" << n << "x" << k << " gelu=" << gelu << " at_end=" << at_end);
    std::mt19937 random(m * 31 + n * 7 + k);
    Tensor a = RandomHalf(m * k, 1, at_end, random), b = RandomHalf(k * n, 1 / std::sqrt(k), at_end, random), bias = RandomHalf(n, 1, at_end, random);
    Tensor c = MakeTensor(m * n * 2, at_end);
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("matmul_bias_gelu");
    launch.set_device(device);
    launch.add_grid_expressions("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)");
    *launch.add_arguments() = Arg("a_ptr", a, DType::kFp16, {m, k});
    *launch.add_arguments() = Arg("b_ptr", b, DType::kFp16, {k, n});
    *launch.add_arguments() = Arg("bias_ptr", bias, DType::kFp16, {n});
    *launch.add_arguments() = Arg("c_ptr", c, DType::kFp16, {m, n});
    for (auto [name, value] : std::vector<std::pair<std::string, int64_t>>{
             {"M", m}, {"N", n}, {"K", k}, {"stride_am", k}, {"stride_ak", 1}, {"stride_bk", n}, {"stride_bn", 1}, {"stride_cm", n}, {"stride_cn", 1}})
      *launch.add_arguments() = IntArgument(name, value);
    *launch.add_arguments() = ConstexprArgument("APPLY_GELU", BoolConstant(gelu));
    auto response = client_->Launch(launch);
    ASSERT_TRUE(response.ok()) << response.status();
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double x = HalfToFloat(bias.as<uint16_t>()[j]);
        for (int64_t l = 0; l < k; ++l) x += double(HalfToFloat(a.as<uint16_t>()[i * k + l])) * HalfToFloat(b.as<uint16_t>()[l * n + j]);
        if (gelu) x = 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
        double got = HalfToFloat(c.as<uint16_t>()[i * n + j]);
        ASSERT_FALSE(std::isnan(got)) << "element " << i << ", " << j << " was not written";
        difference += (got - x) * (got - x);
        norm += x * x;
      }
    EXPECT_LT(std::sqrt(difference / norm), 1e-3);  // fp16 output: half a place in the last is 2.4e-4
    for (const Tensor* tensor : {&a, &b, &bias, &c}) ExpectMarginsUntouched(*tensor);
  }

  v1::LaunchRequest AddLaunch(const std::string& module, const Tensor& x, const Tensor& y, const Tensor& out, int64_t n, int64_t block) {
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("add");
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = Arg("x_ptr", x, DType::kFp32, {n});
    *launch.add_arguments() = Arg("y_ptr", y, DType::kFp32, {n});
    *launch.add_arguments() = Arg("out_ptr", out, DType::kFp32, {n});
    *launch.add_arguments() = IntArgument("n", n);
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(block));
    return launch;
  }
};

TEST_F(LaunchOn, AddCoversEveryElementAndNothingElse) {
  StartDaemon();
  std::string module = Register(kFused);
  for (const char* device : {"cpu", "interpreter"})
    for (int64_t n : {1, 127, 255, 1000, 1025})
      for (bool at_end : {false, true}) {
        Tensor x = MakeTensor(n * 4, at_end), y = MakeTensor(n * 4, at_end), out = MakeTensor(n * 4, at_end);
        std::mt19937 random(n);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < n; ++i) {
          x.as<float>()[i] = normal(random);
          y.as<float>()[i] = normal(random);
        }
        v1::LaunchRequest launch = AddLaunch(module, x, y, out, n, 256);
        launch.set_device(device);
        auto response = client_->Launch(launch);
        ASSERT_TRUE(response.ok()) << response.status();
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.as<float>()[i], x.as<float>()[i] + y.as<float>()[i]) << device << " n=" << n << " i=" << i;
        ExpectMarginsUntouched(out);
      }
}

TEST_F(LaunchOn, FusedMatmulIsRightOnEveryEdge) {
  StartDaemon();
  std::string module = Register(kFused);
  for (bool gelu : {true, false})
    for (bool at_end : {false, true}) {
      RunMatmul("cpu", module, 1, 1, 16, gelu, at_end);
      RunMatmul("cpu", module, 127, 255, 33, gelu, at_end);
      RunMatmul("interpreter", module, 1, 1, 16, gelu, at_end);
    }
  RunMatmul("interpreter", module, 127, 255, 33, true, true);
  RunMatmul("cpu", module, 512, 512, 512, true, true);
  RunMatmul("cpu", module, 300, 1000, 200, false, true);
}

TEST_F(LaunchOn, SpecialisesAndReusesVariants) {
  StartDaemon();
  std::string module = Register(kFused);
  Tensor x = MakeTensor(4096, false), y = MakeTensor(4096, false), out = MakeTensor(4096, false);
  auto launch = [&](int64_t n) {
    auto response = client_->Launch(AddLaunch(module, x, y, out, n, 256));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->outcome() : "";
  };
  EXPECT_EQ(launch(1000), "compiled");
  EXPECT_EQ(launch(1000), "hit");
  EXPECT_EQ(launch(999), "hit");       // 1000 and 999: neither is divisible by 16
  EXPECT_EQ(launch(992), "compiled");  // divisible by 16
  EXPECT_EQ(launch(1), "compiled");    // equal to 1
  EXPECT_EQ(launch(16), "hit");
}

TEST_F(LaunchOn, ARestartedDaemonHitsWhatWasCompiledBefore) {
  std::string state = std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/restart_state";
  StartDaemon(state);
  {
    Tensor x = MakeTensor(4096, false), y = MakeTensor(4096, false), out = MakeTensor(4096, false);
    auto response = client_->Launch(AddLaunch(Register(kFused), x, y, out, 1000, 256));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->outcome(), "compiled");
  }
  daemon_->Kill();
  StartDaemon(state);
  Tensor x = MakeTensor(4096, false), y = MakeTensor(4096, false), out = MakeTensor(4096, false);
  auto response = client_->Launch(AddLaunch(Register(kFused), x, y, out, 1000, 256));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome(), "hit");
  EXPECT_EQ(Status().compiles(), 0u);
}

TEST_F(LaunchOn, ConcurrentClientsShareOneCompile) {
  StartDaemon();
  std::string module = Register(kFused);
  std::vector<std::string> outcomes(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < outcomes.size(); ++t)
    threads.emplace_back([&, t] {
      auto client = Client::Connect(daemon_->address());
      ASSERT_TRUE(client.ok()) << client.status();
      auto buffer = (*client)->Allocate(4096);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      v1::LaunchRequest launch;
      launch.set_module(module);
      launch.set_kernel("add");
      launch.add_grid(4);
      for (const char* name : {"x_ptr", "y_ptr", "out_ptr"}) *launch.add_arguments() = TensorArgument(name, **buffer, DType::kFp32, {1000});
      *launch.add_arguments() = IntArgument("n", 1000);
      *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(512));
      auto response = (*client)->Launch(launch);
      ASSERT_TRUE(response.ok()) << response.status();
      outcomes[t] = response->outcome();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), "compiled"), 1);
  EXPECT_EQ(Status().compiles(), 1u);
}

TEST_F(LaunchOn, NoneArgumentsAndStringConstants) {
  StartDaemon();
  std::string module = Register(kFused);
  const int64_t rows = 3, cols = 100;
  for (bool with_bias : {false, true}) {
    Tensor x = MakeTensor(rows * cols * 2, true), bias = MakeTensor(cols * 2, true), out = MakeTensor(rows * cols * 2, true);
    for (int64_t i = 0; i < rows * cols; ++i) x.as<uint16_t>()[i] = FloatToBf16((i % 7) - 3);
    for (int64_t i = 0; i < cols; ++i) bias.as<uint16_t>()[i] = FloatToBf16(i % 3);
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel("scale_rows");
    launch.add_grid(rows);
    *launch.add_arguments() = Arg("x_ptr", x, DType::kBf16, {rows, cols});
    *launch.add_arguments() = with_bias ? Arg("bias_ptr", bias, DType::kBf16, {cols}) : NoneArgument("bias_ptr");
    *launch.add_arguments() = Arg("out_ptr", out, DType::kBf16, {rows, cols});
    *launch.add_arguments() = IntArgument("rows", rows);
    *launch.add_arguments() = IntArgument("cols", cols);
    *launch.add_arguments() = FloatArgument("factor", 0.5);
    *launch.add_arguments() = ConstexprArgument("MODE", TextConstant("relu"));
    *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(128));
    auto response = client_->Launch(launch);
    ASSERT_TRUE(response.ok()) << response.status();
    for (int64_t i = 0; i < rows * cols; ++i) {
      double want = std::max(0.0, (i % 7) - 3.0 + (with_bias ? i % cols % 3 : 0)) * 0.5;
      ASSERT_EQ(Bf16ToFloat(out.as<uint16_t>()[i]), want) << i;
    }
  }
}

TEST_F(LaunchOn, AnEmptyGridLaunchesNothing) {
  StartDaemon();
  Tensor x = MakeTensor(4096, false), out = MakeTensor(4096, false);
  v1::LaunchRequest launch = AddLaunch(Register(kFused), x, x, out, 1000, 256);
  launch.clear_grid_expressions();
  launch.add_grid(0);
  ASSERT_TRUE(client_->Launch(launch).ok());
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(out.as<uint8_t>()[i], 0xff);
}

TEST_F(LaunchOn, ASecondDaemonOnTheStateDirectoryIsRefused) {
  std::string state = std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/shared_state";
  StartDaemon(state);
  PrivateDaemonOptions options;
  options.binary = Runfile("server/tesserad");
  options.state_dir = state;
  auto second = PrivateDaemon::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(state));
  EXPECT_EQ(Status().state(), "serving");
}

}  // namespace
}  // namespace tessera
