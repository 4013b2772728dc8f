#include "compiler/library/catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/library/contract.h"
#include "compiler/library/kernels.inc"  // kLinearSource, kSoftmaxSource, kRmsnormSource

namespace tessera::library {
namespace {

const std::vector<DType> kFloats = {DType::kFp16, DType::kBf16, DType::kFp32};

storage::ConstantValue Word(absl::string_view text) {
  storage::ConstantValue value;
  value.set_text(std::string(text));
  return value;
}
storage::ConstantValue Number(int64_t number) {
  storage::ConstantValue value;
  value.set_integer(number);
  return value;
}
storage::ConstantValue None() {
  storage::ConstantValue value;
  value.mutable_none();
  return value;
}

int64_t NextPowerOf2(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

//===-- linear --------------------------------------------------------------------------------===//

const Contract& LinearContract() {
  static const Contract* contract = new Contract{
      "linear",
      {{"x", {"M", "K"}, kFloats},
       {"w", {"K", "N"}, kFloats, false, "x"},
       {"bias", {"N"}, kFloats, true},
       {"out", {"M", "N"}, kFloats, false, "", false, true}},
      {{"activation", {"none", "relu", "gelu"}, "none"},
       {"input_precision", {"tf32", "ieee", "tf32x3"}, "tf32"}}};
  return *contract;
}

absl::StatusOr<OpPlan> PlanLinear(const OpRequest& request) {
  ASSIGN_OR_RETURN(CheckedRequest checked, Check(LinearContract(), request));
  const OpTensor &x = *checked.tensors["x"], &w = *checked.tensors["w"], &out = *checked.tensors["out"];
  auto bias = checked.tensors.find("bias");
  bool has_bias = bias != checked.tensors.end();
  OpPlan plan;
  plan.kernel = "linear";
  plan.arguments = {
      {"x_ptr", TensorArgument{"x"}},
      {"w_ptr", TensorArgument{"w"}},
      {"bias_ptr", has_bias ? OpArgumentValue(TensorArgument{"bias"}) : OpArgumentValue(None())},
      {"out_ptr", TensorArgument{"out"}},
      {"M", checked.dims["M"]},
      {"N", checked.dims["N"]},
      {"K", checked.dims["K"]},
      {"stride_xm", x.strides[0]},
      {"stride_xk", x.strides[1]},
      {"stride_wk", w.strides[0]},
      {"stride_wn", w.strides[1]},
      {"stride_bias", has_bias ? bias->second->strides[0] : int64_t{1}},
      {"stride_om", out.strides[0]},
      {"stride_on", out.strides[1]},
      {"ACTIVATION", Word(checked.words["activation"])},
      {"PRECISION", Word(checked.words["input_precision"])},
  };
  plan.grid = {"cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)"};
  return plan;
}

//===-- row operations ------------------------------------------------------------------------===//

const Contract& SoftmaxContract() {
  static const Contract* contract = new Contract{
      "softmax",
      {{"x", {"rows", "cols"}, kFloats, false, "", true},
       {"out", {"rows", "cols"}, kFloats, false, "", true, true}},
      {}};
  return *contract;
}

const Contract& RmsnormContract() {
  static const Contract* contract = new Contract{
      "rmsnorm",
      {{"x", {"rows", "cols"}, kFloats, false, "", true},
       {"weight", {"cols"}, kFloats, false, "", true},
       {"out", {"rows", "cols"}, kFloats, false, "", true, true}},
      {{"eps", {}, "", 1e-6}}};
  return *contract;
}

// The block that a row is computed in, and whether one block holds the row. A row stays in one block up to 16384
// columns unless more than a quarter of the block would be padding (1025 columns in 2048, say).
struct RowBlock {
  int64_t block;
  bool whole_row;
};
RowBlock ChooseRowBlock(int64_t cols) {
  int64_t padded = std::max<int64_t>(NextPowerOf2(cols), 16);
  bool wasteful = padded > 1024 && (padded - cols) * 4 > padded;
  if (padded <= 16384 && !wasteful) return {padded, true};
  return {std::min<int64_t>(padded / 2, 2048), false};
}

OpPlan PlanRows(absl::string_view op, CheckedRequest& checked) {
  const OpTensor &x = *checked.tensors["x"], &out = *checked.tensors["out"];
  RowBlock row = ChooseRowBlock(checked.dims["cols"]);
  OpPlan plan;
  plan.kernel = absl::StrCat(op, row.whole_row ? "_row" : "_blocks");
  plan.arguments = {
      {"x_ptr", TensorArgument{"x"}},
      {"out_ptr", TensorArgument{"out"}},
      {"x_stride", x.strides[0]},
      {"out_stride", out.strides[0]},
      {"cols", checked.dims["cols"]},
      {"BLOCK", Number(row.block)},
  };
  plan.options.set_num_warps(row.block >= 8192 ? 8 : 4);
  plan.grid = {absl::StrCat(checked.dims["cols"] == 0 ? 0 : checked.dims["rows"])};
  return plan;
}

absl::StatusOr<OpPlan> PlanSoftmax(const OpRequest& request) {
  ASSIGN_OR_RETURN(CheckedRequest checked, Check(SoftmaxContract(), request));
  return PlanRows("softmax", checked);
}

absl::StatusOr<OpPlan> PlanRmsnorm(const OpRequest& request) {
  ASSIGN_OR_RETURN(CheckedRequest checked, Check(RmsnormContract(), request));
  OpPlan plan = PlanRows("rmsnorm", checked);
  plan.arguments.push_back({"weight_ptr", TensorArgument{"weight"}});
  plan.arguments.push_back({"eps", checked.numbers["eps"]});
  return plan;
}

OpDescription DescribeOp(const Contract& contract, absl::string_view summary, absl::string_view source) {
  OpDescription description;
  description.name = contract.op;
  description.summary = std::string(summary);
  for (const TensorRule& rule : contract.tensors) description.tensors.push_back({rule.name, Describe(rule)});
  for (const AttributeRule& rule : contract.attributes) description.attributes.push_back({rule.name, Describe(rule)});
  description.source.set_path(absl::StrCat("tessera/library/", contract.op, ".py"));
  description.source.set_text(std::string(source));
  return description;
}

}  // namespace

const std::vector<OpDescription>& ListOps() {
  static const auto* ops = new std::vector<OpDescription>{
      DescribeOp(LinearContract(), "out = activation(x @ w + bias), summed in fp32", kLinearSource),
      DescribeOp(RmsnormContract(), "out = x / sqrt(mean(x^2) + eps) * weight, row by row, in fp32", kRmsnormSource),
      DescribeOp(SoftmaxContract(), "out = softmax(x), row by row, in fp32", kSoftmaxSource),
  };
  return *ops;
}

absl::StatusOr<OpPlan> PlanOp(absl::string_view op, const OpRequest& request) {
  if (op == "linear") return PlanLinear(request);
  if (op == "softmax") return PlanSoftmax(request);
  if (op == "rmsnorm") return PlanRmsnorm(request);
  std::string known;
  for (const OpDescription& description : ListOps()) absl::StrAppend(&known, " ", description.name);
  return absl::NotFoundError(absl::StrCat("no op '", op, "'; known:", known));
}

}  // namespace tessera::library
