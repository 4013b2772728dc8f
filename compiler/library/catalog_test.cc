// Contracts of the shipped operations: what is accepted, and that errors name the tensor.
#include "compiler/library/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::library {
namespace {

using ::testing::HasSubstr;

OpTensor Tensor(std::string name, DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  if (strides.empty()) {
    strides.resize(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= shape[i];
    }
  }
  return {std::move(name), dtype, std::move(shape), std::move(strides)};
}

OpRequest Linear() {
  return {{Tensor("x", DType::kFp16, {3, 4}), Tensor("w", DType::kFp16, {4, 5}), Tensor("bias", DType::kFp16, {5}),
           Tensor("out", DType::kFp16, {3, 5})},
          {}};
}

std::string ErrorOf(absl::string_view op, const OpRequest& request) {
  auto plan = PlanOp(op, request);
  return plan.ok() ? "ok" : std::string(plan.status().message());
}

int64_t BlockOf(const OpPlan& plan) {
  for (const OpArgument& argument : plan.arguments)
    if (argument.parameter == "BLOCK") return std::get<storage::ConstantValue>(argument.value).integer();
  return 0;
}

TEST(Catalog, PlansALinearWithAndWithoutBias) {
  OpRequest request = Linear();
  auto plan = PlanOp("linear", request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->kernel, "linear");
  request.tensors.erase(request.tensors.begin() + 2);
  plan = PlanOp("linear", request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(std::get<storage::ConstantValue>(plan->arguments[2].value).has_none());
}

TEST(Catalog, ErrorsNameTheTensor) {
  OpRequest request = Linear();
  request.tensors[1] = Tensor("w", DType::kFp16, {6, 5});
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("tensor 'w' has 6 for K (dimension 0), other tensors have 4"));
  request = Linear();
  request.tensors[1].dtype = DType::kFp32;
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("tensor 'w' is fp32, but 'x' is fp16"));
  request = Linear();
  request.tensors[0].dtype = DType::kInt32;
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("tensor 'x' is i32; accepted: fp16|bf16|fp32"));
  request = Linear();
  request.tensors.pop_back();
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("tensor 'out' is missing"));
  request = Linear();
  request.tensors.push_back(Tensor("y", DType::kFp16, {1}));
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("unknown tensor 'y'"));
  request = Linear();
  request.tensors[3].strides = {0, 1};
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("let elements share memory"));
  request = Linear();
  request.attributes["activation"].set_text("swish");
  EXPECT_THAT(ErrorOf("linear", request), HasSubstr("attribute 'activation' is 'swish'; accepted: none, relu, gelu"));
  EXPECT_THAT(ErrorOf("conv", request), HasSubstr("no op 'conv'; known: linear rmsnorm softmax"));
}

TEST(Catalog, RowsJustAboveAPowerOfTwoAreWalkedInBlocks) {
  auto plan = [](int64_t cols) {
    return *PlanOp("softmax", {{Tensor("x", DType::kFp32, {7, cols}), Tensor("out", DType::kFp32, {7, cols})}, {}});
  };
  EXPECT_EQ(plan(1000).kernel, "softmax_row");
  EXPECT_EQ(BlockOf(plan(1000)), 1024);
  EXPECT_EQ(plan(1025).kernel, "softmax_blocks");
  EXPECT_EQ(BlockOf(plan(1025)), 1024);
  EXPECT_EQ(plan(32768).kernel, "softmax_blocks");
  EXPECT_EQ(BlockOf(plan(1)), 16);
}

TEST(Catalog, InnerStrideOfRowsMustBeOne) {
  OpRequest request{{Tensor("x", DType::kFp32, {7, 8}, {16, 2}), Tensor("out", DType::kFp32, {7, 8})}, {}};
  EXPECT_THAT(ErrorOf("softmax", request), HasSubstr("tensor 'x' has stride 2 along its last dimension"));
}

}  // namespace
}  // namespace tessera::library
