// Fused operations by name, against double-precision references.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/small_float.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// A tensor of fp16, bf16 or fp32 in shared memory, read and written as double.
struct Tensor {
  std::unique_ptr<SharedBuffer> buffer;
  DType dtype;
  std::vector<int64_t> shape;
  double Get(int64_t i) const {
    if (dtype == DType::kFp16) return HalfToFloat(buffer->as<uint16_t>()[i]);
    if (dtype == DType::kBf16) return Bf16ToFloat(buffer->as<uint16_t>()[i]);
    return buffer->as<float>()[i];
  }
  void Set(int64_t i, float value) {
    if (dtype == DType::kFp16) buffer->as<uint16_t>()[i] = FloatToHalf(value);
    else if (dtype == DType::kBf16) buffer->as<uint16_t>()[i] = FloatToBf16(value);
    else buffer->as<float>()[i] = value;
  }
};

class OpsTest : public DaemonFixture {
 protected:
  void SetUp() override { StartDaemon(); }

  Tensor Make(DType dtype, std::vector<int64_t> shape, double scale = 0) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    Tensor tensor{Allocate(count * ByteSize(dtype)), dtype, std::move(shape)};
    std::memset(tensor.buffer->data(), 0xff, tensor.buffer->size());  // NaN
    std::normal_distribution<float> normal(0, scale);
    if (scale > 0)
      for (int64_t i = 0; i < count; ++i) tensor.Set(i, normal(random_));
    return tensor;
  }

  absl::StatusOr<v1::LaunchResponse> Launch(const std::string& op, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                                            const std::vector<std::pair<std::string, v1::Constant>>& attributes = {}) {
    v1::LaunchOpRequest request;
    request.set_op(op);
    for (const auto& [name, tensor] : tensors) *request.add_tensors() = TensorArgument(name, *tensor->buffer, tensor->dtype, tensor->shape);
    for (const auto& [name, value] : attributes) {
      v1::NamedConstant* attribute = request.add_attributes();
      attribute->set_name(name);
      *attribute->mutable_value() = value;
    }
    return client_->LaunchOp(request);
  }

  // The unit in the last place of a result near 1, twice: the result is rounded once, the computation is in fp32.
  static double Tolerance(DType dtype) { return dtype == DType::kFp16 ? 1e-3 : dtype == DType::kBf16 ? 8e-3 : 2e-5; }

  std::mt19937 random_{11};
};

TEST_F(OpsTest, LinearWithEveryActivationAndDtype) {
  for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32})
    for (const char* activation : {"none", "relu", "gelu"})
      for (auto [m, n, k] : {std::tuple<int, int, int>{1, 1, 16}, {33, 70, 127}, {65, 129, 200}}) {
        SCOPED_TRACE(::testing::Message() << ShortName(dtype) << " " << activation << " " << m << "x" << n << "x" << k);
        Tensor x = Make(dtype, {m, k}, 1), w = Make(dtype, {k, n}, 1 / std::sqrt(k)), bias = Make(dtype, {n}, 1), out = Make(dtype, {m, n});
        auto response = Launch("linear", {{"x", &x}, {"w", &w}, {"bias", &bias}, {"out", &out}},
                               {{"activation", TextConstant(activation)}, {"input_precision", TextConstant("ieee")}});
        ASSERT_TRUE(response.ok()) << response.status();
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            double want = bias.Get(j);
            for (int l = 0; l < k; ++l) want += x.Get(i * k + l) * w.Get(l * n + j);
            if (std::string(activation) == "relu") want = std::max(want, 0.0);
            if (std::string(activation) == "gelu") want = 0.5 * want * (1 + std::tanh(0.7978845608028654 * (want + 0.044715 * want * want * want)));
            ASSERT_NEAR(out.Get(i * n + j), want, Tolerance(dtype) * std::max(1.0, std::abs(want))) << i << ", " << j;
          }
      }
}

TEST_F(OpsTest, SoftmaxOfEveryWidth) {
  for (DType dtype : {DType::kFp16, DType::kFp32})
    for (int64_t cols : {1, 2, 127, 255, 1000, 1025, 20000}) {
      SCOPED_TRACE(::testing::Message() << ShortName(dtype) << " cols=" << cols);
      const int64_t rows = 3;
      Tensor x = Make(dtype, {rows, cols}, 4), out = Make(dtype, {rows, cols});
      for (int64_t j = 0; j < cols; ++j) x.Set(cols + j, -60000.0f + (j % 5));  // far below zero: a wrong inactive value would show
      auto response = Launch("softmax", {{"x", &x}, {"out", &out}});
      ASSERT_TRUE(response.ok()) << response.status();
      for (int64_t i = 0; i < rows; ++i) {
        double top = -HUGE_VAL, sum = 0;
        for (int64_t j = 0; j < cols; ++j) top = std::max(top, x.Get(i * cols + j));
        for (int64_t j = 0; j < cols; ++j) sum += std::exp(x.Get(i * cols + j) - top);
        for (int64_t j = 0; j < cols; ++j) {
          double want = std::exp(x.Get(i * cols + j) - top) / sum;
          ASSERT_NEAR(out.Get(i * cols + j), want, Tolerance(dtype) * want + (dtype == DType::kFp16 ? 6e-8 : 0)) << i << ", " << j;
        }
      }
    }
}

TEST_F(OpsTest, SoftmaxOfExtremeRows) {
  const int64_t cols = 40;
  Tensor x = Make(DType::kFp32, {3, cols}, 1), out = Make(DType::kFp32, {3, cols});
  x.Set(7, HUGE_VALF);                                                // inf - inf: NaN in the row, as the formula gives
  for (int64_t j = 0; j < cols; ++j) x.Set(cols + j, -HUGE_VALF);     // nothing to normalise
  x.Set(2 * cols + 3, -HUGE_VALF);                                    // a masked logit
  auto response = Launch("softmax", {{"x", &x}, {"out", &out}});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(std::isnan(out.Get(7)));
  EXPECT_TRUE(std::isnan(out.Get(cols)));
  EXPECT_EQ(out.Get(2 * cols + 3), 0);
  double sum = 0;
  for (int64_t j = 0; j < cols; ++j) sum += out.Get(2 * cols + j);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(OpsTest, RmsnormOfEveryWidth) {
  for (DType dtype : {DType::kBf16, DType::kFp32})
    for (int64_t cols : {1, 100, 1000, 1025, 20000}) {
      SCOPED_TRACE(::testing::Message() << ShortName(dtype) << " cols=" << cols);
      Tensor x = Make(dtype, {2, cols}, 2), weight = Make(dtype, {cols}, 1), out = Make(dtype, {2, cols});
      v1::Constant eps;
      eps.set_real(1e-5);
      auto response = Launch("rmsnorm", {{"x", &x}, {"weight", &weight}, {"out", &out}}, {{"eps", eps}});
      ASSERT_TRUE(response.ok()) << response.status();
      for (int64_t i = 0; i < 2; ++i) {
        double squares = 0;
        for (int64_t j = 0; j < cols; ++j) squares += x.Get(i * cols + j) * x.Get(i * cols + j);
        for (int64_t j = 0; j < cols; ++j) {
          double want = x.Get(i * cols + j) / std::sqrt(squares / cols + 1e-5) * weight.Get(j);
          ASSERT_NEAR(out.Get(i * cols + j), want, Tolerance(dtype) * std::abs(want) + 1e-7) << i << ", " << j;
        }
      }
    }
}

TEST_F(OpsTest, BrokenContractsNameTheTensor) {
  Tensor x = Make(DType::kFp32, {4, 8}, 1), w = Make(DType::kFp32, {9, 5}, 1), out = Make(DType::kFp32, {4, 5});
  auto response = Launch("linear", {{"x", &x}, {"w", &w}, {"out", &out}});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("tensor 'w' has 9 for K"));
  response = Launch("conv3d", {{"x", &x}});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("linear"));
}

TEST_F(OpsTest, ListsContracts) {
  grpc::ClientContext context;
  v1::ListOpsResponse response;
  ASSERT_TRUE(client_->ops().ListOps(&context, v1::ListOpsRequest(), &response).ok());
  ASSERT_EQ(response.ops_size(), 3);
  EXPECT_EQ(response.ops(0).name(), "linear");
  EXPECT_THAT(response.ops(0).tensors(0).contract(), HasSubstr("[M, K] fp16|bf16|fp32"));
}

}  // namespace
}  // namespace tessera
